// The shift designer: a form for any shift, and what it builds while a dial moves.
import { html, useEffect, useRef, useState } from "preact";
import { valueOf } from "studio/address.js";
import { begin } from "studio/answers.js";
import { Answered, Choice, count, useAnswer } from "studio/parts.js";
import { Counts, Details, SaveRecipe } from "studio/recipes.js";

/** @typedef {import("studio/answers.js").State} State */
/**
 * @typedef {object} Field a setting, with what it is now
 * @property {string} name @property {string} kind @property {string} doc @property {boolean} required
 * @property {any} value @property {any} default @property {string[]} options @property {string[]} keys
 * @property {string[]} of @property {number} high @property {boolean} locked
 */

/** Milliseconds that a dial rests before the server builds. */
const REST = 90;

export function Design({ state, change, go }) {
  const held = useAnswer("design", state);
  return html`<${Answered} held=${held}>${(answer) => html`<${Designed} answer=${present(answer, state)} change=${change} go=${go} />`}<//>`;
}

/** The last answer with the settings of the address, which are newer: what a person sets is there at once. */
function present(/** @type {any} */ answer, /** @type {State} */ state) {
  if (state.shift && state.shift !== answer.shift) return answer;
  const settings = valueOf(state, "settings", answer.settings);
  const chosen = valueOf(state, "conditions", answer.chosen);
  const filled = (/** @type {Field} */ field, /** @type {Record<string, any>} */ own) => (field.name in own ? { ...field, value: own[field.name] } : field);
  return {
    ...answer, settings, chosen,
    fields: answer.fields.map((field) => filled(field, settings)),
    conditions: answer.conditions.map((one) => ({
      ...one, on: Boolean(chosen[one.name]), fields: one.fields.map((field) => filled(field, chosen[one.name] ?? {})),
    })),
  };
}

function Designed({ answer, change, go }) {
  const [touched, touch] = useState("");
  const good = useRef(/** @type {any} */ (null));
  const { built } = answer;
  if (built.counts) good.current = built;
  const last = built.several ? null : good.current; // the present one where it could be built
  const whole = { on: answer.on, shift: answer.shift, recipe: answer.recipe };
  /** Change a setting; choices that depended on it start anew. */
  const set = (/** @type {string} */ name, /** @type {any} */ value, quietly = false) => {
    touch(name);
    const kept = Object.entries(answer.settings).filter(([key]) => key !== name
      && !answer.fields.find((field) => field.name === key)?.of.includes(name));
    const settings = { ...Object.fromEntries(kept), ...(value === null ? {} : { [name]: value }) };
    change({ ...whole, settings: JSON.stringify(settings), conditions: JSON.stringify(answer.chosen) }, quietly);
  };
  const condition = (/** @type {string} */ kind, /** @type {any} */ own, quietly = false) => {
    touch(`condition.${kind}`);
    change({ ...whole, settings: JSON.stringify(answer.settings), conditions: JSON.stringify({ ...answer.chosen, [kind]: own }) }, quietly);
  };
  return html`<h1>${answer.recipe ? html`Recipe <em>${answer.recipe}</em>` : "A shift"}</h1>
    <div class="columns design"><form class="design-form" aria-label="Settings of the shift" onSubmit=${(event) => event.preventDefault()}>
      <${Start} answer=${answer} change=${change} go=${go} />
      <${Form} answer=${answer} set=${set} touched=${touched} problem=${built.problem} />
      <${Conditions} answer=${answer} condition=${condition} touched=${touched} problem=${built.problem} />
      <label class="choice">Seed <input type="number" min="0" value=${answer.seed} onChange=${(event) => change({ ...whole, seed: event.target.value })} /></label>
    </form>
    <section class="design-counts" aria-label="Counts">
      ${built.problem && html`<p class="problem" role="alert">${built.problem}</p>`}
      ${(built.note || built.invitation) && html`<p class="note" role="status">${built.note || built.invitation}</p>`}
      ${built.counts && html`<p class="small">${count(built.rows)} of ${count(answer.items)} items; built in memory, digest <code>${built.digest.slice(0, 12)}</code></p>`}
      ${last && html`<div class=${built.counts ? "" : "stale"}>${!built.counts && html`<p class="small">The last settings that could be built:</p>`}
        <${Counts} built=${last} /></div>`}
    </section>
    <section class="result" aria-label="What it builds">
      ${last && html`<div class=${built.counts ? "" : "stale"}><${Details} built=${last} /></div>`}
      ${answer.text && !built.invitation && html`<${SaveRecipe} key=${`${answer.recipe}${answer.shift}`} text=${answer.text} edit=${answer.edit} commands=${answer.commands} ready=${!built.problem} name=${answer.proposed}
        plan=${{ on: answer.on, shift: answer.shift, settings: answer.settings, conditions: answer.chosen, seed: answer.seed, recipe: answer.recipe }} />`}
    </section></div>`;
}

