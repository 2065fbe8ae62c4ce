// What is on the page, as files: the view as one HTML file, its drawings as SVG and PNG, its tables as CSV, and its address by a name.
import { html, useEffect, useRef, useState } from "preact";
import { hash } from "studio/address.js";
import { act, answersShown, isSaved, request } from "studio/answers.js";
import { rowsOf } from "studio/parts.js";

const PLACE = '{"answers": "here"}'; // what stands in saved.html where answers go
/** What a chart inherits from the style sheet, and an SVG file has to say itself. */
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-opacity", "fill-opacity", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "paint-order", "color", "display", "visibility"];

// The view as one file

/** The pictures on the page, request → data: URL. @returns {Promise<[string, string][]>} */
async function pictures() {
  const sources = new Set([...document.querySelectorAll("main img")].map((image) => /** @type {HTMLImageElement} */ (image).getAttribute("src") ?? ""));
  return Promise.all([...sources].filter((source) => source.startsWith("api/")).map(async (source) => {
    const [name, words] = source.slice(4).split(/\?(.*)/s);
    const state = Object.fromEntries(new URLSearchParams(words));
    delete state.token;
    const bytes = await (await fetch(source)).blob();
    return [request(name, state), await asUrl(bytes)];
  }));
}

/** @param {Blob} bytes @returns {Promise<string>} */
function asUrl(bytes) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.readAsDataURL(bytes);
  });
}

/** The page with what it shows now. */
export async function wholePage() {
  const page = await (await fetch("page/saved.html")).text();
  const answers = { ...answersShown(), ...Object.fromEntries(await pictures()), "#": hash() };
  // A function as replacement: $ in the data means nothing. No letter of the data can end the script.
  return page.replace(PLACE, () => JSON.stringify(answers).replaceAll("<", "\\u003c"));
}

// Tables and drawings

/** A table as CSV. A text that a spreadsheet would take for a formula gets a mark before it. @param {Record<string, any>[]} rows */
export function asCsv(rows) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (/** @type {any} */ value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const safe = /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

/** The drawings of an element: its canvas, or its SVGs, which may be several side by side; not the signs of a legend. @param {Element} element */
function drawingsOf(element) {
  return [...element.querySelectorAll("canvas, svg:not([aria-hidden])")]
    .filter((one) => one.getBoundingClientRect().width > 0 && !one.parentElement?.closest("svg"));
}

/** The box around some elements. @param {Element[]} elements */
function boxAround(elements) {
  const boxes = elements.map((one) => one.getBoundingClientRect());
  const [x, y] = [Math.min(...boxes.map((box) => box.left)), Math.min(...boxes.map((box) => box.top))];
  return { x, y, width: Math.max(...boxes.map((box) => box.right)) - x, height: Math.max(...boxes.map((box) => box.bottom)) - y };
}

/** An SVG that looks the same without the style sheet, as an element. @param {SVGSVGElement} svg @param {{x: number, y: number}} origin */
function styled(svg, origin) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const [from, to] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((element, number) => {
    const style = getComputedStyle(element);
    to[number].setAttribute("style", STYLES.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
    for (const name of ["class", ...STYLES]) to[number].removeAttribute(name);
  });
  const { left, top, width, height } = svg.getBoundingClientRect();
  for (const [name, value] of Object.entries({ x: left - origin.x, y: top - origin.y, width, height })) copy.setAttribute(name, String(value));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return copy;
}

/** SVGs as one file, each where it stands on the page. @param {Element[]} drawings */
export function standalone(drawings) {
  const box = boxAround(drawings);
  const whole = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({ width: box.width, height: box.height, viewBox: `0 0 ${box.width} ${box.height}` })) whole.setAttribute(name, String(value));
  whole.style.background = getComputedStyle(document.body).backgroundColor;
  whole.append(...drawings.map((drawing) => styled(/** @type {SVGSVGElement} */ (drawing), box)));
  return new XMLSerializer().serializeToString(whole);
}

/** @param {Element[]} drawings @returns {Promise<Blob>} */
async function asPng(drawings) {
  const [first] = drawings;
  if (first instanceof HTMLCanvasElement) return new Promise((resolve) => first.toBlob((bytes) => resolve(/** @type {Blob} */ (bytes))));
  const { width, height } = boxAround(drawings);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(drawings))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob((bytes) => resolve(/** @type {Blob} */ (bytes))));
}

