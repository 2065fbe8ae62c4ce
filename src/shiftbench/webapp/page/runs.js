// Runs: how a sweep stands while it goes, what failed and why, curves laid over each other, settings as a table.
import { html, useState } from "preact";
import { asText, valueOf } from "studio/address.js";
import { isSaved } from "studio/answers.js";
import { Answered, COLOURS, Chart, Choice, Command, Filter, count, savable, useAnswer } from "studio/parts.js";

/** @typedef {import("studio/answers.js").State} State */

/** Milliseconds between two looks: while something runs or the folder is gone, and while nothing happens. */
const SOON = 2000;
const LATER = 5000;
const STATES = ["done", "running", "unfinished", "failed", "not started"];
/** Columns whose values nobody filters by: they are different in every run. */
const OWN = ["run", "step", "loss", "seconds"];
const OVERLAID = 16;

export function Runs({ state, change }) {
  const [soon, look] = useState(true);
  const { on = "", find = "", where = "", sort = "", down = "", page = "", columns = "", show = "" } = state;
  const held = useAnswer("runs", { on, state: state.state ?? "", find, where, sort, down, page, columns, show },
    isSaved ? 0 : soon ? SOON : LATER);
  const running = Boolean(held.problem) || (held.answer?.counts ?? []).some(([name]) => name === "running");
  if (held.answer && running !== soon) look(running);
  return html`<h1>Runs</h1>
    ${held.problem && held.answer && html`<p class="note">What follows is the last that was seen.
      The page looks again every two seconds.</p>`}
    <${Answered} held=${held}>${(answer) => html`
      <${Head} answer=${answer} state=${state} change=${change} />
      <${Progress} answer=${answer} chosen=${state.state ?? ""} change=${change} />
      <${Command} words=${answer.command} />
      <${Studies} on=${answer.on} again=${isSaved ? 0 : running ? SOON : LATER} />
      <${Failures} answer=${answer} />
      <${Curves} answer=${answer} state=${state} change=${change} again=${running && !isSaved ? SOON : 0} />
      <${Settings} answer=${answer} state=${state} change=${change} />
      <${Command} words=${answer.settings_command} />`}<//>`;
}

function Head({ answer, state, change }) {
  return html`<div class="controls">
    ${answer.choices.length > 1 && html`<${Choice} label="Folder" value=${answer.on} options=${answer.choices}
      onChange=${(on) => change({ on, state: "", find: "", where: "", page: "", show: "" })} />`}
    <p class="summary" aria-live="polite">${answer.summary}</p></div>`;
}

/** Counts by state as one bar; the words below it choose a state. */
function Progress({ answer, chosen, change }) {
  const counts = Object.fromEntries(answer.counts);
  return html`<${Bar} counts=${counts} all=${answer.all} label=${answer.summary} />
    <ul class="states" aria-label="States" ...${savable("Runs by state", () => answer.counts.map(([state, n]) => ({ state, runs: n })))}>${STATES.filter((name) => counts[name]).map((name) => html`
      <li><button type="button" aria-pressed=${chosen === name}
        onClick=${() => change({ state: chosen === name ? "" : name, page: "" })}>
        <i class=${`swatch ${kind(name)}`}></i>${name} <b>${count(counts[name])}</b></button></li>`)}</ul>`;
}

function Bar({ counts, all, label }) {
  return html`<div class="progress" role="img" aria-label=${label}>${STATES.filter((name) => counts[name]).map((name) => html`
    <i class=${kind(name)} style=${`flex-grow: ${counts[name] / all}`} title=${`${name}: ${count(counts[name])}`}></i>`)}</div>`;
}

/** The class of a state's colour. @param {string} name */
function kind(name) {
  return `is-${name.replace(" ", "-")}`;
}

/** What the studies on the shelf ask for, and how much of it is there. */
function Studies({ on, again }) {
  const held = useAnswer("runs-asked", { on }, again);
  const studies = held.answer?.studies ?? [];
  if (!studies.length) return null;
  const rows = () => studies.filter((study) => study.counts).flatMap((study) => study.counts.map(([state, n]) => ({ study: study.study, state, runs: n })));
  return html`<section><h2>Studies</h2><ul class="studies" ...${savable("Studies", rows)}>${studies.map((study) => html`<li>
    <b>${study.study}</b> ${study.note ?? `asks for ${study.summary}`}
    ${study.counts && html`<${Bar} counts=${Object.fromEntries(study.counts)} all=${study.asked}
      label=${`${study.study} asks for ${study.summary}`} /><${Command} words=${study.command} />`}</li>`)}</ul>
    ${held.answer.left_over > 0 && html`<p class="note">${count(held.answer.left_over)} runs of the folder belong to none of them.</p>`}
  </section>`;
}

