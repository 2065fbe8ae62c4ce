// Items: a wall of them, a wall so long that only what is seen exists, and the panel of one item.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact";
import { ask, begin, keep, picture, request } from "studio/answers.js";
import { Answered, COLOURS, Command, count, percent, savable, useAnswer } from "studio/parts.js";

/**
 * @typedef {object} Entry an item on a wall
 * @property {number} row @property {string} id
 * @property {string} [label] what is said first of it @property {string} [note] what is said in small
 * @property {string} [mark] "good" or "bad", or the colour of its band
 * @typedef {{pictures: boolean, version: string}} Look how the items of a collection are shown
 */

/** The colour of a mark. @param {string | undefined} mark */
function colourOf(mark) {
  if (mark === "good") return "var(--m3)";
  if (mark === "bad") return "var(--m2)";
  return mark || "";
}

/** @param {{on: string, look: Look, entry: Entry, onOpen?: (entry: Entry) => void, open?: boolean, style?: string, number?: number}} facts */
export function Tile({ on, look, entry, onOpen, open = false, style = "", number }) {
  const [broken, breaks] = useState(false);
  const words = [entry.label, entry.note, entry.id].filter(Boolean).join(", ");
  const sign = entry.mark === "good" ? "✓ " : entry.mark === "bad" ? "✗ " : "";
  const band = colourOf(entry.mark);
  const source = look.pictures && picture("thumbnail", { on, row: String(entry.row), version: look.version });
  return html`<button type="button" class=${look.pictures ? "tile" : "tile-row"} style=${style} aria-pressed=${open}
      data-number=${number} title=${`${sign}${words}`} onClick=${() => onOpen?.(entry)}>
    ${band && html`<i class="band" style=${`background: ${band}`}></i>`}
    ${look.pictures && (broken ? html`<span class="nothing">no picture</span>`
      : html`<img src=${source} alt="" loading="lazy" decoding="async" onError=${() => breaks(true)} />`)}
    <span class="said"><b>${sign}${entry.label || entry.id}</b>${entry.note && html` <small>${entry.note}</small>`}</span>
  </button>`;
}

/**
 * A wall of a few items: thumbnails, or rows where there are no images.
 * @param {{items: Entry[], on: string, open?: string, onOpen?: (entry: Entry) => void}} facts
 */
export function Wall({ items, on, open = "", onOpen }) {
  const { answer } = useAnswer("look", { on });
  if (!answer) return null;
  return html`<div class=${answer.pictures ? "wall" : "rows"}>
    ${items.map((entry) => html`<${Tile} key=${entry.row} on=${on} look=${answer} entry=${entry} open=${entry.id === open} onOpen=${onOpen} />`)}</div>`;
}

const PAGE = 120;
const PAGES = 24; // pages that are kept
const TALLEST = 8e6; // pixels: browsers cannot scroll much further, so a longer wall moves faster than the hand
const TILE = 104; // the least width of a tile; its picture is square
const WORDS = 22; // pixels of what is said below a picture, with the gap
const ROWS = { wide: 42, narrow: 62 }; // the height of a row: one line of text, or two

/** Pages of items, asked for when they come into view. @param {Record<string, string>} state @param {number} first @param {number} last */
function usePages(state, first, last) {
  const key = JSON.stringify(state);
  const kept = useRef(/** @type {{key: string, pages: Map<number, any>}} */ ({ key: "", pages: new Map() }));
  const [, redraw] = useState(0);
  const [problem, complain] = useState("");
  if (kept.current.key !== key) kept.current = { key, pages: new Map() };
  const { pages } = kept.current;
  const from = Math.floor(first / PAGE);
  const to = Math.max(from, Math.floor((last - 1) / PAGE));
  useLayoutEffect(() => {
    const stop = new AbortController();
    const end = begin();
    // A wall that flies past asks for nothing: only where it rests.
    const timer = setTimeout(() => {
      for (let page = from; page <= to; page += 1) {
        const terms = { ...state, from: page ? String(page * PAGE) : "" };
        if (pages.has(page)) {
          keep(stop.signal, request("items", terms), pages.get(page));
          continue;
        }
        ask("items", terms, stop.signal).then((answer) => {
          pages.set(page, answer);
          if (pages.size > PAGES) pages.delete([...pages.keys()].find((other) => other < from || other > to) ?? -1);
          complain("");
          redraw((n) => n + 1);
        }, (error) => { if (!stop.signal.aborted) complain(error.message); });
      }
      end();
    }, pages.size ? 60 : 0);
    return () => { clearTimeout(timer); end(); stop.abort(); };
  }, [key, from, to]);
  const entry = (/** @type {number} */ number) => pages.get(Math.floor(number / PAGE))?.items[number % PAGE];
  return { entry, problem, n: /** @type {number | undefined} */ (pages.values().next().value?.n) };
}

/**
 * A wall of any length: the items that fulfil the filter of `state`, of which only those in view exist.
 * Arrow keys go from item to item.
 * @param {{state: Record<string, string>, look: Look, open: string, onOpen: (entry: Entry) => void}} facts
 */
