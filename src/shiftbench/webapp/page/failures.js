// Where a model breaks: findings of audits, filters by hand, the items behind both, and the books.
import { html, useLayoutEffect, useRef, useState } from "preact";
import { asText, valueOf } from "studio/address.js";
import { act, isSaved, numbers } from "studio/answers.js";
import { Item, Wall } from "studio/items.js";
import { Answered, Chart, Choice, Command, Filter, count, percent, savable, useAnswer, useWidth } from "studio/parts.js";

/** @typedef {import("studio/answers.js").State} State */

/** @param {State} state @param {string[]} names @returns {State} */
const only = (state, names) => Object.fromEntries(Object.entries(state).filter(([name]) => names.includes(name)));

export function Failures({ state, change }) {
  const held = useAnswer("failures", only(state, ["audit", "run", "against"]));
  return html`<h1>Failures</h1>
    <${Answered} held=${held}>${(answer) => html`<${Choices} answer=${answer} change=${change} />
      ${answer.run ? html`<${Failing} answer=${answer} state=${state} change=${change} />`
        : answer.audit ? html`<${Findings} answer=${answer} where=${[]} change=${change} />
          <p class="note">This audit does not say which run it is of, or that run is not here. Choose a run to see its items.</p>`
        : html`<p>There is no finished run here, and no audit.</p><${Command} words="shiftbench audit predictions.csv --data metadata.csv --out audit.json" />`}`}<//>`;
}

function Choices({ answer, change }) {
  const audits = [["", "none"], ["open", "of the open items, made here"], ...answer.audits];
  return html`<div class="controls">
    <${Choice} label="Run" value=${answer.run} options=${[...(answer.run ? [] : [["", "choose a run"]]), ...answer.runs]}
      onChange=${(run) => change({ run, audit: answer.audit === "open" ? "open" : "", against: "", where: "", item: "" })} />
    <${Choice} label="Against" value=${answer.against} options=${[["", "no other run"], ...answer.others.filter(([name]) => name !== answer.run)]}
      onChange=${(against) => change({ run: answer.run, audit: "", against, where: "" })} />
    <${Choice} label="Audit" value=${answer.audit} options=${audits.filter(([name]) => answer.run || name !== "open")}
      onChange=${(audit) => change(audit && audit !== "open" ? { audit, run: "", against: "", where: "" } : { audit, run: answer.run, where: "" })} />
    ${answer.audit === "open" && answer.edit && html`<${SaveAudit} answer=${answer} change=${change} />`}
  </div>`;
}

function SaveAudit({ answer, change }) {
  const [problem, say] = useState("");
  const save = () => act("save-audit", { run: answer.run, against: answer.against }).then(
    (saved) => change({ audit: saved.audit, run: answer.run }), (error) => say(error.message));
  return html`<button type="button" onClick=${save}>Save this audit</button>${problem && html`<span class="problem">${problem}</span>`}`;
}

function Failing({ answer, state, change }) {
  const where = valueOf(state, "where", []);
  const facts = { run: answer.run, against: answer.against, where: asText(where) };
  const held = useAnswer("context", facts);
  const filter = (/** @type {any[]} */ next) => change({ where: asText(next) });
  const open = (/** @type {any} */ entry) => change({ item: String(entry.row) });
  return html`<div class="failures">
    <div class="left">
      ${answer.audit ? html`<${Findings} answer=${answer} where=${where} change=${change} />`
        : html`<p><button type="button" class="main" onClick=${() => change({ audit: "open", run: answer.run })}>Audit the open items</button></p>
          <p class="small">Searches all contexts of ${count(answer.n - answer.sealed)} open items, and tests them on half of these.
            ${answer.audits.length > 0 && html` Audits on disk have used all items of their run, sealed ones too: once you open one, nothing of that run can be
              confirmed by hand.`}</p>`}
      <${ByHand} answer=${answer} where=${where} filter=${filter} />
    </div>
    <div class="right">
      <${Answered} held=${held}>${(context) => html`
        <h2 class="first">${context.name === "all items" ? "All open items" : context.name}</h2>
        <${Filter} where=${where} onChange=${filter} />
        <${Numbers} context=${context} />
        ${context.pairs && html`<${Pairs} pairs=${context.pairs} answer=${answer} />`}
        <${Sides} sides=${context.sides} on=${answer.on} open=${open} />
        <div class="insights">
          ${context.confusion && html`<${Confusion} table=${context.confusion} where=${where} filter=${filter} />`}
          ${context.calibration && html`<${Calibration} bins=${context.calibration} whole=${!where.length} />`}
        </div>
        <${Maps} answer=${answer} facts=${facts} state=${state} change=${change} open=${open} whole=${!where.length} />
        <${Books} key=${JSON.stringify(facts)} context=${context} facts=${facts} answer=${answer} waiting=${held.waiting} />
        <${Command} words=${context.command} />
        ${answer.item_notes.map((note) => html`<p class="small">${note}</p>`)}`}<//>
    </div></div>
    ${state.item && answer.on && html`<${Item} key=${state.item} on=${answer.on} row=${state.item} onClose=${() => change({ item: "" })} />`}`;
}