/** Hand a file to the person. @param {string} name @param {Blob | string} content @param {string} [type] */
function download(name, content, type = "text/plain;charset=utf-8") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A name for a file, of plain letters. @param {string} words */
const plain = (words) => words.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "view";

// The menu

/** @typedef {{element: Element, title: string, drawings: Element[], table: boolean}} Saved */

/** Everything on the page that can be saved, as it is now. @returns {Saved[]} */
function savedNow() {
  return [...document.querySelectorAll("main [data-file]")].map((element) => ({
    element, title: /** @type {HTMLElement} */ (element).dataset.file ?? "", drawings: drawingsOf(element), table: rowsOf(element).length > 0,
  })).filter(({ drawings, table }) => table || drawings.length > 0);
}

/** The menu of what can be saved. @param {{view: string}} facts */
export function SaveMenu({ view }) {
  const box = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const [files, list] = useState(/** @type {Saved[]} */ ([]));
  const [message, say] = useState("");
  useEffect(() => { if (box.current) box.current.open = false; }, [view]);
  useEffect(() => {
    const close = (/** @type {Event} */ event) => {
      if (!box.current?.open) return;
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !box.current.contains(/** @type {Node} */ (event.target))) {
        box.current.open = false;
        if (event instanceof KeyboardEvent) box.current.querySelector("summary")?.focus();
      }
    };
    addEventListener("keydown", close);
    addEventListener("pointerdown", close);
    return () => { removeEventListener("keydown", close); removeEventListener("pointerdown", close); };
  }, []);
  const [open, toggle] = useState(false);
  useEffect(() => {
    if (!open) return;
    list(savedNow());
    const timer = setInterval(() => list(savedNow()), 500); // what arrives later, and what is drawn anew
    return () => clearInterval(timer);
  }, [open]);
  const attempt = (/** @type {() => Promise<any>} */ work) => { say("…"); work().then(() => say(""), (problem) => say(problem.message)); };
  const svg = (/** @type {Saved} */ file) => download(`${plain(file.title)}.svg`, standalone(file.drawings), "image/svg+xml");
  const png = (/** @type {Saved} */ file) => attempt(async () => download(`${plain(file.title)}.png`, await asPng(file.drawings)));
  const csv = (/** @type {Saved} */ file) => download(`${plain(file.title)}.csv`, asCsv(rowsOf(file.element)), "text/csv;charset=utf-8");
  const button = (/** @type {Saved} */ file, /** @type {string} */ kind, /** @type {(file: Saved) => void} */ save) => html` <button type="button"
    aria-label=${`${file.title} as ${kind}`} onClick=${() => save(file)}>${kind}</button>`;
  return html`<details class="save-menu" ref=${box} onToggle=${(event) => toggle(event.target.open)}><summary>Save</summary><div class="menu">
    ${!isSaved && html`<button type="button" onClick=${() => attempt(async () => download(`${plain(view)}.html`, await wholePage(), "text/html"))}>This view as one HTML file</button>
      <${KeepView} />`}
    ${files.map((file) => html`<p class="files"><span>${file.title}</span> <span>
        ${file.drawings[0] instanceof SVGSVGElement && button(file, "SVG", svg)}
        ${file.drawings.length > 0 && button(file, "PNG", png)}
        ${file.table && button(file, "CSV", csv)}</span></p>`)}
    ${message && html`<p class="small" role="status">${message}</p>`}</div></details>`;
}

/** Keep the address of this view under a name, below the studio's folder. */
function KeepView() {
  const [message, say] = useState("");
  const keep = (/** @type {any} */ event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("name");
    act("save-view", { name, route: hash().slice(1) || "home" }).then((saved) => say(`Kept as ${saved.name}. The first page lists it.`), (problem) => say(problem.message));
  };
  return html`<form class="keep" onSubmit=${keep}><label>Keep this view as <input name="name" required maxlength="80" autocomplete="off" /></label>
    <button type="submit">Keep</button>${message && html`<p class="small" role="status">${message}</p>`}</form>`;
}