export function LongWall({ state, look, open, onOpen }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, see] = useState({ top: 0, width: 0, height: 0 });
  const [total, grow] = useState(0); // until the next answer, as many as the last one said
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => see({ top: element.scrollTop, width: element.clientWidth, height: element.clientHeight });
    const watch = new ResizeObserver(measure);
    measure();
    watch.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => { watch.disconnect(); element.removeEventListener("scroll", measure); };
  }, []);
  const key = JSON.stringify(state);
  useLayoutEffect(() => { if (box.current) box.current.scrollTop = 0; }, [key]);

  const across = look.pictures ? Math.max(1, Math.floor(seen.width / TILE)) : 1;
  const width = seen.width / across;
  const height = look.pictures ? Math.round(width) + WORDS : seen.width > 700 ? ROWS.wide : ROWS.narrow;
  const lines = Math.ceil(total / across);
  const full = lines * height;
  const tall = Math.min(full, TALLEST);
  const way = Math.max(1, tall - seen.height);
  const top = full > tall ? Math.min(1, seen.top / way) * (full - seen.height) : seen.top;
  const firstLine = Math.max(0, Math.floor(top / height) - 1);
  const lastLine = Math.min(lines, Math.ceil((top + seen.height) / height) + 1);
  const { entry, problem, n } = usePages(state, firstLine * across, Math.min(total, lastLine * across));
  useLayoutEffect(() => { if (n !== undefined) grow(n); }, [n]);
  const shown = [];
  for (let number = firstLine * across; number < Math.min(total, lastLine * across); number += 1) {
    const held = entry(number);
    const y = Math.floor(number / across) * height - top + seen.top;
    const style = `left: ${(number % across) * width}px; top: ${y}px; width: ${width - 6}px; height: ${height - 6}px`;
    shown.push(held
      ? html`<${Tile} key=${number} number=${number} on=${state.on} look=${look} entry=${held} open=${held.id === open} onOpen=${onOpen} style=${style} />`
      : html`<span key=${number} class="tile blank" style=${style}></span>`);
  }
  const wanted = useRef(/** @type {number | null} */ (null)); // the tile that a key asked for, where it is not drawn yet
  const tile = (/** @type {number | string | null | undefined} */ number) =>
    /** @type {HTMLElement | null | undefined} */ (box.current?.querySelector(`button[data-number="${number}"]`));
  const active = /** @type {HTMLElement | null} */ (document.activeElement);
  const focused = box.current?.contains(active) ? active?.dataset.number : undefined;
  // A tile that changes its place in the document while lines come and go loses the focus: it gets it back.
  useLayoutEffect(() => {
    const next = tile(wanted.current ?? focused);
    if (!next) return;
    wanted.current = null;
    const elsewhere = document.activeElement !== document.body && !box.current?.contains(document.activeElement);
    if (!elsewhere) next.focus({ preventScroll: true });
  });
  const reveal = (/** @type {number} */ line) => {
    const least = (line + 1) * height - seen.height;
    const shift = line * height < top ? line * height : least > top ? least : null;
    if (box.current && shift !== null) box.current.scrollTop = full > tall ? shift / (full - seen.height) * way : shift;
  };
  const move = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    const at = wanted.current ?? Number(/** @type {HTMLElement} */ (event.target).dataset.number);
    if (!step || Number.isNaN(at)) return;
    event.preventDefault();
    const number = Math.max(0, Math.min(total - 1, at + step));
    reveal(Math.floor(number / across));
    wanted.current = tile(number) ? null : number;
    (tile(number) ?? box.current)?.focus({ preventScroll: true }); // the box hears the keys until the tile is drawn
  };
  return html`${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="long-wall" ref=${box} tabindex="0" role="group" aria-label=${`${count(total)} items`} onKeyDown=${move}>
      <div style=${`height: ${tall}px`}>${shown}</div></div>`;
}

/** An item's image with its boxes; the boxes of the tag that is pointed at stand out. */
function Boxes({ on, item, tag }) {
  const boxes = item.tags.flatMap((held) => held.boxes.map((box) => ({ box, name: held.name })));
  const colours = new Map(item.tags.filter((held) => held.boxes.length).map((held, number) => [held.name, COLOURS[1 + number % 7]]));
  return html`<figure class="boxes"><img src=${picture("thumbnail", { on, row: String(item.row), side: "512", version: item.version })} alt=${item.alt} />
    <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">${boxes.map(({ box, name }) => html`
      <rect x=${100 * box[0]} y=${100 * box[1]} width=${100 * box[2]} height=${100 * box[3]} vector-effect="non-scaling-stroke"
        style=${`stroke: ${colours.get(name)}`} class=${tag && tag !== name ? "faded" : tag === name ? "chosen" : ""}><title>${name}</title></rect>`)}</svg></figure>`;
}