// Findings

function Findings({ answer, where, change }) {
  const held = useAnswer("findings", { audit: answer.audit, run: answer.run, against: answer.against });
  return html`<section aria-label="Findings"><h2 class="first">Findings</h2>
    ${held.waiting && answer.audit === "open" && html`<p class="note" role="status">Searching contexts among half of the open items, to test them on the other half …</p>`}
    <${Answered} held=${held}>${(list) => html`<${FindingsList} list=${list} answer=${answer} where=${where} change=${change} />`}<//></section>`;
}

function FindingsList({ list, answer, where, change }) {
  const chosen = JSON.stringify(where);
  const subsets = list.findings.flatMap((finding) => finding.graph);
  const open = (/** @type {any[]} */ next) => change({ where: asText(next), item: "" });
  return html`${list.sentence && html`<p>${list.sentence}</p>`}
    <ol class="findings-list" ...${savable("Findings", () => list.findings.map((finding) => findingRow(finding)))}>${list.findings.map((finding) => html`
      <li style=${`--depth: ${finding.depth}`}><button type="button" aria-pressed=${JSON.stringify(finding.where) === chosen} onClick=${() => open(finding.where)}>
        <b>${finding.number}.</b> ${finding.sentence}
        <${Bar} finding=${finding} all=${list.findings} /></button>
        ${finding.graph.length > 0 && html`<small class="subsets-of">on the meta-graph: ${finding.graph.map(({ cls, tag }, number) => html`
          ${number > 0 && ", "}<a href=${graphLink(answer, cls, tag, finding.graph)}>${cls}(${tag})</a>`)}</small>`}
      </li>`)}</ol>
    ${subsets.length > 1 && html`<p class="small">All on the meta-graph of ${[...new Set(subsets.map((one) => one.cls))].map((cls, number) => html`
      ${number > 0 && " or "}<a href=${graphLink(answer, cls, "", subsets)}>${cls}</a>`)}</p>`}
    ${list.undecided.length > 0 && html`<details><summary>${count(list.undecided.length)} that the data do not decide</summary>
      <ul class="findings-list">${list.undecided.map((one) => html`<li><button type="button" aria-pressed=${JSON.stringify(one.where) === chosen}
        onClick=${() => open(one.where)}>${one.sentence}</button></li>`)}</ul></details>`}
    ${list.notes.length > 0 && html`<details><summary>Notes of the audit</summary><ul class="notes">${list.notes.map((note) => html`<li>${note}</li>`)}</ul></details>`}
    ${list.command && html`<${Command} words=${list.command} />`}`;
}

/** A finding as a row of a table. @param {any} finding */
function findingRow({ number, name, n, loss, rest, difference, sentence }) {
  return { number, context: name, items: n, loss: loss[0], low: loss[1], high: loss[2], rest,
    difference: difference[0], difference_low: difference[1], difference_high: difference[2], sentence };
}

/** The meta-graph of a class with the subsets of findings marked. */
function graphLink(answer, cls, at, subsets) {
  const mark = JSON.stringify([...new Set(subsets.map((one) => one.tag))]);
  return `#graph?${new URLSearchParams({ on: answer.on, cls, ...(at ? { at } : {}), mark, kinds: "[]", min_size: "5" })}`;
}

