// Requests to the server. A page that was saved as a file carries the answers, and asks nobody.
import { hash } from "studio/address.js";

/** @typedef {Record<string, string>} State what stands in the URL of a view */

const carried = document.getElementById("answers");
/** @type {Record<string, any> | null} request → answer, in a saved page */
const SAVED = carried ? JSON.parse(carried.textContent ?? "{}") : null;
const TOKEN = new URLSearchParams(location.search).get("token") ?? "";

/** Whether this page is a file that was saved from a studio. */
export const isSaved = SAVED !== null;

/** The view that a saved page shows, as the hash of its address was. */
export const start = SAVED?.["#"] ?? "";

/** @type {Map<string, string>} name → the first request of that name, in a page that Python wrote */
const asked = new Map();

/** @type {Map<AbortSignal, Map<string, any>>} who asked → what they show: request → answer */
const shown = new Map();

/** Remember an answer until the signal says that it is shown no longer. @param {AbortSignal} signal @param {string} path @param {any} answer */
export function keep(signal, path, answer) {
  if (signal.aborted) return;
  if (!shown.has(signal)) signal.addEventListener("abort", () => shown.delete(signal));
  shown.set(signal, (shown.get(signal) ?? new Map()).set(path, answer));
}

/** All answers that the page shows now: a saved page carries them. @returns {Record<string, any>} */
export function answersShown() {
  return Object.fromEntries([...shown.values()].flatMap((answers) => [...answers]));
}

let tasks = 0;

/** Count a task that the page waits for, in an attribute that programs can read; the function that is returned ends it. */
export function begin() {
  const count = (/** @type {number} */ change) => { tasks += change; document.body.dataset.tasks = String(tasks); };
  let open = true;
  count(1);
  return () => {
    if (open) setTimeout(() => count(-1)); // after what follows from the answer was drawn, and has asked in its turn
    open = false;
  };
}

/** @template T @param {Promise<T>} work @returns {Promise<T>} */
function counted(work) {
  const end = begin();
  work.then(end, end);
  return work;
}

/** The request for a view in a state: the same state gives the same text. @param {string} name @param {State} state */
export function request(name, state = {}) {
  const words = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== "").sort());
  return words.size ? `${name}?${words}` : name;
}

/** @param {string} path */
function address(path) {
  return `api/${path}${path.includes("?") ? "&" : "?"}token=${encodeURIComponent(TOKEN)}`;
}

/** @param {Response} response */
async function checked(response) {
  if (response.ok) return response;
  const facts = await response.json().catch(() => ({}));
  throw new Error(facts.error ?? `The server answered ${response.status}.`);
}

/** @param {string} path @param {RequestInit} [options] */
async function reach(path, options) {
  try {
    return await fetch(address(path), options);
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw new Error("The studio does not answer. Is `shiftbench studio` still running?");
  }
}

/**
 * The answer of a view, as plain data. `again`: the page shows an earlier one, and waits for nothing.
 * @param {string} name @param {State} [state] @param {AbortSignal} [signal] @param {boolean} [again] @returns {Promise<any>}
 */
export function ask(name, state = {}, signal, again = false) {
  return again ? answerOf(name, state, signal) : counted(answerOf(name, state, signal));
}

/**
 * What a saved page carries for a request. A file that Python wrote has what the view asks for once under its name, since the
 * state may be written otherwise: the answer to the first request of that name, and to no other, such as that of a disc pointed at.
 * @param {string} name @param {string} path
 */
function carriedFor(name, path) {
  const answers = SAVED ?? {};
  if (!asked.has(name)) asked.set(name, path);
  if (Object.hasOwn(answers, path)) return answers[path];
  return ["", start].includes(hash()) && asked.get(name) === path ? answers[`*${name}`] : undefined;
}

/** @param {string} name @param {State} state @param {AbortSignal} [signal] */
async function answerOf(name, state, signal) {
  const path = request(name, state);
  if (SAVED) {
    const answer = carriedFor(name, path);
    if (answer === undefined) throw new Error("This page was saved without that: open the studio to look further.");
    return answer;
  }
  const answer = await (await checked(await reach(path, { signal }))).json();
  if (signal) keep(signal, path, answer);
  return answer;
}

/**
 * Columns of numbers: the answer's bytes as 32-bit floats.
 * @param {string} name @param {State} state @param {AbortSignal} signal
 */
export function numbers(name, state, signal) {
  return counted(floatsOf(name, state, signal));
}

/** @param {string} name @param {State} state @param {AbortSignal} signal */
async function floatsOf(name, state, signal) {
  const path = request(name, state);
  if (SAVED) return new Float32Array(Uint8Array.from(atob(carriedFor(name, path) ?? ""), (sign) => sign.charCodeAt(0)).buffer);
  const bytes = new Uint8Array(await (await checked(await reach(path, { signal }))).arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += 32768) {
    text += String.fromCharCode(...bytes.subarray(start, start + 32768));
  }
  keep(signal, path, btoa(text));
  return new Float32Array(bytes.buffer);
}

/** The source of an <img>. @param {string} name @param {State} [state] */
export function picture(name, state = {}) {
  const path = request(name, state);
  return SAVED ? (SAVED[path] ?? "data:,") : address(path);
}

/** Do what a button says. @param {string} name @param {Record<string, any>} facts @returns {Promise<any>} */
export function act(name, facts) {
  return counted(done(name, facts));
}

/** @param {string} name @param {Record<string, any>} facts */
async function done(name, facts) {
  if (SAVED) throw new Error("This page was saved: open the studio to change something.");
  const response = await reach(name, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(facts),
  });
  return (await checked(response)).json();
}
