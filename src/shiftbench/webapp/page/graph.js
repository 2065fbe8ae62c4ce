// The meta-graph of a class: subsets as discs, overlaps as lines; subsets are put into train and test by hand.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact";
import { asText, valueOf } from "studio/address.js";
import { Item, Wall } from "studio/items.js";
import { Answered, Choice, Command, count, savable, useAnswer, useWidth } from "studio/parts.js";
import { Counts, Details, Differences, SaveRecipe } from "studio/recipes.js";

/** @typedef {import("studio/answers.js").State} State */
/** @typedef {{name: string, size: number, community: number, at: [number, number] | null}} Subset */

const COMMUNITIES = ["--m1", "--m2", "--m3", "--m4", "--m5", "--m6", "--m7"];
const HEIGHT = 560;
/** Part of the state that says which graph is meant. */
const TERMS = ["on", "cls", "kinds", "threshold", "min_size"];

/** @param {State} state @param {string[]} names @returns {State} */
const only = (state, names) => Object.fromEntries(Object.entries(state).filter(([name]) => names.includes(name)));
/** @param {string} cls @param {string} context */
const subsetName = (cls, context) => `${cls}(${context})`;

export function Graph({ state, change }) {
  const held = useAnswer("graph", only(state, TERMS));
  return html`<${Answered} held=${held}>${(answer) => html`<${Laid} answer=${answer} state=${state} change=${change} />`}<//>`;
}

function Laid({ answer, state, change }) {
  const here = { ...state, on: answer.on, cls: answer.cls };
  const train = valueOf(state, "train", /** @type {string[]} */ ([]));
  const test = valueOf(state, "test", /** @type {string[]} */ ([]));
  const sides = useAnswer("sides", only(here, [...TERMS, "train", "test", "at", "n_train", "n_ood", "seed"]));
  const measured = sides.answer?.cls === answer.cls ? sides.answer : null; // the last one may be of another class
  const far = measured?.distances ?? {};
  const colour = state.colour || (Object.keys(far).length && test.length ? "distance" : "community");
  const sideOf = (/** @type {string} */ context) => {
    const name = subsetName(answer.cls, context);
    return test.includes(name) ? "test" : train.includes(name) ? "train" : "";
  };
  /** Put a subset on a side; once more takes it away. */
  const put = (/** @type {string} */ name, /** @type {string} */ side) => {
    const next = { train: train.filter((one) => one !== name), test: test.filter((one) => one !== name) };
    const before = test.includes(name) ? "test" : train.includes(name) ? "train" : "";
    if (side && side !== before) next[side].push(name);
    change({ on: answer.on, cls: answer.cls, train: asText(next.train), test: asText(next.test) });
  };
  const pick = (/** @type {string} */ context) => change({ on: answer.on, cls: answer.cls, at: context }, true);
  const open = (/** @type {string} */ item) => change({ on: answer.on, cls: answer.cls, item });
  const [near, point] = useState("");
  const shared = { answer, far, sideOf, put, pick, at: state.at ?? "", near, point, marks: valueOf(state, "mark", /** @type {string[]} */ ([])) };
  const focus = answer.subsets?.find((one) => one.name === (near || state.at));
  // what does not change while a person points at discs is not compared again
  const now = [answer, sides.answer, sides.waiting, sides.problem, JSON.stringify(state)];
  const subsets = useMemo(() => html`<${Subsets} ...${shared} measured=${measured?.from} />`, now);
  const made = useMemo(() => html`<${Sides} held=${sides} answer=${answer} state=${state} train=${train} test=${test} put=${put} change=${change} />`, now);
  return html`<h1>Meta-graph of ${answer.cls}</h1>
    <${Controls} answer=${answer} change=${change} colour=${colour} measured=${measured?.from} />
    ${answer.problem ? html`<p class="problem" role="alert">${answer.problem}</p>` : html`
      <div class="graph-view">
        <${Drawing} ...${shared} colour=${colour} />
        <div><${Card} ...${shared} node=${focus} item=${state.item} open=${open} />${subsets}</div>
      </div>
      <p class="small">${count(answer.total)} subsets, ${count(answer.total_edges)} overlaps of at least ${answer.threshold}, ${answer.communities} communities. ${answer.note}${" "}
        A disc's area is its items, a line's width the overlap |X ∩ Y| / min(|X|, |Y|). Keys on a disc: arrows go on, T puts it into train, E into test.</p>
      <${Command} words=${measured?.command ?? answer.command} />`}
    ${made}
    ${state.item && html`<${Item} key=${state.item} on=${answer.on} id=${state.item} onClose=${() => open("")} />`}`;
}

