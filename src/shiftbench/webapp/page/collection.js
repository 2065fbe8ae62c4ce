// A collection: a wall of its items, and beside it every column with the counts under the present filter.
import { html, useLayoutEffect, useRef, useState } from "preact";
import { asText, valueOf } from "studio/address.js";
import { ask, begin } from "studio/answers.js";
import { Item, LongWall } from "studio/items.js";
import { Answered, Choice, Command, count, Filter, percent, savable, useAnswer } from "studio/parts.js";

const FIRST = 8; // values of a column that are shown before one asks for more

/** Whether two predicates say the same. @param {any} one @param {any} other */
const same = (one, other) => one.column === other.column && one.value === other.value && one.kind === other.kind;

/** A value with its count, and a bar: how many have it under the filter, of all that have it. */
function Value({ entry, most, chosen, onPick }) {
  return html`<li><button type="button" class="value" aria-pressed=${chosen} onClick=${() => onPick(entry.is)} title=${entry.is.words}>
    <i style=${`--share: ${entry.all / most}`}></i><i class="now" style=${`--share: ${Math.max(entry.n, 0) / most}`}></i>
    <span>${entry.name}</span><b>${entry.n < 0 ? "?" : count(entry.n)}</b></button></li>`;
}

/** The values of a column, the first of them until one asks for more. */
function Values({ label, values, many, where, onPick, find }) {
  const [all, show] = useState(false);
  const [words, write] = useState("");
  const [matching, match] = useState(/** @type {any[] | null} */ (null));
  const key = JSON.stringify(where);
  useLayoutEffect(() => {
    if (!words) return match(null);
    const stop = new AbortController();
    const end = begin();
    const timer = setTimeout(() => {
      find(words, stop.signal).then((found) => { if (!stop.signal.aborted) match(found); }, () => {});
      end();
    }, 150);
    return () => { clearTimeout(timer); end(); stop.abort(); };
  }, [words, key]);
  const listed = matching ?? (all ? values : values.slice(0, FIRST));
  const most = Math.max(1, ...values.map((entry) => entry.all));
  return html`
    ${many > FIRST && html`<input type="search" class="find" placeholder=${`Find among ${count(many)}`} aria-label=${`Find a value of ${label}`}
      value=${words} onInput=${(event) => write(event.target.value)} />`}
    <ul class="values">${listed.map((entry) => html`<${Value} key=${JSON.stringify([entry.is.kind, entry.name])} entry=${entry} most=${most}
      chosen=${where.some((held) => same(held, entry.is))} onPick=${onPick} />`)}</ul>
    ${!matching && values.length > FIRST && html`<button type="button" class="quiet" onClick=${() => show(!all)}>
      ${all ? "fewer" : values.length < many ? `the ${values.length} most frequent of ${count(many)}` : `all ${values.length}`}</button>`}`;
}

/** Numbers as a histogram: drag over bars, or write the ends of a range. */
function Bins({ column, where, onPick, onRange }) {
  const [ends, pull] = useState(/** @type {[number, number] | null} */ (null));
  const bars = column.values.filter((entry) => entry.is.kind !== "missing");
  const missing = column.values.filter((entry) => entry.is.kind === "missing");
  const most = Math.max(1, ...bars.map((entry) => entry.all));
  const inside = (/** @type {number} */ number) => ends && number >= Math.min(...ends) && number <= Math.max(...ends);
  const drop = () => {
    if (!ends) return;
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    pull(null);
    if (first === last) onPick(bars[first].is);
    else onRange(shown(column, first), shown(column, last + 1));
  };
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const fields = new FormData(event.target);
    onRange(String(fields.get("low") ?? ""), String(fields.get("high") ?? ""));
  };
  const type = column.kind === "date" ? "date" : "number";
  return html`<div class="histogram" aria-hidden="true" onPointerLeave=${() => pull(null)} onPointerUp=${drop}>
      ${bars.map((entry, number) => html`<div key=${number} class=${inside(number) ? "bin chosen" : "bin"} title=${`${entry.is.words}: ${count(entry.n)}`}
          onPointerDown=${() => pull([number, number])} onPointerEnter=${() => ends && pull([ends[0], number])}>
        <i style=${`height: ${100 * entry.all / most}%`}></i><i class="now" style=${`height: ${100 * entry.n / most}%`}></i></div>`)}</div>
    <div class="histogram-ends small"><span>${shown(column, 0)}</span><span>${shown(column, bars.length)}</span></div>
    <form class="range" onSubmit=${submit}>
      <input name="low" type=${type} step="any" placeholder="from" aria-label=${`${column.name}: from`} />
      <input name="high" type=${type} step="any" placeholder="to under" aria-label=${`${column.name}: to under`} />
      <button type="submit">pick</button></form>
    <ul class="values">${missing.map((entry) => html`<${Value} entry=${entry} most=${entry.all}
      chosen=${where.some((held) => same(held, entry.is))} onPick=${onPick} />`)}</ul>`;
}