/** What one run, or many of one method, say of the item. */
function Predicted({ on, row }) {
  const held = useAnswer("predicted", { on, row: String(row) });
  return html`<${Answered} held=${held}>${(answer) => html`
    ${answer.note && html`<p class="small">${answer.note}</p>`}
    ${answer.methods.length > 0 && html`<div class="scroll" ...${savable("Predictions of the item", () => answer.methods.flatMap((line) => (
      line.runs.map((run) => ({ benchmark: line.benchmark, label: line.truth, method: line.method, run: run.run, model: run.model, seed: run.seed, says: run.says })))))}><table><thead><tr>
        <th>benchmark</th><th>method</th><th class="number">right</th><th>says</th></tr></thead>
      <tbody>${answer.methods.map((line) => html`<tr>
        <td><a href=${`#compare?benchmark=${encodeURIComponent(line.benchmark)}`}>${line.benchmark}</a></td>
        <th>${line.method}</th>
        <td class="number">${line.right === null ? "–" : `${line.right} of ${line.runs.length}`}</td>
        <td>${line.says.map((said) => `${said.name}${said.n > 1 ? ` × ${said.n}` : ""}`).join(", ")}
          <details><summary class="small">${line.runs.length === 1 ? "its run" : "its runs"}</summary><ul class="plain">
            ${line.runs.map((run) => html`<li><a href=${`#runs?on=${encodeURIComponent(run.on)}&run=${encodeURIComponent(run.run)}`}>${run.run}</a>
              <small> ${run.model}, seed ${run.seed}: ${run.says}</small></li>`)}</ul></details></td></tr>`)}
      </tbody></table></div>`}
    <${Command} words=${answer.command} />`}<//>`;
}

/** What is known of an item, a row for each. @param {any} item */
function annotations(item) {
  return [...item.factors.map(({ name, value }) => ({ kind: "factor", name, value })),
    ...item.tags.map(({ name, kind, area, boxes }) => ({ kind: `tag: ${kind}`, name, area, boxes: boxes.length ? boxes : null })),
    ...item.texts.map((text) => ({ kind: "text", value: text }))];
}

/**
 * The panel of an item: its image, everything that is known of it, and what was made of it.
 * @param {{on: string, row?: string, id?: string, onClose: () => void, onFilter?: (predicate: any) => void}} facts
 */
export function Item({ on, row = "", id = "", onClose, onFilter }) {
  const held = useAnswer("item", { on, row, id });
  const [tag, point] = useState("");
  const close = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    close.current?.focus({ preventScroll: true });
    const leave = (/** @type {KeyboardEvent} */ event) => { if (event.key === "Escape") onClose(); };
    addEventListener("keydown", leave);
    return () => { removeEventListener("keydown", leave); if (before?.isConnected) before.focus({ preventScroll: true }); };
  }, []);
  /** A value, which a click makes a filter where there is one. */
  const value = (/** @type {any} */ fact) => onFilter && fact.is
    ? html`<button type="button" class="quiet" onClick=${() => onFilter(fact.is)} title=${`Filter: ${fact.is.words}`}>${fact.value}</button>`
    : fact.value;
  return html`<aside class="item" aria-label="Item">
    <button type="button" class="quiet close" ref=${close} onClick=${onClose} aria-label="Close the item">close ×</button>
    <${Answered} held=${held}>${(item) => html`
      <h2>${item.id}</h2>
      ${item.pictures && html`<${Boxes} on=${on} item=${item} tag=${tag} />`}
      ${item.why && html`<p class="small">${item.why}</p>`}
      ${item.texts.map((text) => html`<blockquote>${text}</blockquote>`)}
      <dl ...${savable("Annotations of the item", () => annotations(item))}>${item.factors.map((fact) => html`<div><dt>${fact.name}</dt><dd>${value(fact)}
        ${fact.above.length > 0 && html` <small>${fact.above.join(" › ")}</small>`}</dd></div>`)}</dl>
      ${item.tags.length > 0 && html`<h3>Tags</h3><ul class="chips">${item.tags.map((carried) => html`
        <li onMouseEnter=${() => point(carried.name)} onMouseLeave=${() => point("")}
            onFocusIn=${() => point(carried.name)} onFocusOut=${() => point("")}>
          ${value({ value: carried.name, is: carried.is })}
          <small> ${carried.kind}${carried.area === null ? "" : `, ${percent(carried.area, 1)}`}</small></li>`)}</ul>`}
      <h3>Benchmarks</h3>
      ${item.benchmarks.length === 0 ? html`<p class="small">No benchmark here holds it.</p>` : html`<div class="scroll" ...${savable("Benchmarks of the item", () => item.benchmarks)}><table>
        <thead><tr><th>benchmark</th><th>split</th><th>label</th><th>group</th></tr></thead>
        <tbody>${item.benchmarks.map((line) => html`<tr><th><a href=${`#compare?benchmark=${encodeURIComponent(line.id)}`}>${line.id}</a></th>
          <td>${line.split}</td><td>${line.label}</td><td>${line.group}</td></tr>`)}</tbody></table></div>`}
      <${Command} words=${item.command} />
      <h3>Predictions</h3>
      ${item.sealed ? html`<p class="note">${item.sealed}</p>`
        : html`<${Predicted} on=${on} row=${item.row} />`}`}<//></aside>`;
}