function Controls({ answer, change, colour, measured }) {
  return html`<div class="controls">
    ${answer.collections.length > 1 && html`<${Choice} label="Collection" value=${answer.on} options=${answer.collections}
      onChange=${(on) => change({ on, cls: "", at: "", train: "", test: "", kinds: "" })} />`}
    <${Choice} label="Class" value=${answer.cls} onChange=${(cls) => change({ on: answer.on, cls, at: "" })}
      groups=${answer.classes.map(([head, tags]) => [head, tags.map(([name, n]) => [name, `${name} (${count(n)})`])])} />
    <fieldset class="kinds"><legend>Contexts</legend>${answer.all_kinds.map((kind) => html`
      <label><input type="checkbox" checked=${answer.kinds.includes(kind) || !answer.kinds.length}
        onChange=${(event) => {
          const before = answer.kinds.length ? answer.kinds : answer.all_kinds;
          const kinds = event.target.checked ? [...before, kind] : before.filter((one) => one !== kind);
          if (kinds.length) change({ kinds: JSON.stringify(answer.all_kinds.filter((one) => kinds.includes(one))) });
        }} /> ${kind}</label>`)}</fieldset>
    <label class="choice">Overlap from <input type="number" min="0" max="1" step="0.05" value=${answer.threshold}
      onChange=${(event) => change({ threshold: event.target.value })} /></label>
    <label class="choice">Items from <input type="number" min="1" step="5" value=${answer.min_size}
      onChange=${(event) => change({ min_size: event.target.value })} /></label>
    <${Choice} label="Colour" value=${colour} onChange=${(value) => change({ colour: value }, true)}
      options=${[["community", "communities"], ["distance", measured ? `distance from ${measured}` : "distance"]]} />
  </div>`;
}

/** @param {Subset} subset @param {string} colour @param {Record<string, number>} far @param {number} farthest @param {Set<number>} crowds */
function fill(subset, colour, far, farthest, crowds) {
  if (colour === "distance") {
    const share = farthest ? 1 - (far[subset.name] ?? farthest) / farthest : 0;
    return `color-mix(in oklab, var(--m2) ${Math.round(8 + 92 * share)}%, var(--line))`;
  }
  return crowds.has(subset.community) ? `var(${COMMUNITIES[subset.community % COMMUNITIES.length]})` : "var(--faint)";
}

/** Pixels of a label: its height, the width of a letter, and the way between it and its disc. */
const LABEL = { high: 16, letter: 6.9, gap: 3 };

