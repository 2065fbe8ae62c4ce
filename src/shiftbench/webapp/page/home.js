// Everything on the shelf.
import { html } from "preact";
import { Answered, Command, savable, useAnswer } from "studio/parts.js";

/** @type {[string, string, (thing: {id: string}) => string][]} kind, title, where a thing is looked at */
const KINDS = [
  ["collection", "Collections", (thing) => `#collection?on=${encodeURIComponent(thing.id)}`],
  ["benchmark", "Benchmarks", (thing) => `#compare?benchmark=${encodeURIComponent(thing.id)}`],
  ["runs", "Runs", (thing) => `#runs?on=${encodeURIComponent(thing.id)}`],
  ["scores", "Scores", (thing) => `#compare?on=${encodeURIComponent(thing.id)}`],
  ["audit", "Audits", (thing) => `#failures?audit=${encodeURIComponent(thing.id)}`],
  ["recipe", "Recipes", (thing) => `#design?recipe=${encodeURIComponent(thing.id)}`],
];

export function Home() {
  const held = useAnswer("home", {});
  return html`<h1>What is here</h1>
    <${Answered} held=${held}>${(answer) => html`
      ${answer.note && html`<p class="note">${answer.note}</p>`}
      ${answer.things.length === 0 && html`<p>Nothing yet in ${answer.folders.join(", ")}.</p>
        <${Command} words="shiftbench demo --out demo" />`}
      ${answer.views.length > 0 && html`<section><h2>Kept views</h2><ul class="shelf">
        ${answer.views.map((view) => html`<li><a href=${`#${view.route}`}>${view.name}</a> <small>${view.route.split("?")[0]}</small></li>`)}</ul></section>`}
      <div ...${savable("What is here", () => answer.things.map(({ kind, id, says, path }) => ({ kind, id, says, path })))}>
        ${KINDS.map(([kind, title, link]) => {
          const things = answer.things.filter((thing) => thing.kind === kind);
          return things.length > 0 && html`<section><h2>${title}</h2><ul class="shelf">
            ${things.map((thing) => html`<li><a href=${link(thing)}>${thing.id}</a> <small>${thing.says}</small></li>`)}
          </ul></section>`;
        })}</div>
      <${Command} words=${answer.command} />`}<//>`;
}