/** How much worse than elsewhere, as a bar with its interval, on one scale for all findings. */
function Bar({ finding, all }) {
  const ends = all.flatMap((one) => one.difference).filter((value) => value !== null);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const at = (/** @type {number | null} */ value, /** @type {number} */ otherwise) => 100 * ((value ?? otherwise) - low) / (high - low || 1);
  const [value, from, to] = finding.difference;
  return html`<span class="difference" aria-hidden="true"><i class="zero" style=${`left: ${at(0, 0)}%`}></i>
    <i class="reach" style=${`left: ${at(from, low)}%; width: ${at(to, high) - at(from, low)}%`}></i>
    <i class="dot" style=${`left: ${at(value, 0)}%`}></i></span>`;
}

/** A filter made by hand, of what is known about the items. */
function ByHand({ answer, where, filter }) {
  const [name, choose] = useState("");
  const column = answer.columns.find((one) => one.name === name) ?? answer.columns[0];
  if (!column) return null;
  const add = (/** @type {string} */ number) => filter([...where, column.values[Number(number)].is]);
  return html`<section aria-label="Filter by hand"><h2>Look for yourself</h2>
    <p class="small">Every filter you open is counted as a look. ${count(answer.sealed)} of ${count(answer.n)} items are sealed: no
      view shows how models do on them, so that what you find can be confirmed there.</p>
    <div class="controls"><${Choice} label="Column" value=${column.name} options=${answer.columns.map((one) => one.name)} onChange=${choose} />
      <label class="choice">Value <select value="" onChange=${(event) => { if (event.target.value) add(event.target.value); }}>
        <option value="">choose</option>${column.values.map((value, number) => html`
          <option value=${String(number)}>${value.is.words} (${count(value.n)})</option>`)}</select></label></div>
  </section>`;
}

// One context

/** @param {number | null} value @param {any} context @param {boolean} [sign] */
function shown(value, context, sign = false) {
  if (value === null || Number.isNaN(value)) return "–";
  const text = context.unit === "share" ? (100 * value).toFixed(0) : value.toPrecision(3);
  return `${(sign || context.change) && value > 0 ? "+" : ""}${text}`.replace("-", "−");
}

function Numbers({ context }) {
  const unit = context.unit !== "share" ? "" : context.change ? " points" : " %";
  const words = context.words.replace(/^the /, "");
  const cell = (/** @type {string} */ head, /** @type {any} */ value, sign = false, after = unit) => value && html`<div><dt>${head}</dt>
    <dd><b>${shown(value[0], context, sign)}${after}</b>${value[1] !== null && html` <small>${shown(value[1], context, sign)} to ${shown(value[2], context, sign)}</small>`}</dd></div>`;
  const rows = () => [["inside", context.inside], ["elsewhere", context.outside], ["difference", context.difference]].filter(([, value]) => value).map(
    ([where, [value, low, high]]) => ({ where, [words]: value, low, high, ...(where === "inside" ? { items: context.n } : {}) }));
  return html`<dl class="figures" ...${savable("Loss inside and elsewhere", rows)}>
    <div><dt>open items inside</dt><dd><b>${count(context.n)}</b> <small>of ${count(context.n_open)}</small></dd></div>
    ${cell(`${context.change ? "change of " : ""}${words} inside`, context.inside)}
    ${cell("elsewhere", context.outside)}
    ${cell("difference", context.difference, true, context.unit === "share" ? " points" : "")}</dl>
    <p class="small">Intervals of 95 %, which do not allow for the number of filters that were looked at.</p>`;
}

function Pairs({ pairs, answer }) {
  const name = (/** @type {string} */ run) => (answer.runs.find(([id]) => id === run) ?? answer.others.find(([id]) => id === run) ?? [run, run])[1];
  return html`<section aria-label="Two runs"><h3>Which of the two gets an item right</h3>
    <dl class="figures" ...${savable("Two runs", () => [pairs])}><div><dt>only ${name(answer.run)}</dt><dd><b>${count(pairs.only_this)}</b></dd></div>
      <div><dt>only ${name(answer.against)}</dt><dd><b>${count(pairs.only_other)}</b></dd></div>
      <div><dt>both</dt><dd><b>${count(pairs.both)}</b></dd></div><div><dt>neither</dt><dd><b>${count(pairs.none)}</b></dd></div></dl></section>`;
}