/** An edge of a bin as it is written. @param {any} column @param {number} number */
function shown(column, number) {
  const edge = column.edges[number];
  if (edge === undefined) return "";
  return column.kind === "date" ? new Date(edge * 864e5).toISOString().slice(0, 10) : String(edge);
}

/** A column whose items have a value each: one is written out. */
function Own({ column, onValue }) {
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    onValue(String(new FormData(event.target).get("value") ?? ""));
  };
  return html`<form class="range" onSubmit=${submit}><input name="value" placeholder="exact value" aria-label=${`A value of ${column.name}`} />
    <button type="submit">pick</button></form>`;
}

/** Every column, tag and class with its counts. */
function Panel({ on, answer, where, onPick, onWrite, more, questions, onMore }) {
  const state = { on, where: asText(where) };
  const written = (/** @type {string} */ column) => ({
    onRange: (/** @type {string} */ low, /** @type {string} */ high) => onWrite({ column, low, high }),
    onValue: (/** @type {string} */ value) => onWrite({ column, value }),
  });
  const add = (/** @type {any} */ event) => {
    event.preventDefault();
    const name = String(new FormData(event.target).get("column") ?? "").trim();
    if (name) { onMore([...more.filter((other) => other !== name), name]); event.target.reset(); }
  };
  const rows = () => [...answer.columns.flatMap((column) => [["", column.values], ["classes of ", column.classes]].flatMap(([words, values]) => (
    values.map((value) => ({ column: `${words}${column.name}`, value: value.name, items: value.n, of: value.all }))))),
  ...answer.tags.flatMap((kind) => kind.values.map((value) => ({ column: `tags: ${kind.name}`, value: value.name, items: value.n, of: value.all })))];
  return html`<div ...${savable("Counts", rows)}>
    ${answer.columns.map((column) => column.shape !== "text" && html`
      <details key=${column.name} class="facet" open=${column.shape !== "own"}>
        <summary><span>${column.name}</span>
          ${more.includes(column.name) && html`<button type="button" class="quiet" aria-label=${`Remove the column ${column.name}`}
            onClick=${(event) => { event.preventDefault(); onMore(more.filter((name) => name !== column.name)); }}>×</button>`}</summary>
        ${column.shape === "values" && html`<${Values} label=${column.name} values=${column.values} many=${column.many} where=${where} onPick=${onPick}
          find=${(find, signal) => ask("values", { ...state, column: column.name, find }, signal).then((found) => found.values)} />`}
        ${column.shape === "bins" && html`<${Bins} column=${column} where=${where} onPick=${onPick} ...${written(column.name)} />`}
        ${column.shape === "own" && html`<${Own} column=${column} ...${written(column.name)} />`}
        ${column.classes.length > 0 && html`<details class="facet inner"><summary><span>classes of ${column.name}</span></summary>
          <${Values} label=${`classes of ${column.name}`} values=${column.classes} many=${0} where=${where} onPick=${onPick} /></details>`}
      </details>`)}
    ${answer.tags.map((kind) => html`<details key=${`tags ${kind.name}`} class="facet" open>
      <summary><span>${kind.name}</span><small>tags</small></summary>
      <${Values} label=${kind.name} values=${kind.values} many=${kind.many} where=${where} onPick=${onPick}
        find=${(find, signal) => ask("values", { ...state, find }, signal).then((found) => found.tags.find((other) => other.name === kind.name)?.values ?? [])} />
    </details>`)}
    <form class="range" onSubmit=${add}><input name="column" list="questions" placeholder="further column: area:dog" aria-label="Add a column" />
      <datalist id="questions">${questions.map((name) => html`<option value=${name}></option>`)}</datalist>
      <button type="submit">add</button></form></div>`;
}

