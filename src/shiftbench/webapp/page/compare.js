// Compare: methods × benchmarks with intervals and ties, what a selection rule changes, the report's figures, items.
import { html, useLayoutEffect, useRef, useState } from "preact";
import { valueOf } from "studio/address.js";
import { isSaved } from "studio/answers.js";
import { Item, Wall } from "studio/items.js";
import { Answered, COLOURS, Choice, Command, count, savable, useAnswer, useWidth } from "studio/parts.js";

/** @typedef {import("studio/answers.js").State} State */

/** Milliseconds until a source that is being scored is asked for again. */
const SOON = 1000;
/** No cell is open. */
const CLOSED = { at: "", outcome: "", items: "", item: "" };
const OUTCOMES = [["wrong", "wrong in all"], ["mixed", "in some"], ["right", "right in all"]];

export function Compare({ state, change }) {
  const [again, wait] = useState(0);
  const { on = "", rule = "", before = "", split = "", metric = "", against = "", benchmark = "" } = state;
  const held = useAnswer("compare", { on, rule, before, split, metric, against, benchmark }, isSaved ? 0 : again);
  const next = held.answer?.scoring || (held.problem && held.answer) ? SOON : 0;
  if (next !== again) wait(next);
  return html`<h1>Compare</h1>
    <${Answered} held=${held}>${(answer) => answer.scoring
      ? html`<${Sources} answer=${answer} change=${change} /><p class="note" role="status">${answer.scoring}</p>`
      : html`<${Choices} answer=${answer} change=${change} />
        ${answer.nothing && html`<p class="note">${answer.nothing} <button type="button" class="quiet" onClick=${() => change({ benchmark: "", ...CLOSED })}>show all</button></p>`}
        ${answer.absent && html`<p class="note">Not in these numbers are ${answer.absent}.</p>`}
        <${Moved} answer=${answer} change=${change} />
        <div class="together">${answer.tables.map((table) => html`
          <${Table} key=${table.measure} table=${table} answer=${answer} state=${state} change=${change} />`)}</div>
        <p class="small">${answer.note} <b>≈</b> does not differ significantly from the best. A click on a number shows its items.</p>
        <${Command} words=${answer.command} />
        ${state.at && html`<${Items} answer=${answer} state=${state} change=${change} />`}
        <${Figures} answer=${answer} />`}<//>`;
}

function Sources({ answer, change }) {
  return answer.choices.length > 1 && html`<${Choice} label="Of" value=${answer.on} options=${answer.choices}
    onChange=${(on) => change({ on, rule: "", before: "", against: "", benchmark: "", ...CLOSED, metric: "", split: "" })} />`;
}

function Choices({ answer, change }) {
  return html`<div class="controls">
    <${Sources} answer=${answer} change=${change} />
    <${Choice} label="Benchmark" value=${answer.benchmark} options=${[["", "all"], ...answer.benchmarks]}
      onChange=${(benchmark) => change({ benchmark, ...CLOSED })} />
    <${Choice} label="Split" value=${answer.split} options=${answer.splits} onChange=${(split) => change({ split, ...CLOSED })} />
    <${Choice} label="Metric" value=${answer.metric} options=${[["", "the usual ones"], ...answer.metrics]}
      onChange=${(metric) => change({ metric, ...CLOSED })} />
    <${Choice} label="Against" value=${answer.against} options=${[["", "the best"], ...answer.methods]}
      onChange=${(against) => change({ against })} />
    ${answer.rules.length > 0 && html`<label class="choice">Rule
      <select value=${answer.rule} onChange=${(event) => change({ rule: event.target.value, before: answer.rule, ...CLOSED })}>
        ${answer.rules.map((rule) => html`<option value=${rule.name} selected=${rule.name === answer.rule}
          disabled=${Boolean(rule.why) && rule.name !== answer.rule}>${rule.head}${rule.why && ` (${rule.why})`}</option>`)}
      </select></label>`}
  </div>
  ${answer.rules.filter((rule) => rule.name === answer.rule).map((rule) => html`<p class="small">
    Where a method has several settings, <b>${rule.head}</b> chooses among them, by ${rule.uses}.</p>`)}`;
}