/** Failed runs by their reason: one mistake often fails many runs. */
function Failures({ answer }) {
  if (!answer.failed.length) return null;
  /** @type {Map<string, any[]>} */
  const reasons = new Map();
  for (const run of answer.failed) reasons.set(run.reason, [...(reasons.get(run.reason) ?? []), run]);
  return html`<section><h2>What failed, and why</h2><ul class="failed-runs"
    ...${savable("Failed runs", () => answer.failed.map(({ run, benchmark, method, seed, reason }) => ({ run, benchmark, method, seed, reason })))}>${[...reasons].map(([reason, runs]) => html`<li>
    <p class="problem">${reason}</p>
    <ul class="small">${runs.map((run) => html`<li><code>${run.run}</code> ${run.method || "unknown method"}
      ${run.benchmark && ` on ${run.benchmark}`}${run.seed >= 0 && `, seed ${run.seed}`}</li>`)}</ul></li>`)}</ul>
    ${answer.failed_more > 0 && html`<p class="note">${count(answer.failed_more)} more failed.</p>`}
    <p class="small again">To try them again, start the sweep with --retry-failed.</p></section>`;
}

/** Colour and dash of the curve with this number. @param {number} number */
function look(number) {
  return { colour: COLOURS[number % COLOURS.length], dashed: number >= COLOURS.length };
}

function Curves({ answer, state, change, again }) {
  const runs = picked(state, answer);
  const held = useAnswer("curves", { on: answer.on, runs: JSON.stringify(runs), number: state.number ?? "" }, again);
  const series = held.answer?.series ?? [];
  if (!runs.length) return null;
  return html`<section><h2>Curves</h2>
    <div class="panels">
      <${Curve} title="Loss of training" of="loss" series=${series} />
      <div>${held.answer?.numbers.length > 0 && html`<${Curve} title=${inWords(held.answer.number)} of="number" series=${series} />`}</div>
    </div>
    <div class="controls">
      ${held.answer?.numbers.length > 1 && html`<${Choice} label="Evaluation" value=${held.answer.number}
        options=${held.answer.numbers.map((name) => [name, inWords(name)])} onChange=${(number) => change({ number })} />`}
      <ul class="curve-keys" aria-label="Curves">${series.map((run, number) => html`<li>
        <button type="button" class="quiet" aria-label=${`Take away the curve of ${run.label}`}
          onClick=${() => change({ show: shown(runs.filter((name) => name !== run.run)) }, true)}>
          <${Key} number=${number} />${run.label} <small>${run.state === "done" ? "" : run.state}</small> ×</button></li>`)}</ul>
    </div>
    ${held.answer && html`<${Command} words=${held.answer.command} />`}</section>`;
}

/** @param {string} name */
function inWords(name) {
  return name.replaceAll("_", " ").replace("/", ", ");
}

/** The runs whose curves are drawn: those that were picked, else some that the server names. */
function picked(state, answer) {
  return valueOf(state, "show", answer.show);
}

/** The same, as the state holds them. @param {string[]} runs */
function shown(runs) {
  return JSON.stringify(runs.slice(-OVERLAID));
}

function Key({ number }) {
  const { colour, dashed } = look(number);
  return html`<svg class="key" width="22" height="8" aria-hidden="true"><line x1="0" x2="22" y1="4" y2="4"
    stroke=${colour} stroke-width="2.5" stroke-dasharray=${dashed ? "4 3" : null} /></svg>`;
}

function Curve({ title, of, series }) {
  const rows = series.flatMap((run, number) => run[of].map(([step, value]) => (
    { run: run.run, label: run.label, step, value, ...look(number) })));
  const marks = [false, true].map((dashed) => Plot.line(rows.filter((row) => row.dashed === dashed), {
    x: "step", y: "value", z: "run", stroke: "colour", strokeWidth: 2, strokeDasharray: dashed ? "4 3" : undefined }));
  const end = Math.max(...series.map((run) => run.steps ?? 0), ...rows.map((row) => row.step));
  const draw = () => ({
    height: 260, color: { type: "identity" }, x: { domain: [0, end], label: "step", labelAnchor: "center", labelArrow: "none" }, y: { label: null, grid: true, nice: true },
    marginLeft: 46, marginBottom: 36,
    marks: [...marks, Plot.dot(rows.filter((row) => series.length * rows.length < 4000 && row), {
      x: "step", y: "value", fill: "colour", r: 2.5 }),
    Plot.tip(rows, Plot.pointer({ x: "step", y: "value", title: (row) => `${row.label}\nstep ${row.step}: ${row.value.toPrecision(4)}` }))],
  });
  return html`<${Chart} title=${title} draw=${draw}
    rows=${rows.map(({ run, label, step, value }) => ({ run, label, step, value }))} depends=${[end, JSON.stringify(rows)]} />`;
}