/** Two columns against each other; a click on a cell filters both. */
function Cross({ state, onPick, onClose }) {
  const held = useAnswer("cross", { on: state.on, where: state.where ?? "", a: state.a, b: state.b });
  return html`<section class="cross"><h2>${state.a} × ${state.b} <button type="button" class="quiet" onClick=${onClose}>close ×</button></h2>
    <${Answered} held=${held}>${(answer) => {
      const most = Math.max(1, ...answer.cells.flat());
      const pick = (/** @type {any[]} */ ...sides) => onPick(...sides.map((side) => side.is).filter(Boolean));
      const other = state.a === state.b ? `${state.b} again` : state.b;
      const rows = () => answer.rows.flatMap((row, i) => answer.columns.map((column, j) => (
        { [state.a]: row.name, [other]: column.name, items: answer.cells[i][j] })));
      return html`<div class="scroll" ...${savable(`${state.a} × ${state.b}`, rows)}><table class="heat"><thead><tr><td></td>
          ${answer.columns.map((column) => html`<th scope="col"><button type="button" class="quiet" disabled=${!column.is} onClick=${() => pick(column)}>${column.name}</button></th>`)}
          <th scope="col" class="number">all</th></tr></thead>
        <tbody>${answer.rows.map((row, i) => html`<tr><th scope="row"><button type="button" class="quiet" disabled=${!row.is} onClick=${() => pick(row)}>${row.name}</button></th>
          ${answer.cells[i].map((n, j) => html`<td class="number" style=${`--heat: ${Math.round(100 * Math.sqrt(n / most))}%`}>
            <button type="button" disabled=${!n || !row.is || !answer.columns[j].is} aria-label=${`${row.name}, ${answer.columns[j].name}: ${n}`}
              title=${`${row.name}, ${answer.columns[j].name}: ${percent(row.n ? n / row.n : null)} of the row`}
              onClick=${() => pick(row, answer.columns[j])}>${n ? count(n) : "·"}</button></td>`)}
          <td class="number">${count(row.n)}</td></tr>`)}
          <tr class="sum"><th scope="row">all</th>${answer.columns.map((column) => html`<td class="number">${count(column.n)}</td>`)}<td class="number">${count(answer.n)}</td></tr>
        </tbody></table></div><${Command} words=${answer.command} />`;
    }}<//></section>`;
}

/** What the colours mean. A column without colours is told by the wall. */
function Legend({ on, colour }) {
  const held = useAnswer("legend", { on, colour });
  return html`${held.answer && !held.problem && html`<ul class="colours" aria-label=${`Colours of ${colour}`}>
      ${held.answer.ramp.length > 0 && html`<li class="shades">${held.answer.ramp[0].name}
        <span>${held.answer.ramp.map((entry) => html`<i title=${entry.name} style=${`background: ${entry.colour}`}></i>`)}</span>
        ${held.answer.ramp[held.answer.ramp.length - 1].name}</li>`}
      ${held.answer.entries.map((entry) => html`<li><i style=${`background: ${entry.colour}`}></i>${entry.name}</li>`)}</ul>`}`;
}

/** Search in texts: a word becomes a predicate. */
function Search({ texts, onWrite }) {
  const [column, choose] = useState(texts[0]);
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const word = String(new FormData(event.target).get("word") ?? "").trim();
    if (word) { onWrite({ column, word }); event.target.reset(); }
  };
  return html`<form class="search" role="search" onSubmit=${submit}>
    ${texts.length > 1 && html`<${Choice} label="in" value=${column} options=${texts} onChange=${choose} />`}
    <input name="word" type="search" placeholder="word in a text" aria-label="Search a word in texts" /><button type="submit">search</button></form>`;
}

export function Collection({ state, change }) {
  const about = useAnswer("collection", state);
  const on = state.on || about.answer?.on || "";
  if (!on) return html`<h1>Collection</h1><${Answered} held=${about}>${() => null}<//>`;
  return html`<${Chosen} key=${on} state=${{ ...state, on }} about=${about} change=${change} />`;
}