/** What changed when another rule was chosen. */
function Moved({ answer, change }) {
  if (!answer.moved) return null;
  const { moved, of, before, choices } = answer.moved;
  return html`<div class="note moved" role="status">
    <p>${count(moved)} of ${count(of)} choices are other runs than by ${before}; numbers that moved are marked.
      <button type="button" class="quiet" onClick=${() => change({ before: "" })}>do not mark</button></p>
    ${choices.length > 0 && html`<details><summary>Which</summary><div class="scroll" ...${savable("Other choices", () => choices)}><table><thead>
      <tr><th>benchmark</th><th>method</th><th class="number">seed</th><th>settings</th><th>run</th></tr></thead>
      <tbody>${choices.map((one) => html`<tr><td>${one.benchmark}</td><td>${one.method}</td><td class="number">${one.seed}</td>
        <td>${one.settings || "–"}</td><td class="mono">${one.from} → ${one.to}</td></tr>`)}</tbody></table></div></details>`}</div>`;
}

/** @param {any} answer @param {string} method */
function colour(answer, method) {
  return COLOURS[Math.max(0, answer.methods.indexOf(method)) % COLOURS.length];
}

/** One benchmark has room for the differences and p-values of its methods, as in a paper's table. */
function Table({ table, answer, state, change }) {
  const alone = table.benchmarks.length === 1;
  const reference = table.rows.find((row) => row.cells[0]?.reference)?.cells[0].reference;
  const rows = () => table.rows.flatMap(({ method, cells }) => cells.flatMap((cell, number) => (cell ? [{
    measure: table.measure, benchmark: table.benchmarks[number], method, mean: cell.value, low: cell.low, high: cell.high,
    best: cell.best, tied: cell.tied, items: cell.n, runs: cell.runs, group: cell.group, reference: cell.reference, difference: cell.difference, p: cell.p }] : [])));
  return html`<section class="compared"><h2>${table.head}</h2>
    <div class="scroll" ...${savable(table.head, rows)}><table><thead><tr><th scope="col">Method</th>
      ${table.benchmarks.map((name) => html`<th scope="col"><button type="button" class="quiet"
        title=${`Only ${name}`} onClick=${() => change({ benchmark: name, ...CLOSED })}>${name}</button></th>`)}
      ${alone && html`<th scope="col" class="number">${reference ? `to ${reference}` : "difference"}</th><th scope="col" class="number">p</th>`}</tr></thead>
    <tbody>${table.rows.map((row) => html`<tr><th scope="row"><i class="swatch" style=${`background: ${colour(answer, row.method)}`}></i>${row.method}</th>
      ${row.cells.map((cell, number) => html`<${Cell} cell=${cell} name=${JSON.stringify([table.benchmarks[number], row.method, table.measure])}
        state=${state} change=${change} />`)}
      ${alone && html`<td class="number plain">${row.cells[0]?.reference ? row.cells[0].difference : "–"}</td>
        <td class="number plain">${row.cells[0]?.p ?? "–"}</td>`}</tr>`)}</tbody></table></div></section>`;
}

function Cell({ cell, name, state, change }) {
  if (!cell) return html`<td class="none">–</td>`;
  const words = [`${count(cell.n)} items, ${cell.runs} ${cell.runs === 1 ? "run" : "runs"}`,
    cell.reference && `${cell.difference} to ${cell.reference}, p ${cell.p} (${cell.by || "no interval"})`,
    cell.was && `before: ${cell.was}`].filter(Boolean).join("\n");
  return html`<td class=${`${cell.best ? "best" : ""} ${cell.moved ? "changed" : ""}`}>
    <button type="button" title=${words} aria-pressed=${state.at === name}
      onClick=${() => change({ ...CLOSED, at: state.at === name ? "" : name })}>
      <b>${cell.tied && html`<span class="tie" title="does not differ significantly from the best">≈ </span>`}${cell.mean}</b>
      ${cell.moved && html`<em>${cell.moved}</em>`}
      <small>${cell.interval}</small>
      ${cell.group && html`<small class="group">${cell.group}</small>`}
    </button></td>`;
}

