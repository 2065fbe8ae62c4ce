// The shell: the views by name, the state of each in the URL, and the way from one to another.
import { html, render, useEffect, useLayoutEffect, useState } from "preact";
import { start } from "studio/answers.js";
import { Collection } from "studio/collection.js";
import { Compare } from "studio/compare.js";
import { Design } from "studio/design.js";
import { Failures } from "studio/failures.js";
import { Graph } from "studio/graph.js";
import { Home } from "studio/home.js";
import { Runs } from "studio/runs.js";
import { SaveMenu } from "studio/saving.js";

/** @typedef {import("studio/answers.js").State} State */

/** @type {[string, string, any][]} name in the URL, title, component */
const VIEWS = [
  ["home", "Shelf", Home],
  ["collection", "Collection", Collection],
  ["graph", "Meta-graph", Graph],
  ["design", "Shift", Design],
  ["runs", "Runs", Runs],
  ["compare", "Compare", Compare],
  ["failures", "Failures", Failures],
];

/** @returns {{hash: string, view: string, state: State}} */
function route() {
  const [view, words = ""] = (location.hash || start).slice(1).split(/\?(.*)/s);
  return { hash: location.hash, view: view || "home", state: Object.fromEntries(new URLSearchParams(words)) };
}

/** @param {string} view @param {State} state */
function link(view, state) {
  const words = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== ""));
  return words.size ? `#${view}?${words}` : `#${view}`;
}

function Studio() {
  const [at, move] = useState(route());
  useLayoutEffect(() => {
    const listen = () => move((last) => (last.hash === location.hash ? last : route()));
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);

  /** Open a view in a state. `quietly`: the way back skips the present state, as for a slider that moves. */
  const go = (/** @type {string} */ view, /** @type {State} */ state, quietly = false) => {
    const hash = link(view, state);
    if (quietly) history.replaceState(null, "", hash);
    else location.hash = hash;
    move(route()); // at once: the next click finds the new state
  };
  /** Change some keys of this view's state; "" takes a key away. A view that was left changes nothing. */
  const change = (/** @type {State} */ keys, quietly = false) => {
    const now = route(); // what a function of an older drawing calls must not bring its state back
    if (now.view === at.view) go(now.view, { ...now.state, ...keys }, quietly);
  };

  const [, title, View] = VIEWS.find(([name]) => name === at.view) ?? VIEWS[0];
  useLayoutEffect(() => { document.body.dataset.address = at.hash; }, [at.hash]); // what is drawn, which programs compare with the address
  useEffect(() => { document.title = `${title} · shiftbench studio`; }, [title]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>To the view</a>
    <header class="bar"><a class="brand" href="#home">shiftbench <em>studio</em></a>
      <nav aria-label="Views"><ul>${VIEWS.slice(1).map(([name, words]) => html`
        <li><a href=${`#${name}`} aria-current=${name === at.view ? "page" : null}>${words}</a></li>`)}</ul></nav>
      <${SaveMenu} view=${at.view} />
    </header>
    <main id="main" tabindex="-1"><${View} key=${at.view} state=${at.state} change=${change} go=${go} /></main>`;
}

const root = /** @type {HTMLElement} */ (document.getElementById("studio"));
root.replaceChildren();
render(html`<${Studio} />`, root);