/** The table: a click on a heading sorts by it, a click on a value keeps the runs that have it. */
function Settings({ answer, state, change }) {
  const where = valueOf(state, "where", []);
  const keep = (column, value) => change({ page: "", where: asText([...where.filter((one) => one.column !== column), {
    column, value: text(value), kind: "factor", words: `${column} is ${text(value) || "not set"}` }]) });
  const order = (column) => change({ sort: column, page: "",
    down: (state.sort || "state") === column && !state.down ? "1" : "" });
  const same = Object.entries(answer.same);
  return html`<section><h2>Settings</h2>
    <div class="controls">
      <label class="choice">Run <input type="search" value=${state.find ?? ""} placeholder="part of its name" size="14"
        onInput=${(event) => change({ find: event.target.value, page: "" }, true)} /></label>
      <label class="choice"><input type="checkbox" checked=${state.columns === "all"}
        onChange=${(event) => change({ columns: event.target.checked ? "all" : "" })} /> also settings that are the same in all</label>
    </div>
    <${Filter} where=${where} onChange=${(list) => change({ where: asText(list), page: "" })} />
    <div class="scroll" ...${savable("Settings", () => answer.rows.map((row) => Object.fromEntries(answer.columns.map((column) => [column, row[column]]))))}><table class="settings"><thead><tr><th scope="col"><span class="unseen">Curve</span></th>
      ${answer.columns.map((column) => html`<th scope="col" class=${typeof first(answer.rows, column) === "number" ? "number" : ""}
        aria-sort=${(state.sort || "state") === column ? (state.down ? "descending" : "ascending") : null}>
        <button type="button" class="quiet" onClick=${() => order(column)}>${column.replaceAll("_", " ")}${(state.sort || "state") === column ? (state.down ? " ↓" : " ↑") : ""}</button></th>`)}</tr></thead>
      <tbody>${answer.rows.map((row) => html`<${Row} key=${row.run} row=${row} answer=${answer} runs=${picked(state, answer)}
        keep=${keep} change=${change} />`)}</tbody>
    </table></div>
    <${Pages} answer=${answer} change=${change} />
    ${state.columns !== "all" && same.length > 0 && html`<details class="small"><summary>
      ${`${same.length} settings are the same in ${answer.whole ? "all runs" : "all runs of this page"}`}</summary>
      <p>${same.map(([name, value]) => `${name.replaceAll("_", " ")} = ${text(value) || "–"}`).join(", ")}</p></details>`}
  </section>`;
}

/** A value that tells what a column holds. @param {any[]} rows @param {string} column */
function first(rows, column) {
  return rows.find((row) => row[column] !== null)?.[column];
}

/** A setting in a filter: the server compares numbers as numbers. @param {any} value */
function text(value) {
  return value === null || value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
}

function Row({ row, answer, runs, keep, change }) {
  const number = runs.indexOf(row.run);
  const toggle = () => change({ show: shown(number >= 0 ? runs.filter((run) => run !== row.run) : [...runs, row.run]) }, true);
  return html`<tr><td><label class="pick"><input type="checkbox" checked=${number >= 0} onChange=${toggle}
      aria-label=${`Curve of ${row.run}`} />${number >= 0 && html`<${Key} number=${number} />`}</label></td>
    ${answer.columns.map((column) => html`<${Cell} column=${column} row=${row} keep=${keep} on=${answer.on}
      numeric=${typeof first(answer.rows, column) === "number"} />`)}</tr>`;
}

function Cell({ column, row, keep, on, numeric }) {
  const value = row[column];
  const side = numeric ? "number" : "";
  if (column === "state") {
    return html`<td><span class="state" title=${row.reason}><i class=${`swatch ${kind(value)}`}></i>${value}</span></td>`;
  }
  if (column === "step" && typeof value === "number" && row.steps) {
    return html`<td class="number"><span title=${`step ${value} of ${row.steps}`}>${count(value)}
      ${row.state === "done" ? "" : html` <meter min="0" max=${row.steps} value=${value}></meter>`}</span></td>`;
  }
  if (unknown(column, value, row)) return html`<td class=${side}><span class="none">–</span></td>`;
  if (column === "run" && row.state === "done") {
    return html`<td class="mono"><a href=${`#failures?run=${encodeURIComponent(`${on}/${value}`)}`} title="Its failures">${value}</a></td>`;
  }
  if (OWN.includes(column)) {
    return html`<td class=${column === "run" ? "mono" : side}>${number(column, value)}</td>`;
  }
  return html`<td class=${side}>
    <button type="button" class="run-value" title=${`Keep the runs with ${column} = ${text(value)}`} onClick=${() => keep(column, value)}>${text(value) || "none"}</button></td>`;
}

/** Whether the files of a run do not say it: it has not begun, or has no such setting. */
function unknown(column, value, row) {
  return value === null || (column === "seed" && value < 0) || (column === "seconds" && row.step === null)
    || (["benchmark", "method"].includes(column) && value === "");
}

/** @param {string} column @param {any} value */
function number(column, value) {
  if (typeof value !== "number") return value;
  return column === "seconds" ? value.toFixed(1) : column === "loss" ? value.toPrecision(3) : value;
}

function Pages({ answer, change }) {
  const start = answer.rows.length ? answer.page * 50 + 1 : 0;
  return html`<div class="controls pages"><span class="small">${count(start)}–${count(start ? start + answer.rows.length - 1 : 0)} of ${count(answer.total)} runs
      ${answer.total < answer.all && ` (of ${count(answer.all)})`}</span>
    ${answer.pages > 1 && html`<button type="button" disabled=${answer.page === 0} onClick=${() => change({ page: String(answer.page - 1) })}>Before</button>
      <button type="button" disabled=${answer.page + 1 === answer.pages} onClick=${() => change({ page: String(answer.page + 1) })}>Next</button>`}</div>`;
}