/** The items behind a cell: right and wrong ones. */
function Items({ answer, state, change }) {
  const [benchmark, method, measure] = valueOf(state, "at", ["", "", ""]);
  const held = useAnswer("cell", { on: answer.on, rule: answer.rule, split: state.split ?? "", metric: state.metric ?? "",
    against: state.against ?? "", benchmark, method, measure, outcome: state.outcome ?? "", page: state.items ?? "" });
  const table = answer.tables.find((one) => one.measure === measure);
  const facts = table?.rows.find((row) => row.method === method)?.cells[table.benchmarks.indexOf(benchmark)];
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { box.current?.scrollIntoView({ block: "nearest" }); }, [state.at]);
  return html`<section class="cell-items" ref=${box}><h2>${method} on ${benchmark}
      <button type="button" class="quiet" onClick=${() => change(CLOSED)}>close</button></h2>
    <${Answered} held=${held}>${(cell) => cell.scoring ? html`<p class="note">${cell.scoring}</p>` : html`
      <p>${facts && `${facts.mean} ${facts.interval}${facts.reference ? `, ${facts.difference} to ${facts.reference}, p ${facts.p}` : ""}. `}
        ${cell.group && `Worst group “${cell.group}”. `}${count(cell.n)} items of ${cell.split}, predicted by ${cell.runs.length}
        ${cell.runs.length === 1 ? " run" : " runs"}.
        ${cell.sealed > 0 && ` ${count(cell.sealed)} of them are sealed, kept for confirming findings: they are left out here.`}
        ${" "}Failures of ${cell.runs.map((run, number) => html`${number > 0 && ", "}<a
          href=${`#failures?run=${encodeURIComponent(`${cell.folder}/${run}`)}`}>${run}</a>`)}.</p>
      <div class="controls" role="group" aria-label="Outcome">${OUTCOMES.map(([name, words]) => html`
        <button type="button" aria-pressed=${cell.outcome === name} onClick=${() => change({ outcome: name, items: "", item: "" }, true)}>
          ${cell.runs.length > 1 || name !== "mixed" ? (cell.runs.length > 1 ? words : name) : null} <b>${count(cell.counts[name])}</b></button>`
        ).filter((_, number) => cell.runs.length > 1 || OUTCOMES[number][0] !== "mixed")}</div>
      <div ...${savable(`Items of ${method} on ${benchmark}`, () => cell.items.map(({ id, label, says, group }) => ({ id, label, says, group })))}>
        ${cell.items.length === 0 ? html`<p class="small">None.</p>` : cell.on
          ? html`<${Wall} items=${cell.items} on=${cell.on} open=${state.item} onOpen=${(entry) => change({ item: entry.id })} />`
          : html`<ul class="small">${cell.items.map((entry) => html`<li><code>${entry.id}</code> ${entry.label} ${entry.note}</li>`)}</ul>`}</div>
      ${cell.pages > 1 && html`<div class="controls pages"><span class="small">${count(cell.page * 60 + 1)}–${count(cell.page * 60 + cell.items.length)} of ${count(cell.total)}</span>
        <button type="button" disabled=${cell.page === 0} onClick=${() => change({ items: String(cell.page - 1), item: "" }, true)}>Before</button>
        <button type="button" disabled=${cell.page + 1 === cell.pages} onClick=${() => change({ items: String(cell.page + 1), item: "" }, true)}>Next</button></div>`}
      <${Command} words=${cell.command} />
      ${state.item && cell.on && html`<${Item} key=${state.item} on=${cell.on} id=${state.item} onClose=${() => change({ item: "" })} />`}`}<//></section>`;
}

/** The figures of the report. */
function Figures({ answer }) {
  const held = useAnswer("figures", Object.fromEntries(["on", "rule", "split", "metric", "against", "benchmark"].map((name) => (
    [name, answer.asked[name] ?? ""]))));
  const figures = held.answer?.figures ?? [];
  return html`<${Answered} held=${held}>${() => html`${figures.map((figure) => html`<${Figure} key=${figure.name} figure=${figure} />`)}
    ${figures.length > 0 && html`<${Command} words=${held.answer.command} />`}`}<//>`;
}

/** A figure of the report, its panels side by side as far as there is room; the table behind it is saved as CSV. */
function Figure({ figure }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidth(box);
  const panels = width && width < 640 && figure.narrow.length ? figure.narrow : figure.panels;
  const legend = figure.legends.find((one) => one.width <= width) ?? figure.legends.at(-1);
  useLayoutEffect(() => {
    if (width) box.current?.replaceChildren(...[...(legend ? [legend] : []), ...panels].map((panel) => svg(panel, figure.head)));
  }, [width, figure]);
  const rows = () => figure.rows.map((row) => Object.fromEntries(figure.columns.map((name, number) => [name, row[number]])));
  return html`<section><h2>${figure.head}</h2><figure class="chart report" ...${savable(figure.head, rows)}>
    <div class="plot drawn" ref=${box}></div><figcaption>${figure.definition}</figcaption></figure></section>`;
}

/** A panel as an element. It is parsed as XML, in which no script runs. @param {any} panel @param {string} head */
function svg(panel, head) {
  const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${panel.width} ${panel.height}" width="${panel.width}">${panel.svg}</svg>`;
  const drawn = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", panel.title ? `${head}: ${panel.title}` : head);
  return drawn;
}