function Sides({ sides, on, open }) {
  const rows = () => sides.flatMap((side) => side.items.map(({ id, label, note }) => ({ side: side.head, id, label, prediction: note.replace(/^→ /, "") })));
  return html`<div class="sides" ...${savable("Failing and passing items", rows)}>${sides.map((side) => html`<section aria-label=${side.head}><h3>${side.head} <small>${count(side.n)}</small></h3>
    ${side.n === 0 ? html`<p class="small">None.</p>` : on ? html`<${Wall} items=${side.items} on=${on} onOpen=${open} />`
      : html`<ul class="plain">${side.items.map((item) => html`<li>${item.id} <small>${item.label}, ${item.note}</small></li>`)}</ul>`}</section>`)}</div>`;
}

function Confusion({ table, where, filter }) {
  const names = table.rows.map((one) => one.value);
  const most = Math.max(1, ...table.cells.flat());
  const last = table.others ? [`${table.others} others`] : [];
  const pick = (/** @type {number} */ row, /** @type {number} */ column) => filter([
    ...where.filter((one) => one.kind !== "label" && one.kind !== "prediction"), table.rows[row], table.columns[column]]);
  const rows = () => table.cells.flatMap((cells, row) => cells.map((n, column) => (
    { label: [...names, ...last][row], prediction: [...names, ...last][column], items: n })));
  return html`<figure class="chart" ...${savable("Confusion", rows)}>
    <figcaption>Confusion: labels down, predictions across. A click shows the items.</figcaption>
    <div class="scroll"><table class="heat confusion"><thead><tr><td></td>${[...names, ...last].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${table.cells.map((cells, row) => html`<tr><th scope="row">${[...names, ...last][row]}</th>${cells.map((n, column) => html`
        <td class="number ${row === column ? "right" : "wrong"}" style=${`--heat: ${100 * n / most}%`}>
          <button type="button" disabled=${!n || row >= names.length || column >= names.length} onClick=${() => pick(row, column)}
            aria-label=${`${[...names, ...last][row]} predicted as ${[...names, ...last][column]}: ${n}`}>${count(n)}</button></td>`)}</tr>`)}
      </tbody></table></div></figure>`;
}

function Calibration({ bins, whole }) {
  const rows = Object.entries(bins).flatMap(([side, list]) => list.map((bin) => ({ side: whole ? "all" : side, ...bin })));
  if (!rows.length) return html`<p class="small">Too few items for calibration.</p>`;
  const sides = whole ? ["all"] : ["inside", "elsewhere"];
  return html`<${Chart} title="Calibration: how often predictions of a confidence are right, with intervals of 95 %" rows=${rows} depends=${[bins]}
    draw=${(width) => ({
      height: Math.min(320, width * 0.75), marginTop: 27, marginLeft: 44, marginBottom: 36, grid: true,
      x: { domain: [Math.min(0.5, ...rows.map((row) => row.confidence)), 1], label: "confidence", labelAnchor: "center", labelArrow: "none", tickFormat: "%" },
      y: { domain: [0, 1], label: "right", tickFormat: "%" },
      color: { domain: sides, range: whole ? ["var(--m1)"] : ["var(--m2)", "var(--m1)"] },
      symbol: { domain: sides, range: ["circle", "square"] },
      marks: [
        Plot.line([[0, 0], [1, 1]], { stroke: "var(--faint)", strokeDasharray: "3,3", clip: true }),
        Plot.ruleX(rows, { x: "confidence", y1: "low", y2: "high", stroke: "side", strokeOpacity: 0.6 }),
        Plot.line(rows, { x: "confidence", y: "right", stroke: "side", z: "side" }),
        Plot.dot(rows, { x: "confidence", y: "right", fill: "side", symbol: "side", r: 4, title: (row) => `${row.side}: confidence ${percent(row.confidence)}, right ${percent(row.right)}, ${row.n} items` }),
        // The key stands where confident predictions would be wrong: no line goes there.
        ...(whole ? [] : sides).flatMap((side, number) => {
          const at = { frameAnchor: "bottom-right", dy: -26 + 17 * number };
          return [Plot.dot([side], { ...at, dx: -78, r: 4, fill: [side], symbol: [side] }), Plot.text([side], { ...at, dx: -68, textAnchor: "start" })];
        }),
      ],
    })} />`;
}

// The embedding map

