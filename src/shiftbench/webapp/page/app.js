// The shell: the views by name, the state of each in the URL, and the way from one to another.
import { html, render, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "preact";
import { hash, link, onMove, read, write } from "studio/address.js";
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

const route = () => read(hash() || start);

function Studio() {
  const [at, move] = useState(route);
  /** Open an address. `quietly`: the way back skips the present one, as for a slider that moves. */
  const visit = (/** @type {string} */ address, quietly = false) => {
    write(address, quietly);
    move(route()); // at once: the next click finds the new state
  };
  useLayoutEffect(() => {
    // The browser would load a link of a notebook's frame into it: links within the page are opened here.
    const follow = (/** @type {MouseEvent} */ event) => {
      const address = /** @type {Element} */ (event.target).closest?.('a[href^="#"]')?.getAttribute("href");
      if (!address || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      visit(address);
    };
    const leave = onMove(() => move((last) => (last.hash === hash() ? last : route())));
    document.addEventListener("click", follow);
    return () => { leave(); document.removeEventListener("click", follow); };
  }, []);

  const go = (/** @type {string} */ view, /** @type {State} */ state, quietly = false) => visit(link(view, state), quietly);
  /** Change some keys of this view's state; "" takes a key away. A view that was left changes nothing. */
  const change = (/** @type {State} */ keys, quietly = false) => {
    const now = route(); // what a function of an older drawing calls must not bring its state back
    if (now.view === at.view) go(now.view, { ...now.state, ...keys }, quietly);
  };

  const [, title, View] = VIEWS.find(([name]) => name === at.view) ?? VIEWS[0];
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { // what is laid over the view begins below the bar, however many lines that has
    const watch = new ResizeObserver(([entry]) => document.documentElement.style.setProperty("--bar", `${entry.borderBoxSize[0].blockSize}px`));
    if (bar.current) watch.observe(bar.current);
    return () => watch.disconnect();
  }, []);
  const views = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => { document.body.dataset.address = at.hash; }, [at.hash]); // what is drawn, which programs compare with the address
  useEffect(() => { document.title = `${title} · shiftbench studio`; }, [title]);
  useLayoutEffect(() => { // where the names of the views are wider than the screen, the present one is seen
    const name = /** @type {HTMLElement | null | undefined} */ (views.current?.querySelector("[aria-current]"));
    if (views.current) views.current.scrollLeft = name ? name.offsetLeft - (views.current.clientWidth - name.offsetWidth) / 2 : 0;
  }, [at.view]);
  // "#/" says that this link, and those after it, open pages: screen readers take a first "#…" for a place within the page.
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>To the view</a>
    <header class="bar" ref=${bar}><a class="brand" href="#/">shiftbench <em>studio</em></a>
      <nav aria-label="Views" ref=${views}><ul>${VIEWS.slice(1).map(([name, words]) => html`
        <li><a href=${`#${name}`} aria-current=${name === at.view ? "page" : null}>${words}</a></li>`)}</ul></nav>
      <${SaveMenu} view=${at.view} />
    </header>
    <main id="main" tabindex="-1">
      ${at.unread.length > 0 && html`<p class="problem" role="alert">What the address says of ${at.unread.map((name) => `“${name}”`).join(", ")} cannot be read, and is left out.</p>`}
      <${Guard} at=${at.hash}><${View} key=${at.view} state=${at.state} change=${change} go=${go} /><//></main>`;
}

/** A view that cannot be drawn is a sentence, until another address is opened: the page around it goes on. */
function Guard({ at, children }) {
  const [problem, forget] = useErrorBoundary((/** @type {any} */ error) => console.error(error));
  useLayoutEffect(() => { if (problem) forget(); }, [at]);
  return problem ? html`<p class="problem" role="alert">This view cannot be drawn (${String(problem)}). Choose another view above.</p>` : children;
}

const root = /** @type {HTMLElement} */ (document.getElementById("studio"));
root.replaceChildren();
render(html`<${Studio} />`, root);