/** @typedef {{left: number, right: number, top: number, bottom: number}} Box */
const meet = (/** @type {Box} */ one, /** @type {Box} */ other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

/**
 * Where labels go, in pixels from the middle of their discs: right, left, below or above, where they cover no disc and no other
 * label. The largest discs choose first; one without room waits for a closer look, unless it is `needed`.
 * @param {any[]} placed @param {any} view @param {[number, number]} size @param {(name: string) => boolean} needed
 * @returns {Map<string, {x: number, y: number, anchor: string}>}
 */
function labels(placed, view, [width, height], needed) {
  const discs = placed.map((node) => {
    const [x, y, r] = [view.applyX(node.x), view.applyY(node.y), (node.r + node.ring) * Math.sqrt(view.k)];
    return { node, x, y, r, box: { left: x - r, right: x + r, top: y - r, bottom: y + r } };
  });
  const taken = discs.map((disc) => disc.box);
  const chosen = new Map();
  for (const { node, x, y, r } of [...discs].sort((one, other) => Number(needed(other.node.name)) - Number(needed(one.node.name)))) {
    const [wide, high, away] = [LABEL.letter * node.name.length, LABEL.high / 2, r + LABEL.gap];
    const ways = [{ x: away, y: 0, anchor: "start", left: x + away }, { x: -away, y: 0, anchor: "end", left: x - away - wide },
      { x: 0, y: away + high, anchor: "middle", left: x - wide / 2 }, { x: 0, y: -away - high, anchor: "middle", left: x - wide / 2 }]
      .map((way) => ({ ...way, box: { left: way.left, right: way.left + wide, top: y + way.y - high, bottom: y + way.y + high } }));
    const free = ways.find(({ box }) => box.left > LABEL.gap && box.right < width - LABEL.gap && box.top > 0 && box.bottom < height && !taken.some((other) => meet(box, other)));
    const way = free ?? (needed(node.name) ? ways[0] : null);
    if (!way) continue;
    taken.push(way.box);
    chosen.set(node.name, way);
  }
  return chosen;
}

/**
 * Overlaps as a few paths, one for each width: a browser moves these faster than a line for each.
 * @param {any} answer @param {Map<string, {x: number, y: number}>} place @param {(one: string, other: string) => boolean} wanted
 * @returns {[number, string][]}
 */
function lines(answer, place, wanted) {
  /** @type {Map<number, string[]>} */
  const paths = new Map();
  for (const [a, b, overlap] of answer.edges) {
    const [one, other] = [answer.subsets[a].name, answer.subsets[b].name];
    const [start, end] = [place.get(one), place.get(other)];
    if (!start || !end || !wanted(one, other)) continue;
    const width = Math.round(2 * (0.5 + 4 * overlap ** 1.5)) / 2;
    if (!paths.has(width)) paths.set(width, []);
    paths.get(width)?.push(`M${start.x.toFixed(1)},${start.y.toFixed(1)}L${end.x.toFixed(1)},${end.y.toFixed(1)}`);
  }
  return [...paths].sort(([one], [other]) => one - other).map(([width, parts]) => [width, parts.join("")]);
}

/** The graph itself: drag a disc, drag the ground, turn the wheel; the same by buttons and keys. */
function Drawing({ answer, far, sideOf, put, pick, at, near, point, colour, marks }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const svg = useRef(/** @type {SVGSVGElement | null} */ (null));
  const width = useWidth(box);
  const [view, look] = useState(() => d3.zoomIdentity);
  const [moved, move] = useState(/** @type {Record<string, [number, number]>} */ ({}));
  const zoom = useRef(/** @type {any} */ (null));
  useLayoutEffect(() => {
    if (!svg.current || !width) return;
    zoom.current = d3.zoom().scaleExtent([0.5, 12]).on("zoom", (event) => look(event.transform))
      .filter((event) => !event.button && (event.type !== "wheel" || event.ctrlKey || event.metaKey || document.activeElement === svg.current || svg.current?.contains(document.activeElement)));
    d3.select(svg.current).call(zoom.current);
  }, [width]);
  useEffect(() => move({}), [answer]);
  const height = Math.min(HEIGHT, Math.max(340, width * 0.72));
  const [left, right] = [24, width > 600 ? 90 : 60];
  const biggest = Math.max(...answer.subsets.map((one) => one.size));
  const drawn = answer.subsets.filter((one) => one.at).map((one) => ({
    ...one,
    x: moved[one.name]?.[0] ?? left + one.at[0] * (width - left - right),
    y: moved[one.name]?.[1] ?? 24 + one.at[1] * (height - 48),
    r: (3 + 15 * Math.sqrt(one.size / biggest) * Math.min(1, Math.sqrt(50 / answer.subsets.length))) * (width > 600 ? 1 : 0.7),
    ring: marks.includes(one.name) ? 9 : sideOf(one.name) ? 5 : 0, // around the disc
  }));
  const crowds = new Set(drawn.map((one) => one.community).filter((one, number, all) => all.indexOf(one) !== number));
  const farthest = Math.max(0, ...Object.values(far));
  const place = new Map(drawn.map((one) => [one.name, one]));
  const focus = near || at;
  const placed = labels(drawn, view, [width, height], (name) => name === at || Boolean(sideOf(name)) || marks.includes(name));
  const pointed = place.get(near);
  if (pointed && !placed.has(near)) placed.set(near, { x: (pointed.r + pointed.ring) * Math.sqrt(view.k) + LABEL.gap, y: 0, anchor: "start" });
  const friends = new Set(answer.edges.flatMap(([a, b]) => {
    const [one, other] = [answer.subsets[a].name, answer.subsets[b].name];
    return one === focus ? [other] : other === focus ? [one] : [];
  }));
  const dim = (/** @type {string} */ name) => near !== "" && name !== near && !friends.has(name);
  const onKey = (/** @type {KeyboardEvent} */ event, /** @type {string} */ name) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const side = { t: "train", e: "test" }[event.key.toLowerCase()];
    if (step) {
      const next = drawn[(drawn.findIndex((one) => one.name === name) + step + drawn.length) % drawn.length].name;
      pick(next);
      /** @type {HTMLElement | null} */ (svg.current?.querySelector(`[data-name="${CSS.escape(next)}"]`))?.focus();
    } else if (side) put(subsetName(answer.cls, name), side);
    else if (event.key === "Enter" || event.key === " ") pick(name);
    else return;
    event.preventDefault();
  };
  const grow = (/** @type {number} */ factor) => d3.select(svg.current).call(zoom.current.scaleBy, factor);
  const k = Math.sqrt(view.k);
  const overlaps = () => answer.edges.map(([a, b, overlap]) => ({ subset: answer.subsets[a].name, other: answer.subsets[b].name, overlap }));
  return html`<figure class="drawing" ...${savable(`Meta-graph of ${answer.cls}`, overlaps, box)}>
    ${width > 0 && html`<svg ref=${svg} width=${width} height=${height} role="group" aria-label=${`Meta-graph of ${answer.cls}: ${drawn.length} subsets`} class=${near ? "busy" : ""}>
      <g transform=${view.toString()}>
        ${lines(answer, place, () => true).map(([width, d]) => html`<path key=${width} class="edge" stroke-width=${width} d=${d} />`)}
        ${focus && lines(answer, place, (one, other) => one === focus || other === focus).map(([width, d]) => html`<path key=${`lit ${width}`} class="edge lit" stroke-width=${width} d=${d} />`)}
        ${drawn.map((node) => html`<${Disc} key=${node.name} node=${node} k=${k} side=${sideOf(node.name)}
          fill=${fill(node, colour, far, farthest, crowds)} chosen=${node.name === at} dim=${dim(node.name)} marked=${marks.includes(node.name)}
          reachable=${at ? node.name === at : node === drawn[0]} cls=${answer.cls} far=${far[node.name]} pick=${pick} point=${point} onKey=${onKey}
          move=${(x, y) => move((last) => ({ ...last, [node.name]: [x, y] }))} />`).reverse()}
        <g class="names" aria-hidden="true">${drawn.filter((node) => placed.has(node.name)).map((node) => {
          const { x, y, anchor } = /** @type {{x: number, y: number, anchor: string}} */ (placed.get(node.name));
          return html`<text key=${node.name} class=${dim(node.name) ? "dim" : ""} x=${node.x + x / view.k} y=${node.y + y / view.k} dy="0.33em" text-anchor=${anchor}
            style=${`font-size: ${12.5 / view.k}px; stroke-width: ${3 / view.k}px`}>${node.name}</text>`;
        })}</g>
      </g></svg>`}
    <div class="below"><${Legend} colour=${colour} marked=${marks.length > 0} />
      <div class="zoom"><button type="button" aria-label="Closer" onClick=${() => grow(1.5)}>+</button>
        <button type="button" aria-label="Farther" onClick=${() => grow(1 / 1.5)}>−</button>
        <button type="button" aria-label="Whole graph" onClick=${() => { move({}); d3.select(svg.current).call(zoom.current.transform, d3.zoomIdentity); }}>⟲</button></div></div>
  </figure>`;
}

