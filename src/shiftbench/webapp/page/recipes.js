// What a recipe builds, as tables, and how it is saved and built. The meta-graph and the shift designer share it.
import { html, useLayoutEffect, useRef, useState } from "preact";
import { act, isSaved } from "studio/answers.js";
import { Command, count, percent, savable } from "studio/parts.js";

/** Rows per group and split, with the totals. @param {{built: any}} facts */
export function Counts({ built }) {
  const most = Math.max(1, ...built.splits.flatMap((split) => built.counts[split]));
  const rows = () => built.groups.map((group, number) => ({ group, ...Object.fromEntries(built.splits.map((split) => [split, built.counts[split][number]])) }));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Items of every split" ...${savable("Items of every split", rows)}><table class="split-counts">
    <caption>Items of every split</caption>
    <thead><tr><th>group</th>${built.splits.map((split) => html`<th class="number">${split}</th>`)}</tr></thead>
    <tbody>
      ${built.groups.map((group, number) => html`<tr key=${group}><th scope="row">${group}</th>
        ${built.splits.map((split) => {
          const n = built.counts[split][number];
          return html`<td class="number" style=${`--share: ${n / most}`}>${n ? count(n) : "–"}</td>`;
        })}</tr>`)}
    </tbody>
    <tfoot><tr><th scope="row">all</th>${built.splits.map((split) => html`
      <td class="number">${count(built.counts[split].reduce((sum, n) => sum + n, 0))}</td>`)}</tr></tfoot>
  </table></div>`;
}

/** What `check` says. */
export function Findings({ built }) {
  const unfit = built.findings.filter((finding) => finding.unfit).length;
  return html`<h2 class="minor">Check</h2>
    <ul class="uses">${Object.entries(built.uses).map(([purpose, reason]) => html`
      <li class=${reason ? "no" : "yes"}>${reason ? "✗" : "✓"} ${purpose}${reason && html`: <small>${reason}</small>`}</li>`)}</ul>
    ${built.findings.length === 0
      ? html`<p class="small">No leaks, no empty cells, no small splits. Image files are checked after the build.</p>`
      : html`<ul class="check-findings" ...${savable("Check", () => built.findings)}>${built.findings.map((finding) => html`
        <li class=${finding.unfit ? "unfit" : ""}><b>${finding.what}</b> in ${finding.where}: ${finding.detail}</li>`)}</ul>`}
    ${unfit > 0 && html`<p class="small">Unfit: a number from this benchmark would not mean what it says.</p>`}`;
}

/** What `power` says: the smallest difference between two models that each group can show. */
export function Power({ built }) {
  if (!built.power.length) return null;
  return html`<h2 class="minor">Power</h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Smallest difference per group" ...${savable("Power", () => built.power)}><table>
      <thead><tr><th>${built.tested}</th><th class="number">items</th><th class="number">smallest difference, points</th></tr></thead>
      <tbody>${built.power.map((row) => html`<tr key=${row.group}><th scope="row">${row.group}</th>
        <td class="number">${count(row.items)}</td>
        <td class="number">${row.smallest === null ? "–" : (100 * row.smallest).toFixed(1)}</td></tr>`)}</tbody></table></div>
    <p class="small">Between two models on the same items, seen with probability 0.8 at an accuracy of ${built.accuracy}.</p>`;
}

/** The tags that differ most between train and test. */
export function Differences({ rows }) {
  if (!rows.length) return null;
  return html`<h2 class="minor">Tags that differ</h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Tags that differ" ...${savable("Tags that differ", () => rows)}><table class="differences">
      <thead><tr><th>tag</th><th class="number">train</th><th class="number">test</th><td></td></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${`${row.kind}:${row.tag}`} class=${row.p > 0.05 ? "chance" : ""}>
        <th scope="row">${row.tag} <small>${row.kind}</small></th>
        <td class="number">${percent(row.train)}</td><td class="number">${percent(row.test)}</td>
        <td><span class="two-bars" aria-hidden="true"><i style=${`--share: ${row.train}`}></i><i style=${`--share: ${row.test}`}></i></span></td></tr>`)}
      </tbody></table></div>
    <p class="small">Pale rows: a random split may differ as much (Fisher's test, corrected for all tags).</p>`;
}