/** Which shift, on which collection, and what it says of itself. */
function Start({ answer, change, go }) {
  const [line, ...rest] = answer.doc.split("\n");
  return html`<div class="controls">
    <${Choice} label="Shift" value=${answer.shift} options=${answer.shifts.map(([name]) => name)}
      onChange=${(shift) => change({ on: answer.on, shift, settings: "", conditions: "", recipe: "" })} />
    ${answer.collections.length > 1 && html`<${Choice} label="Collection" value=${answer.on} options=${answer.collections}
      onChange=${(on) => change({ on, shift: answer.shift, settings: "", conditions: "", recipe: "" })} />`}</div>
    <p>${line}</p>
    ${rest.length > 0 && html`<details class="law"><summary>The law</summary><pre tabindex="0">${rest.join("\n").trim()}</pre></details>`}
    ${answer.by_hand.train && html`<p><button type="button" onClick=${() => go("graph", {
      on: answer.on, train: JSON.stringify(answer.by_hand.train), test: JSON.stringify(answer.by_hand.test),
    })}>Open on the meta-graph</button></p>`}`;
}

/** What moves the shift first, then the sizes, then the rest. */
function Form({ answer, set, touched, problem }) {
  const sizes = (/** @type {Field} */ field) => field.kind === "whole" && field.high > 0 && field.default === 0;
  const first = (/** @type {Field} */ field) => field.required || (field.kind === "share" && field.default !== null)
    || field.of.length > 0 || (field.kind === "whole" && field.high > 0 && field.default > 0) || field.name === "label";
  const show = (/** @type {Field[]} */ fields) => fields.map((field) => html`<${Setting} key=${`${answer.shift}.${field.name}`} field=${field}
    set=${set} problem=${touched === field.name ? problem : ""} prefix=${answer.shift} />`);
  const [dials, rest] = [answer.fields.filter((field) => first(field) && !sizes(field)), answer.fields.filter((field) => !first(field) && !sizes(field))];
  const numbers = answer.fields.filter(sizes);
  const opened = (/** @type {Field[]} */ fields) => fields.some((field) => field.name in answer.settings || field.name === touched);
  return html`${show(dials)}
    ${numbers.length > 0 && html`<details open=${opened(numbers)}><summary>Sizes</summary>${show(numbers)}</details>`}
    ${rest.length > 0 && html`<details open=${opened(rest)}><summary>More settings</summary>${show(rest)}</details>`}`;
}

/** What training goes through afterwards: label noise, fewer items. */
function Conditions({ answer, condition, touched, problem }) {
  return html`<fieldset class="conditions"><legend>Conditions</legend>${answer.conditions.map((one) => html`<div key=${one.name}>
    <label class="condition"><input type="checkbox" checked=${one.on} onChange=${(event) => condition(one.name, event.target.checked ? startOf(one, answer) : null)} />
      ${one.name} <small>${one.doc.split("\n")[0]}</small></label>
    ${one.on && one.fields.map((field) => html`<${Setting} key=${field.name} field=${field} prefix=${one.name} title=${`${one.name}: ${field.name}`} problem=${touched === `condition.${one.name}` ? problem : ""}
      set=${(name, value, quietly) => condition(one.name, { ...answer.chosen[one.name], [name]: value }, quietly)} />`)}</div>`)}</fieldset>`;
}

/** The settings that a condition begins with: what has no default is half of training. */
function startOf(/** @type {any} */ one, /** @type {any} */ answer) {
  const half = Math.max(1, Math.round((answer.built.counts?.train ?? [2]).reduce((sum, n) => sum + n, 0) / 2));
  return Object.fromEntries(one.fields.filter((field) => field.required).map((field) => [field.name, half]));
}

/** One setting with its help text, and beside it what is impossible. */
function Setting({ field, set, problem, prefix, title }) {
  const id = `${prefix}-${field.name}`;
  const Kind = KINDS[field.kind] ?? Word;
  const group = ["words", "pairs"].includes(field.kind) && field.options.length > 0;
  return html`<div class=${problem ? "setting wrong" : "setting"} role=${group ? "group" : null} aria-labelledby=${group ? `${id}-name` : null}>
    <label id=${`${id}-name`} for=${group ? null : id}>${title ?? field.name}${field.required && html`<span aria-hidden="true"> *</span>`}</label>
    <${Kind} id=${id} field=${field} set=${set} />
    ${field.doc && html`<small>${field.doc}</small>`}
    ${problem && html`<p class="impossible">${problem}</p>`}</div>`;
}

/** A value that a person is just changing: shown at once, sent when it rests. @param {Field} field @param {any} set */
function useDial(field, set) {
  const [own, hold] = useState(/** @type {number | null} */ (null));
  const timer = useRef(0);
  useEffect(() => { if (own === field.value) hold(null); }, [field.value, own]);
  const end = useRef(() => {});
  const stop = () => { clearTimeout(timer.current); end.current(); };
  useEffect(() => stop, []);
  const latest = useRef(set);
  latest.current = set;
  const turn = (/** @type {number | null} */ value) => {
    hold(value);
    stop(); // an older value must not come after this one
    if (value === null) return latest.current(field.name, null);
    end.current = begin();
    timer.current = setTimeout(() => { latest.current(field.name, value, true); end.current(); }, REST);
  };
  return { value: own ?? field.value, turn };
}