function Disc({ node, k, side, fill: colour, chosen, dim, marked, reachable, cls, far, pick, point, onKey, move }) {
  const ref = useRef(/** @type {SVGGElement | null} */ (null));
  useLayoutEffect(() => {
    const drag = d3.drag().container(() => ref.current?.parentNode).clickDistance(4)
      .subject(() => ({ x: node.x, y: node.y })).on("drag", (event) => move(event.x, event.y));
    d3.select(ref.current).call(drag);
  }, [node.x, node.y]);
  const r = node.r / k;
  const words = `${subsetName(cls, node.name)}, ${count(node.size)} items${side ? `, in ${side}` : ""}${far === undefined ? "" : `, distance ${far.toFixed(2)}`}`;
  return html`<g ref=${ref} class=${`disc ${side} ${chosen ? "chosen" : ""} ${dim ? "dim" : ""}`} data-name=${node.name} transform=${`translate(${node.x},${node.y})`}
      tabindex=${reachable ? 0 : -1} role="button" aria-pressed=${chosen} aria-label=${words}
      onClick=${() => pick(node.name)} onKeyDown=${(event) => onKey(event, node.name)}
      onPointerEnter=${() => point(node.name)} onPointerLeave=${() => point("")} onFocus=${() => pick(node.name)}>
    ${side && html`<circle class="ring" r=${r + 3.5 / k} stroke-width=${2.5 / k} stroke-dasharray=${side === "test" ? `${4 / k} ${3 / k}` : null} />`}
    ${marked && html`<circle class="finding" r=${r + 7 / k} stroke-width=${3 / k} />`}
    <circle r=${r} style=${`fill: ${colour}`} stroke-width=${1 / k} />
  </g>`;
}