function Maps({ answer, facts, state, change, open, whole }) {
  if (!answer.maps.length) {
    return html`<p class="small">There are no features on disk for an embedding map. <code>shiftbench embed</code> makes them.</p>`;
  }
  const name = state.features || answer.maps[0];
  return html`<section aria-label="Embedding map">
    ${answer.maps.length > 1 && html`<${Choice} label="Features" value=${name} options=${answer.maps} onChange=${(features) => change({ features }, true)} />`}
    <${EmbeddingMap} facts=${{ ...facts, features: name }} on=${answer.on} open=${open} whole=${whole} /></section>`;
}

const WIDE = 5; // numbers of a point: row, x, y, whether it fails, whether it is inside
const NONE = new Float32Array();

function EmbeddingMap({ facts, open, whole }) {
  const box = useRef(/** @type {any} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [loaded, hold] = useState(/** @type {Float32Array | null} */ (null));
  const points = loaded ?? NONE;
  const [problem, say] = useState("");
  const width = useWidth(box);
  const [at, point] = useState(-1);
  const key = JSON.stringify(facts);
  useLayoutEffect(() => {
    const stop = new AbortController();
    numbers("points", facts, stop.signal).then((got) => {
      if (stop.signal.aborted) return;
      hold(got);
      point(-1);
      say("");
    }, (error) => { if (!stop.signal.aborted) say(error.message); });
    return () => stop.abort();
  }, [key]);
  const height = Math.round(Math.min(460, width * 0.62));
  const many = points.length / WIDE;
  const place = (/** @type {number} */ number) => [10 + points[number * WIDE + 1] * (width - 20), height - 10 - points[number * WIDE + 2] * (height - 20)];
  useLayoutEffect(() => {
    if (loaded && canvas.current && width) paint(canvas.current, points, width, height, at, whole);
  }, [loaded, width, at, whole]);
  const near = (/** @type {MouseEvent} */ event) => {
    let [best, far] = [-1, 400];
    for (let number = 0; number < many; number += 1) {
      const [x, y] = place(number);
      const distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < far) [best, far] = [number, distance];
    }
    return best;
  };
  const show = (/** @type {number} */ number) => { if (number >= 0) open({ row: points[number * WIDE] }); };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way) point(next(many, place, at, way));
    else if (event.key === "Enter") show(at);
    else return;
    event.preventDefault();
  };
  const fails = Array.from({ length: many }, (_, number) => points[number * WIDE + 3]).filter(Boolean).length;
  const rows = () => Array.from({ length: many }, (_, number) => Object.fromEntries(["row", "x", "y", "fails", "inside"].map((name, place) => [name, points[number * WIDE + place]])));
  return html`<figure class="chart map" ...${savable("Embedding map", rows, box)}>
    <figcaption>Embedding map: two principal components of the features, ${loaded ? `${count(many)} open items, ${count(fails)} failing` : "loading …"}.
      <span class="keys"><i class="fails"></i> fails <i class="passes"></i> passes${!whole && html` <i class="faded"></i> not in the context`}</span></figcaption>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <canvas ref=${canvas} tabindex="0" role="img" style=${`width: ${width}px; height: ${height}px`}
      aria-label=${`Embedding map of ${many} items. Arrow keys go from item to item, Enter opens one.`}
      onPointerMove=${(event) => point(near(event))} onPointerLeave=${() => point(-1)}
      onClick=${(event) => show(near(event))} onKeyDown=${onKey}></canvas>
    <p class="small" role="status">${at >= 0 ? `Item ${count(points[at * WIDE])} ${points[at * WIDE + 3] ? "fails" : "passes"}${!whole && points[at * WIDE + 4] ? ", in the context" : ""}. Click or Enter opens it.` : "Point at an item, or use the arrow keys."}</p>
  </figure>`;
}

/** The nearest point in a direction. */
function next(/** @type {number} */ many, /** @type {any} */ place, /** @type {number} */ at, /** @type {number[]} */ [dx, dy]) {
  if (at < 0) return 0;
  const [x, y] = place(at);
  let [best, far] = [at, Infinity];
  for (let number = 0; number < many; number += 1) {
    const [ox, oy] = place(number);
    const ahead = (ox - x) * dx + (oy - y) * dy;
    const aside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
    if (number !== at && ahead > 0 && ahead + 2 * aside < far) [best, far] = [number, ahead + 2 * aside];
  }
  return best;
}

