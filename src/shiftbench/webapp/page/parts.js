// What every view is made of: answers that arrive, charts, tables that can be saved, commands, choices.
import { html, useLayoutEffect, useRef, useState } from "preact";
import { ask } from "studio/answers.js";

/** @typedef {import("studio/answers.js").State} State */

export const COLOURS = Array.from({ length: 8 }, (_, number) => `var(--m${number})`);

/**
 * The answer of a view in a state. The last one stays until the next is there, so that a page does not flicker.
 * @param {string} name @param {State} state @param {number} [again] milliseconds after which it is asked again, 0: never
 */
export function useAnswer(name, state, again = 0) {
  const [held, hold] = useState(/** @type {{key: string, answer: any, problem: string}} */ ({ key: "", answer: null, problem: "" }));
  const key = JSON.stringify([name, state]);
  // Before the next task of the browser, so that the page is never taken for complete while it has yet to ask.
  useLayoutEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const once = (/** @type {boolean} */ repeated) => {
      ask(name, state, stop.signal, repeated).then((answer) => ({ answer, problem: "" }), (problem) => ({ problem: problem.message })).then((outcome) => {
        if (stop.signal.aborted) return; // a newer request is on its way
        hold((last) => ({ ...last, ...outcome, key }));
        if (again) timer = setTimeout(once, again, true);
      });
    };
    once(held.key === key);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [key, again]);
  return { ...held, waiting: held.key !== key };
}

/** An answer, what is wrong, or that it is on its way. */
export function Answered({ held, children }) {
  return html`
    ${held.problem && html`<p class="problem" role="alert">${held.problem}</p>`}
    <div class=${held.waiting ? "waiting" : ""} aria-busy=${held.waiting}>
      ${held.answer ? children(held.answer) : held.waiting && html`<p class="wait">Loading …</p>`}
    </div>`;
}

/** A share as people write it: 41 %. @param {number | null} share */
export function percent(share, digits = 0) {
  return share === null || Number.isNaN(share) ? "–" : `${(100 * share).toFixed(digits)} %`;
}

/** A count with separators: 12,345. @param {number} n */
export function count(n) {
  return n.toLocaleString("en");
}

/** The command that prints the same numbers; a click copies it. */
export function Command({ words }) {
  const [copied, say] = useState(false);
  const copy = () => {
    navigator.clipboard?.writeText(words).then(() => { say(true); setTimeout(() => say(false), 1500); }, () => {});
  };
  return html`<p class="command"><code tabindex="0">${words}</code>
    <button type="button" class="quiet" onClick=${copy}>${copied ? "copied" : "copy"}</button></p>`;
}

/** The width of an element in pixels, 0 before it is there. @param {{current: HTMLElement | null}} box */
export function useWidth(box) {
  const [width, measure] = useState(0);
  useLayoutEffect(() => {
    if (!box.current) return;
    measure(Math.round(box.current.clientWidth));
    const watch = new ResizeObserver(([entry]) => measure(Math.round(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

// What can be saved

/** @type {WeakMap<Element, () => Record<string, any>[]>} element → the table that it shows */
const TABLES = new WeakMap();

/**
 * Properties of an element that the menu saves: by this title, as a CSV file of these rows, and its drawing as a picture.
 * @param {string} title @param {() => Record<string, any>[]} rows @param {{current: any}} [box] gets the element, as a ref does
 */
export function savable(title, rows, box) {
  return { "data-file": title, ref: (/** @type {Element | null} */ element) => {
    if (element) TABLES.set(element, rows);
    if (box) box.current = element;
  } };
}

/** The table that a savable element shows. @param {Element} element */
export function rowsOf(element) {
  return TABLES.get(element)?.() ?? [];
}

/**
 * A chart of Observable Plot, as wide as there is room, drawn again when the answer or the width changes.
 * `draw(width)` gives the options of Plot.plot; `rows` is the table behind it, which is saved as CSV.
 */
export function Chart({ title, draw, rows = [], depends = [] }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidth(box);
  useLayoutEffect(() => {
    if (!box.current || !width) return;
    const drawn = Plot.plot({ width, ariaLabel: title, style: { background: "none", fontSize: "12px" }, ...draw(width) });
    const picture = drawn.matches("svg") ? drawn : drawn.querySelector("svg:last-of-type");
    picture.setAttribute("role", "img"); // one picture with a name, not a tree of groups
    for (const group of picture.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label");
    box.current.replaceChildren(drawn);
  }, [width, ...depends]);
  return html`<figure class="chart" ...${savable(title.split(/[.:]/)[0], () => rows)}><figcaption>${title}</figcaption>
    <div class="plot" ref=${box}></div></figure>`;
}

/** A choice among names, or among groups of names that have a heading each. */
export function Choice({ label, value, options = [], groups = [], onChange }) {
  const listed = (/** @type {any[]} */ some) => some.map((option) => {
    const [name, words] = Array.isArray(option) ? option : [option, option];
    return html`<option value=${name} selected=${name === value}>${words}</option>`;
  });
  return html`<label class="choice">${label}
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>${listed(options)}
      ${groups.map(([head, some]) => some.length > 0 && html`<optgroup label=${head}>${listed(some)}</optgroup>`)}
    </select></label>`;
}

/**
 * A filter, as predicates that all hold; a click on one takes it away.
 * @param {{where: any[], onChange: (where: any[]) => void}} facts
 */
export function Filter({ where, onChange }) {
  if (!where.length) return null;
  return html`<ul class="filter" aria-label="Filter">${where.map((predicate, number) => html`
    <li><button type="button" aria-label=${`Remove: ${predicate.words}`}
      onClick=${() => onChange(where.filter((_, other) => other !== number))}>${predicate.words} ×</button></li>`)}
    <li><button type="button" class="quiet" onClick=${() => onChange([])}>clear</button></li></ul>`;
}