function Legend({ colour, marked }) {
  return html`<p class="graph-legend small">${colour === "distance"
    ? html`<span class="ramp" aria-hidden="true"></span> near … far` : "colour: community"}
    <span><svg width="16" height="16" aria-hidden="true"><circle class="ring" cx="8" cy="8" r="6" stroke-width="2.5" /></svg> train</span>
    <span><svg width="16" height="16" aria-hidden="true"><circle class="ring" cx="8" cy="8" r="6" stroke-width="2.5" stroke-dasharray="4 3" /></svg> test</span>
    ${marked && html`<span><svg width="16" height="16" aria-hidden="true"><circle class="finding" cx="8" cy="8" r="6" stroke-width="3" /></svg> of a finding</span>`}</p>`;
}

/** One subset, the one pointed at or chosen: some of its items, and the buttons that put it on a side. */
function Card({ answer, node, far, put, sideOf, at, item, open }) {
  const name = node ? subsetName(answer.cls, node.name) : "";
  const held = useAnswer("samples", { on: answer.on, subset: name || answer.cls });
  const items = held.problem ? [] : held.answer?.items ?? [];
  const distance = node && far[node.name] !== undefined ? `, distance ${far[node.name].toFixed(3)}` : "";
  return html`<aside class="subset" aria-label="Chosen subset"><h2 class="minor">${name || answer.cls}</h2>
    <p class="small">${node ? `${count(node.size)} items, community ${node.community}${distance}` : "The whole class. Point at a disc, or choose one."}</p>
    ${held.problem && html`<p class="problem" role="alert">${held.problem}</p>`}
    <div class=${held.waiting ? "samples waiting" : "samples"}><${Wall} items=${items} on=${answer.on} open=${item} onOpen=${(entry) => open(entry.id)} /></div>
    <p class="put">${node && node.name === at ? html`<${SideButtons} name=${name} side=${sideOf(node.name)} put=${put} />` : ""}</p></aside>`;
}

function SideButtons({ name, side, put }) {
  return ["train", "test"].map((word) => html`<button type="button" class=${side === word ? "side on" : "side"} aria-pressed=${side === word}
    aria-label=${`${name} in ${word}`} onClick=${() => put(name, word)}>${word}</button>`);
}

/** All subsets as a list: by distance where there is one, else by size. */
function Subsets({ answer, far, sideOf, put, pick, at, measured }) {
  const [words, search] = useState("");
  const rows = answer.subsets.filter((one) => one.name.toLowerCase().includes(words.toLowerCase()));
  if (measured) rows.sort((one, other) => (far[one.name] ?? Infinity) - (far[other.name] ?? Infinity));
  const farthest = Math.max(1e-9, ...Object.values(far));
  return html`<div class="subsets"><div class="controls"><label class="choice">Find <input type="search" value=${words} onInput=${(event) => search(event.target.value)} /></label>
      <small>${measured ? `by distance from ${measured}` : "by size; choose one to see the distances from it"}</small></div>
    <div class="scroll tall" tabindex="0" role="region" aria-label="Subsets" ...${savable(`Subsets of ${answer.cls}`, () => answer.subsets.map(({ name, size, community }) => (
      { subset: name, items: size, community, distance: far[name], side: sideOf(name) })))}><table>
      <thead><tr><th>subset</th><th class="number">items</th>${measured && html`<th class="number">distance</th>`}<th>put into</th></tr></thead>
      <tbody>${rows.slice(0, 400).map((one) => html`<tr key=${one.name} class=${one.name === at ? "chosen" : ""}>
        <th scope="row"><button type="button" class="quiet" onClick=${() => pick(one.name)}>${one.name}</button></th>
        <td class="number">${count(one.size)}</td>
        ${measured && html`<td class="number bar-cell" style=${`--share: ${(far[one.name] ?? 0) / farthest}`}>${far[one.name]?.toFixed(3) ?? "–"}</td>`}
        <td class="put"><${SideButtons} name=${subsetName(answer.cls, one.name)} side=${sideOf(one.name)} put=${put} /></td></tr>`)}</tbody>
    </table></div>${rows.length > 400 && html`<p class="small">400 of ${count(rows.length)} are shown: find the others by name.</p>`}</div>`;
}