function Chosen({ state, about, change }) {
  const { on } = state;
  const where = valueOf(state, "where", []);
  const more = valueOf(state, "more", []);
  const filter = { on, where: state.where ?? "" };
  const held = useAnswer("counts", { ...filter, more: state.more ?? "" });
  const look = useAnswer("look", { on });
  const [problem, complain] = useState("");
  const wide = useRef(matchMedia("(min-width: 50.01rem)").matches);

  const put = (/** @type {any[]} */ list) => { complain(""); change({ where: asText(list) }); };
  /** A second click takes a predicate away. */
  const pick = (/** @type {any[]} */ ...predicates) => put(predicates.length === 1 && where.some((other) => same(other, predicates[0]))
    ? where.filter((other) => !same(other, predicates[0]))
    : [...where.filter((other) => !predicates.some((predicate) => same(other, predicate))), ...predicates]);
  const write = (/** @type {Record<string, string>} */ words) => ask("predicate", { on, ...words }).then(
    (answer) => pick(answer.is), (error) => complain(error.message));

  const facts = about.answer?.on === on ? about.answer : { collections: [on], factors: [], texts: [], questions: [], name: on, n: 0 };
  const columns = held.answer?.columns.filter((column) => ["values", "bins"].includes(column.shape)).map((column) => column.name) ?? facts.factors;
  const order = state.mixed ? "mixed" : state.order ? `by ${state.order}` : "";
  const orders = [["", "as stored"], ["mixed", "mixed"], ...columns.map((name) => [`by ${name}`, `by ${name}`])];
  const sort = (/** @type {string} */ name) => change(name === "mixed" ? { mixed: "1", order: "", down: "" }
    : { mixed: "", order: name.slice(3), down: name ? state.down ?? "" : "" });
  const wall = { ...filter, colour: state.colour ?? "", order: state.order ?? "", down: state.down ?? "", mixed: state.mixed ?? "" };
  const n = held.answer?.n;
  const problems = new Set([about.problem, held.problem, problem].filter(Boolean)); // requests may fail for one reason
  return html`
    <header class="collection-head"><h1>${facts.name}</h1>
      <p class="found" role="status">${n === undefined ? "" : n < held.answer.of ? html`<b>${count(n)}</b> of ${count(held.answer.of)} items, ${percent(n / held.answer.of, 1)}` : html`<b>${count(n)}</b> items`}</p></header>
    ${[...problems].map((words) => html`<p key=${words} class="problem" role="alert">${words}</p>`)}
    <div class="controls">
      ${facts.collections.length > 1 && html`<${Choice} label="Collection" value=${on} options=${facts.collections}
        onChange=${(id) => change({ on: id, where: "", colour: "", order: "", down: "", mixed: "", a: "", b: "", item: "", more: "" })} />`}
      ${facts.texts.length > 0 && html`<${Search} texts=${facts.texts} onWrite=${write} />`}
      <${Choice} label="Colour" value=${state.colour ?? ""} options=${[["", "none"], ...columns]} onChange=${(name) => change({ colour: name })} />
      <span class="joined"><${Choice} label="Order" value=${order} options=${orders} onChange=${sort} />
        ${state.order && html`<button type="button" aria-pressed=${Boolean(state.down)} aria-label="Largest first" title="Largest first"
          onClick=${() => change({ down: state.down ? "" : "1" })}>${state.down ? "↓" : "↑"}</button>`}</span>
      <span class="joined"><${Choice} label="Cross" value=${state.a ?? ""} options=${[["", "–"], ...columns]} onChange=${(a) => change({ a })} />
        <${Choice} label="with" value=${state.b ?? ""} options=${[["", "–"], ...columns]} onChange=${(b) => change({ b })} /></span>
    </div>
    <${Filter} where=${where} onChange=${put} />
    <div class="columns">
      <details class="panel" open=${wide.current}><summary>Filter by what is known</summary>
        <${Answered} held=${{ ...held, problem: "" }}>${(answer) => html`<${Panel} on=${on} answer=${answer} where=${where} onPick=${pick} onWrite=${write}
          more=${more} questions=${facts.questions} onMore=${(names) => change({ more: asText(names) })} />`}<//></details>
      <div>
        ${state.a && state.b && html`<${Cross} state=${state} onPick=${pick} onClose=${() => change({ a: "", b: "" })} />`}
        ${state.colour && html`<${Legend} on=${on} colour=${state.colour} />`}
        ${look.answer?.why && html`<p class="note">${look.answer.why}</p>`}
        ${n === 0 && html`<p>No item fulfils all of this.</p>`}
        ${look.answer && html`<${LongWall} state=${wall} look=${look.answer} open=${state.item ?? ""}
          onOpen=${(entry) => change({ item: entry.id })} />`}
      </div>
    </div>
    ${held.answer && html`<${Command} words=${held.answer.command} />`}
    ${state.item && html`<${Item} key=${state.item} on=${on} id=${state.item} onClose=${() => change({ item: "" })} onFilter=${pick} />`}`;
}