/** A share between 0 and 1. */
function Share({ id, field, set }) {
  const { value, turn } = useDial(field, set);
  return html`<span class="dial"><input type="range" min="0" max="1" step="0.01" value=${value ?? 0} aria-labelledby=${`${id}-name`} onInput=${(event) => turn(Number(event.target.value))} />
    <input id=${id} type="number" min="0" max="1" step="any" value=${value ?? ""} onInput=${(event) => event.target.value !== "" && turn(Number(event.target.value))} /></span>`;
}

/** A whole number; the dial is fine where numbers are small. */
function Whole({ id, field, set }) {
  const { value, turn } = useDial(field, set);
  const typed = (event) => turn(event.target.value === "" ? null : Math.round(Number(event.target.value)));
  return html`<span class="dial">${field.high > 0 && html`<input type="range" min="0" max="1" step="any" value=${Math.cbrt((value ?? 0) / field.high)} aria-labelledby=${`${id}-name`}
      aria-valuetext=${String(value)} onInput=${(event) => turn(Math.round(field.high * Number(event.target.value) ** 3))} />`}
    <input id=${id} type="number" min="0" step="1" value=${value ?? ""} onInput=${typed} /></span>`;
}

function Amount({ id, field, set }) {
  return html`<input id=${id} type="number" step="any" value=${field.value ?? ""} onChange=${(event) => set(field.name, event.target.value === "" ? null : Number(event.target.value))} />`;
}

function Yes({ id, field, set }) {
  return html`<input id=${id} type="checkbox" checked=${field.value} onChange=${(event) => set(field.name, event.target.checked)} />`;
}

function Word({ id, field, set }) {
  return html`<input id=${id} value=${field.value ?? ""} disabled=${field.locked} title=${field.locked ? "It names a file: write it into the recipe" : null}
    onChange=${(event) => set(field.name, event.target.value || null)} />`;
}

/** One of some names; a question about a factor (`bins:age:30,60`) comes from a recipe. */
function One({ id, field, set }) {
  const options = [...new Set([...(field.required ? [] : [""]), field.default ?? "", field.value ?? "", ...field.options])]
    .filter((name) => name !== "" || !field.required || !field.value);
  return html`<select id=${id} value=${field.value ?? ""} onChange=${(event) => set(field.name, event.target.value)}>
    ${options.map((name) => html`<option value=${name} selected=${name === (field.value ?? "")}>${name || "–"}</option>`)}</select>`;
}

/** Some of some names, or a line for each where there are none to choose from. */
function Words({ id, field, set }) {
  const value = typeof field.value === "string" ? [field.value].filter(Boolean) : field.value ?? [];
  if (!field.options.length) {
    return html`<textarea id=${id} rows=${Math.min(6, value.length + 1)} placeholder="one per line" onChange=${(event) => set(field.name, event.target.value.split("\n").map((line) => line.trim()).filter(Boolean))}>${value.join("\n")}</textarea>`;
  }
  const options = [...field.options, ...value.filter((name) => !field.options.includes(name))];
  return html`<span class="words">${options.map((name) => html`<label key=${name} class="chip-check"><input type="checkbox" checked=${value.includes(name)}
    onChange=${(event) => set(field.name, event.target.checked ? options.filter((one) => value.includes(one) || one === name) : value.filter((one) => one !== name))} /> ${name}</label>`)}</span>`;
}

/** A value of the factor for each class; classes without one are left out, or paired in order. */
function Pairs({ field, set }) {
  const value = field.value ?? {};
  const put = (/** @type {string} */ key, /** @type {string} */ word) => {
    const { [key]: _, ...rest } = value;
    set(field.name, word ? { ...rest, [key]: word } : rest);
  };
  return html`<span class="pairs">${field.keys.map((key) => html`<label key=${key}><span>${key}</span>
    <select value=${value[key] ?? ""} onChange=${(event) => put(key, event.target.value)}>${["", ...field.options].map((name) => html`
      <option value=${name} selected=${name === (value[key] ?? "")}>${name || "–"}</option>`)}</select></label>`)}</span>`;
}

/** A table, written as in the recipe: a line `name = value` for each. */
function Table({ id, field, set }) {
  const lines = Object.entries(field.value ?? {}).map(([key, value]) => `${JSON.stringify(key)} = ${JSON.stringify(value)}`);
  return html`<textarea id=${id} rows=${Math.min(6, lines.length + 1)} placeholder='name = "value"' onChange=${(event) => set(field.name, event.target.value.trim() || null)}>${lines.join("\n")}</textarea>`;
}

/** @type {Record<string, any>} */
const KINDS = { share: Share, whole: Whole, number: Amount, yes: Yes, word: Word, choice: One, words: Words, pairs: Pairs, table: Table };