/** What is on both sides so far: distance, items, leakage, tags, and the recipe. */
function Sides({ held, answer, state, train, test, put, change }) {
  const facts = held.answer;
  if (!train.length && !test.length) {
    return html`<h2>A shift by hand</h2><p>Put subsets into train and test, of this class and then of others: the distance, what both sides
      share and the tags that differ follow as you go.</p>`;
  }
  return html`<h2>A shift by hand</h2>${held.problem && html`<p class="problem" role="alert">${held.problem}</p>`}
    ${facts?.classes.length > 0 && html`<div class=${held.waiting ? "waiting" : ""}>
      <div class="scroll" tabindex="0" role="region" aria-label="Classes" ...${savable("Train and test by class", () => facts.classes.map((one) => ({
        class: one.cls, train: one.train.join(" + "), test: one.test.join(" + "), distance: one.distance, mean_distance: one.mean_distance,
        train_items: one.train_items, test_items: one.test_items, both: one.both })))}><table class="sides-table">
        <thead><tr><th>class</th><th>train</th><th>test</th><th class="number">distance</th><th class="number">items of train</th>
          <th class="number">of test</th><th class="number">in both</th></tr></thead>
        <tbody>${facts.classes.map((one) => html`<tr key=${one.cls}><th scope="row"><button type="button" class="quiet"
            onClick=${() => change({ on: answer.on, cls: one.cls, at: "" })}>${one.cls}</button></th>
          ${["train", "test"].map((side) => html`<td>${one[side].map((context) => html`<button type="button" class="chip"
            title=${`Take ${subsetName(one.cls, context)} out of ${side}`} onClick=${() => put(subsetName(one.cls, context), "")}>${context} ×<span class="unseen"> out of ${side}</span></button> `)}</td>`)}
          <td class="number">${one.distance === null ? "–" : one.distance.toFixed(3)}${one.train.length + one.test.length > 2 && one.mean_distance !== null
            ? html`<br /><small title="mean of the single distances, as in MetaShift's code">mean ${one.mean_distance.toFixed(3)}</small>` : ""}</td>
          <td class="number">${count(one.train_items)}</td><td class="number">${count(one.test_items)}</td>
          <td class=${one.both ? "number leak" : "number"}>${count(one.both)}</td></tr>`)}</tbody></table></div>
      <${Command} words=${facts.sides_command} />
      <${Together} facts=${facts} answer=${answer} state=${state} change=${change} /></div>`}`;
}

function Together({ facts, answer, state, change }) {
  if (!facts.built) return null;
  const { items, built } = facts;
  return html`<p class="leakage">${items.both
      ? html`<b>${count(items.both)} items</b> lie on both sides: they become test items and leave training.` : "No item lies on both sides."}
    ${items.ambiguous > 0 && ` ${count(items.ambiguous)} carry the tags of two of the classes and are dropped.`}</p>
    <div class="controls"><label class="choice">Training items (0: all that can be) <input type="number" min="0" step="50" value=${state.n_train || 0}
        onChange=${(event) => change({ n_train: event.target.value })} /></label>
      <label class="choice">Items of val <input type="number" min="0" step="10" value=${state.n_ood || 0} onChange=${(event) => change({ n_ood: event.target.value })} /></label>
      <label class="choice">Seed <input type="number" min="0" value=${facts.seed} onChange=${(event) => change({ seed: event.target.value })} /></label></div>
    ${built.problem ? html`<p class="note" role="status">${built.problem}</p><${Differences} rows=${facts.differences} />` : html`<${Counts} built=${built} /><${Details} built=${built} />`}
    ${facts.recipe && html`<${SaveRecipe} text=${facts.recipe} commands=${facts.commands} edit=${answer.edit} ready=${!built.problem} name="my-subsets"
      plan=${{ on: answer.on, shift: "subset", settings: facts.settings, seed: facts.seed }} />`}`;
}
