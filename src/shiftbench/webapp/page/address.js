// The address of the page: which view is open in which state. A view gets only what has the shape that it can read.

/** @typedef {import("studio/answers.js").State} State */

/** The address, where the browser's own cannot be written: in the frame of a notebook, or after too many changes at once. */
let kept = /** @type {string | null} */ (null);

/** The address as a hash: "#collection?on=scenes", "" for the first page. */
export const hash = () => kept ?? location.hash;

/** Write the address. `quietly`: the way back skips the present one. @param {string} next @param {boolean} quietly */
export function write(next, quietly) {
  if (next === hash()) return;
  try {
    history[quietly ? "replaceState" : "pushState"](null, "", next);
    kept = null;
  } catch {
    kept = next;
  }
}

/** Call back when a person goes back, goes on or writes another address. @param {() => void} call */
export function onMove(call) {
  const listen = () => { kept = null; call(); };
  addEventListener("hashchange", listen);
  return () => removeEventListener("hashchange", listen);
}

// Shapes

const isText = (/** @type {any} */ value) => typeof value === "string";
const isTable = (/** @type {any} */ value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isTables = (/** @type {any} */ value) => isTable(value) && Object.values(value).every((own) => own === null || isTable(own));
const areNames = (/** @type {any} */ value) => Array.isArray(value) && value.every(isText);
const isPredicate = (/** @type {any} */ value) => isTable(value) && ["column", "value", "kind", "words"].every((name) => isText(value[name]));
const isFilter = (/** @type {any} */ value) => Array.isArray(value) && value.every(isPredicate);
/** A cell of a comparison: benchmark, method and measure. */
const isCell = (/** @type {any} */ value) => areNames(value) && value.length === 3;

/** @type {Record<string, Record<string, (value: any) => boolean>>} view → the keys of its state that are JSON; all others are text */
const SHAPES = {
  collection: { where: isFilter, more: areNames },
  graph: { train: areNames, test: areNames, kinds: areNames, mark: areNames },
  design: { settings: isTable, conditions: isTables },
  runs: { where: isFilter, show: areNames },
  compare: { at: isCell },
  failures: { where: isFilter },
};

/** @param {string} view @param {string} name @param {string} text */
function fits(view, name, text) {
  const shape = SHAPES[view]?.[name];
  if (!shape || text === "") return true;
  try {
    return shape(JSON.parse(text));
  } catch {
    return false;
  }
}

/**
 * What an address says. Keys that a view could not read are left out of its state, and named.
 * @param {string} address @returns {{hash: string, view: string, state: State, unread: string[]}}
 */
export function read(address) {
  const [view, words = ""] = address.replace(/^#\/?/, "").split(/\?(.*)/s);
  const entries = [...new URLSearchParams(words)];
  return {
    hash: hash(), view: view || "home", state: Object.fromEntries(entries.filter(([name, text]) => fits(view, name, text))),
    unread: entries.filter(([name, text]) => !fits(view, name, text)).map(([name]) => name),
  };
}

/** The address of a view in a state. @param {string} view @param {State} state */
export function link(view, state) {
  const words = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== ""));
  return words.size ? `#${view}?${words}` : `#${view}`;
}

/** The list or table that a key of a state holds. @template T @param {State} state @param {string} name @param {T} otherwise @returns {T} */
export function valueOf(state, name, otherwise) {
  return state[name] ? JSON.parse(state[name]) : otherwise;
}

/** A list as a state holds it. @param {any[]} list */
export function asText(list) {
  return list.length ? JSON.stringify(list) : "";
}