function paint(/** @type {HTMLCanvasElement} */ canvas, /** @type {Float32Array} */ points, /** @type {number} */ width, /** @type {number} */ height, /** @type {number} */ at, /** @type {boolean} */ whole) {
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const style = getComputedStyle(canvas);
  const [bad, good, ink] = ["--m2", "--m1", "--ink"].map((name) => style.getPropertyValue(name));
  pen.scale(scale, scale);
  const many = points.length / WIDE;
  const size = many > 5000 ? 1.6 : many > 1000 ? 2.4 : 3.2;
  // Those that fail are drawn last, as triangles: colour is not the only difference.
  for (const fails of [0, 1]) {
    pen.fillStyle = fails ? bad : good;
    for (let number = 0; number < many; number += 1) {
      const [, x, y, wrong, inside] = points.subarray(number * WIDE, number * WIDE + WIDE);
      if (wrong !== fails) continue;
      pen.globalAlpha = whole || inside ? 0.85 : 0.22;
      mark(pen, 10 + x * (width - 20), height - 10 - y * (height - 20), size, Boolean(fails));
    }
  }
  pen.globalAlpha = 1;
  if (at >= 0) {
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(10 + points[at * WIDE + 1] * (width - 20), height - 10 - points[at * WIDE + 2] * (height - 20), size + 5, 0, 7);
    pen.stroke();
  }
}

function mark(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ size, /** @type {boolean} */ fails) {
  pen.beginPath();
  if (fails) {
    pen.moveTo(x, y - 1.5 * size);
    pen.lineTo(x + 1.4 * size, y + size);
    pen.lineTo(x - 1.4 * size, y + size);
  } else pen.arc(x, y, size, 0, 7);
  pen.fill();
}

// The books

function Books({ context, facts, answer, waiting }) {
  const { books } = context;
  const [result, hold] = useState(/** @type {any} */ (null));
  const [problem, say] = useState("");
  const test = result?.test ?? books.test;
  const confirm = () => act("confirm", facts).then((got) => { hold(got); say(""); }, (error) => say(error.message));
  const looks = result?.looks ?? books.looks;
  const tests = result && !books.tests.some((one) => one.number === result.test.number) ? [...books.tests, result.test] : books.tests;
  return html`<section class="books" aria-label="The books"><h2>Is it so?</h2>
    <p><b>${count(looks)}</b> look${looks === 1 ? "" : "s"} so far, <b>${count(tests.length)}</b> finding${tests.length === 1 ? "" : "s"} tested. ${count(books.sealed)} of ${count(answer.n)} items are sealed.
      The next test has the level ${(result?.level ?? books.level).toPrecision(2)}: whichever filters you open, the chance that any of your confirmations is false stays below ${percent(books.alpha)}.</p>
    ${test ? html`<p class=${test.confirmed ? "verdict yes" : "verdict no"} role="status">${test.confirmed ? "✓" : "✗"} ${test.sentence}</p>`
      : books.spent ? html`<p class="note">${books.spent}</p>`
      : !facts.where ? html`<p class="small">Choose a filter or a finding to confirm it on the sealed items.</p>`
      : html`<p><button type="button" class="main" disabled=${isSaved || waiting || !books.sealed_inside} onClick=${confirm}>Confirm once, on ${count(books.sealed_inside)} sealed item${books.sealed_inside === 1 ? "" : "s"}</button></p>
        <p class="small">Tested: whether ${books.failing} is more frequent inside. ${books.detectable === null ? "So few items could not show it, however large." : `A difference of ${(100 * books.detectable).toFixed(0)} points would be confirmed in 4 of 5 cases.`}${" "}
          It cannot be tested again.</p>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${tests.length > 0 && html`<details><summary>All tests so far</summary><ul class="findings-list"
      ...${savable("Tests on sealed items", () => tests.map(({ number, context, subject, confirmed, p, level, looks }) => ({ number, context, subject, confirmed, p, level, looks })))}>${tests.map((one) => html`
      <li><b>${one.confirmed ? "✓" : "✗"} ${one.context}</b> <small>${one.subject}</small><br />${one.sentence}</li>`)}</ul></details>`}
  </section>`;
}
