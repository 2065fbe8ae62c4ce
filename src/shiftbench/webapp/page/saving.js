// What is on the page, as files: the view as one HTML file, its charts as SVG, PNG and CSV, and its address by a name.
import { html, useEffect, useRef, useState } from "preact";
import { act, answersShown, isSaved, request } from "studio/answers.js";

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
  const answers = { ...answersShown(), ...Object.fromEntries(await pictures()), "#": location.hash };
  // A function as replacement: $ in the data means nothing. No letter of the data can end the script.
  return page.replace(PLACE, () => JSON.stringify(answers).replaceAll("<", "\\u003c"));
}

// Charts

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

/** The table behind a chart. @param {any} figure @returns {Record<string, any>[]} */
function rowsOf(figure) {
  if (figure.rows) return figure.rows();
  try {
    return JSON.parse(figure.dataset.rows || "[]");
  } catch {
    return [];
  }
}

/** The drawing of a chart: its largest SVG, or its canvas. @param {Element} figure */
function drawingOf(figure) {
  const area = (/** @type {Element} */ one) => one.getBoundingClientRect().width * one.getBoundingClientRect().height;
  return [...figure.querySelectorAll("svg, canvas")].filter((one) => area(one) > 5000).sort((one, other) => area(other) - area(one))[0];
}

/** An SVG that looks the same without the style sheet. @param {SVGSVGElement} svg */
export function standalone(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const [from, to] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((element, number) => {
    const style = getComputedStyle(element);
    to[number].setAttribute("style", STYLES.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
    for (const name of ["class", ...STYLES]) to[number].removeAttribute(name);
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return new XMLSerializer().serializeToString(copy);
}

/** @param {Element} drawing @returns {Promise<Blob>} */
async function asPng(drawing) {
  if (drawing instanceof HTMLCanvasElement) return new Promise((resolve) => drawing.toBlob((bytes) => resolve(/** @type {Blob} */ (bytes))));
  const { width, height } = drawing.getBoundingClientRect();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(/** @type {SVGSVGElement} */ (drawing)))}`;
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

/** Everything on the page that can be saved. @param {{view: string}} facts */
export function SaveMenu({ view }) {
  const box = useRef(/** @type {HTMLDetailsElement | null} */ (null));
  const [charts, list] = useState(/** @type {{figure: Element, drawing: Element | undefined, table: boolean, title: string}[]} */ ([]));
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
  const figures = () => [...document.querySelectorAll("main figure.chart, main figure.drawing")].map((figure) => ({
    figure, drawing: drawingOf(figure), table: rowsOf(figure).length > 0, title: (figure.querySelector("figcaption, svg[aria-label]")?.getAttribute("aria-label") || figure.querySelector("figcaption")?.textContent || "chart").trim().split(/[.:]/)[0] }));
  const [open, toggle] = useState(false);
  useEffect(() => {
    if (!open) return;
    list(figures());
    const timer = setInterval(() => list(figures()), 500); // charts that arrive later, and those that are drawn anew
    return () => clearInterval(timer);
  }, [open]);
  const attempt = (/** @type {() => Promise<any>} */ work) => { say("…"); work().then(() => say(""), (problem) => say(problem.message)); };
  const svg = (/** @type {any} */ chart) => download(`${plain(chart.title)}.svg`, standalone(chart.drawing), "image/svg+xml");
  return html`<details class="save-menu" ref=${box} onToggle=${(event) => toggle(event.target.open)}><summary>Save</summary><div class="menu">
    ${!isSaved && html`<button type="button" onClick=${() => attempt(async () => download(`${plain(view)}.html`, await wholePage(), "text/html"))}>This view as one HTML file</button>
      <${KeepView} />`}
    ${charts.map((chart) => html`<p class="chart-files"><span>${chart.title}</span> <span>
        ${chart.drawing instanceof SVGSVGElement && html`<button type="button" onClick=${() => svg(chart)} aria-label=${`${chart.title} as SVG`}>SVG</button>`}
        ${chart.drawing && html` <button type="button" onClick=${() => attempt(async () => download(`${plain(chart.title)}.png`, await asPng(/** @type {Element} */ (chart.drawing))))} aria-label=${`${chart.title} as PNG`}>PNG</button>`}
        ${chart.table && html` <button type="button" onClick=${() => download(`${plain(chart.title)}.csv`, asCsv(rowsOf(chart.figure)), "text/csv;charset=utf-8")} aria-label=${`${chart.title} as CSV`}>CSV</button>`}</span></p>`)}
    ${message && html`<p class="small" role="status">${message}</p>`}</div></details>`;
}

/** Keep the address of this view under a name, below the studio's folder. */
function KeepView() {
  const [message, say] = useState("");
  const keep = (/** @type {any} */ event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("name");
    act("save-view", { name, route: location.hash.slice(1) || "home" }).then((saved) => say(`Kept as ${saved.name}. The first page lists it.`), (problem) => say(problem.message));
  };
  return html`<form class="keep" onSubmit=${keep}><label>Keep this view as <input name="name" required maxlength="80" autocomplete="off" /></label>
    <button type="submit">Keep</button>${message && html`<p class="small" role="status">${message}</p>`}</form>`;
}