/** What a recipe builds, beside the counts. */
export function Details({ built }) {
  return html`${built.notes.length > 0 && html`<ul class="notes">${built.notes.map((note) => html`<li>${note}</li>`)}</ul>`}
    <div class="panels"><section><${Findings} built=${built} /></section>
      <section><${Power} built=${built} /></section>
      <section><${Differences} rows=${built.differences} /></section></div>`;
}

/**
 * Save a recipe and build it. Where the studio may not write, the text is there to copy.
 * `plan` is what is saved: {on, shift, settings, conditions, seed}; `commands` print the numbers once the text is a file.
 */
export function SaveRecipe({ plan, text, commands, edit, name: proposed, ready }) {
  const [name, call] = useState(proposed);
  const [said, say] = useState(/** @type {any} */ (null));
  const [replace, mayReplace] = useState(false);
  const [busy, work] = useState("");
  const key = JSON.stringify(plan);
  const latest = useRef(key);
  latest.current = key;
  useLayoutEffect(() => say(null), [key]); // what was saved is another recipe now
  const run = async (/** @type {string} */ what, /** @type {() => Promise<any>} */ task) => {
    work(what);
    const outcome = await task().then((answer) => ({ problem: "", ...answer }), (problem) => ({ problem: problem.message }));
    if (latest.current === key) say((last) => ({ ...last, ...outcome }));
    work("");
  };
  const save = () => run("save", () => act("save_recipe", { ...plan, name: name.trim(), replace }));
  const build = () => run("build", () => act("build_recipe", { recipe: said.recipe, replace }));
  return html`<section class="save" aria-label="Recipe"><h2>Recipe</h2>
    <pre tabindex="0" aria-label="Recipe as TOML"><code>${said?.text ?? text}</code></pre>
    ${!edit || isSaved
      ? html`<p class="note">This studio is read-only: copy the text into a file, or start it with <code>--edit</code>.
          ${ready && html` Saved as <code>${commands.file}</code>, it gives the same numbers:`}</p>
        ${ready && ["build", "check", "power"].map((verb) => html`<${Command} words=${commands[verb]} />`)}
        <${Copy} text=${text} />`
      : html`<form class="controls" onSubmit=${(event) => { event.preventDefault(); save(); }}>
        <label class="choice">Name <input value=${name} required maxlength="80" onInput=${(event) => call(event.target.value)} /></label>
        <label class="choice"><input type="checkbox" checked=${replace} onChange=${(event) => mayReplace(event.target.checked)} /> replace what is there</label>
        <button type="submit" class="main" disabled=${!ready || !!busy || !name.trim()}>${busy === "save" ? "Saving …" : "Save recipe"}</button>
        <button type="button" disabled=${!said?.recipe || !!busy} onClick=${build}>${busy === "build" ? "Building …" : "Build benchmark"}</button>
        <${Copy} text=${text} /></form>`}
    <div role="status">${said?.problem && html`<p class="problem">${said.problem}</p>`}
      ${said?.path && html`<p>Saved as <code>${said.path}</code>. This builds the same benchmark:</p><${Command} words=${said.commands.build} />`}
      ${said?.benchmarks && html`<p>Built: ${said.benchmarks.map((one) => html`<a href=${`#compare?benchmark=${encodeURIComponent(one.id)}`}>${one.id}</a>, ${count(one.rows)} rows, digest <code data-digest=${one.digest}>${one.digest.slice(0, 12)}</code> `)}</p>
        <${Command} words=${said.commands.check} /><${Command} words=${said.commands.power} />`}</div>
  </section>`;
}

/** A button that copies a text. */
function Copy({ text }) {
  const [copied, tell] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => {
    tell(true);
    setTimeout(() => tell(false), 1500);
  }, () => {});
  return html`<button type="button" class="quiet" onClick=${copy}>${copied ? "copied" : "copy the text"}</button>`;
}
