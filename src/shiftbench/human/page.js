"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const study = JSON.parse($("study").textContent);
  const byId = new Map(study.tasks.map((task) => [task.id, task]));

  // index.html#2/6 is the second of six parts: so many tasks in a row, no pair of groups twice where there is no need.
  const named = /^#(\d+)\/(\d+)$/.exec(location.hash);
  const [partNumber, parts] = named && +named[1] >= 1 && +named[1] <= +named[2] && +named[2] <= study.tasks.length
    ? [+named[1], +named[2]] : [1, 1];
  const part = `${partNumber}/${parts}`;
  const slot = `shiftbench ${study.study} ${part}`;
  let state = null, shown = null, last = 0, keeps = true;

  function below(n) {  // a whole number in [0, n), without favour
    const most = Math.floor(2 ** 32 / n) * n, held = new Uint32Array(1);
    do crypto.getRandomValues(held); while (held[0] >= most);
    return held[0] % n;
  }

  function shuffled(list) {
    const out = [...list];
    for (let i = out.length - 1; i > 0; i--) {
      const j = below(i + 1);
      [out[i], out[j]] = [out[j], out[i]];
    }
    return out;
  }

  // The order of tasks and images, and which group is A, are drawn once per session and kept with the answers. The two
  // rounds of a study stay apart, so that a pair of groups comes back as late as can be.
  function begin(annotator) {
    const numbered = study.tasks.map((task, number) => [task, number]).slice(
      Math.floor((partNumber - 1) * study.tasks.length / parts), Math.floor(partNumber * study.tasks.length / parts));
    const rounds = [numbered.filter(([, n]) => n < study.first), numbered.filter(([, n]) => n >= study.first)];
    const tasks = rounds.flatMap(shuffled).map(([task]) => ({
      task: task.id, swapped: below(2) === 1, order: shuffled(task.questions), seconds: 0, changes: 0, answers: {}}));
    return {session: Array.from({length: 4}, () => below(65536).toString(16).padStart(4, "0")).join(""),
      annotator, part, started: new Date().toISOString(), at: 0, unsaved: false, tasks};
  }

  function keep() {
    try {
      localStorage.setItem(slot, JSON.stringify(state));
    } catch {
      if (keeps) tell("This browser does not keep answers when the tab is closed. Save the file before you close it.");
      keeps = false;
    }
  }

  function kept() {
    try {
      const stored = JSON.parse(localStorage.getItem(slot));
      return stored && stored.part === part && stored.tasks.every((one) => byId.has(one.task)) ? stored : null;
    } catch {
      return null;
    }
  }

  function tell(text) {
    $("notice").textContent = text;
    $("notice").hidden = !text;
  }

  function show(id) {
    for (const name of ["intro", "task", "end"]) $(name).hidden = name !== id;
    scrollTo(0, 0);
  }

  const sorted = (one) => Object.keys(one.answers).length;
  const whole = (one) => sorted(one) === one.order.length;
  const finished = () => state.tasks.filter(whole).length;

  // Time counts while a task is on screen and its tab in front.
  function tick() {
    const now = performance.now();
    if (shown && last) shown.seconds += (now - last) / 1000;
    last = document.hidden ? 0 : now;
  }

  function picture(name, words) {
    const button = document.createElement("button"), image = document.createElement("img");
    button.type = "button";
    button.className = "picture";
    image.src = `images/${name}.jpg`;
    image.alt = words;
    image.width = image.height = study.size;
    image.draggable = false;
    button.append(image);
    button.addEventListener("click", () => {
      const large = $("large").querySelector("img");
      large.src = image.src;
      large.alt = words;
      $("large").showModal();
    });
    return button;
  }

  function question(name, number) {
    const field = document.createElement("fieldset"), legend = document.createElement("legend");
    const choice = document.createElement("div");
    field.className = "question";
    field.dataset.image = name;
    legend.textContent = `Image ${number + 1} of ${shown.order.length}`;
    choice.className = "choice";
    for (const side of [0, 1]) {
      const label = document.createElement("label"), radio = document.createElement("input");
      label.className = "ab"[side];
      radio.type = "radio";
      radio.name = `q${name}`;
      radio.setAttribute("aria-label", `Group ${"AB"[side]}`);
      radio.checked = shown.answers[name]?.group === group(side);
      radio.addEventListener("change", () => answer(name, side));
      label.append(radio, "AB"[side]);
      choice.append(label);
    }
    field.append(legend, picture(name, legend.textContent), choice);
    field.addEventListener("keydown", (event) => {
      const side = {a: 0, b: 1}[event.key.toLowerCase()];
      if (side === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      field.querySelectorAll("input")[side].checked = true;
      answer(name, side);
      const open = shown.order.slice(number + 1).concat(shown.order).find((other) => !(other in shown.answers));
      (open ? $("questions").querySelector(`[data-image="${open}"] input`) : $("next")).focus();
    });
    return field;
  }

  const group = (side) => shown.swapped ? 1 - side : side;  // what is on screen as A may be group 1 of the study

  function answer(name, side) {
    tick();
    const before = shown.answers[name];
    if (before && before.group === group(side)) return;
    if (before) shown.changes++;
    shown.answers[name] = {group: group(side), seconds: Math.round(shown.seconds * 10) / 10};
    state.unsaved = true;
    keep();
    progress();
  }

  function progress() {
    const left = shown.order.length - sorted(shown);
    $("which").textContent = `Task ${state.at + 1} of ${state.tasks.length}`;
    $("progress").max = state.tasks.length;
    $("progress").value = finished();
    $("left").textContent = left ? `${left} left to sort` : "All sorted";
    $("next").disabled = left > 0;
    $("next").textContent = state.at + 1 < state.tasks.length ? "Next task" : "Finish";
    $("back").disabled = state.at === 0;
  }

  function open(at) {
    tick();
    state.at = at;
    shown = state.tasks[at];
    last = 0;
    const {examples} = byId.get(shown.task);
    for (const side of [0, 1]) {
      $(`group${side}`).replaceChildren(...examples[group(side)].map(
        (name, number) => picture(name, `Example ${number + 1} of group ${"AB"[side]}`)));
    }
    $("questions").replaceChildren(...shown.order.map(question));
    progress();
    show("task");
    tick();
    keep();
    $("which").focus({preventScroll: true});
  }

  function end() {
    tick();
    shown = null;
    const open = state.tasks.length - finished();
    $("summary").textContent = open
      ? `You have done ${finished()} of ${state.tasks.length} tasks. Save what there is, or go on.`
      : `All ${state.tasks.length} tasks are done. One step is left: save your answers as a file.`;
    $("file").textContent = filename();
    $("saved").textContent = "";
    show("end");
    keep();
    $("thanks").focus({preventScroll: true});
  }

  const filename = () => `answers-${study.study}-${part.replace("/", "of")}-${
    state.annotator.replace(/[^\p{L}\p{N}_-]+/gu, "_").slice(0, 40)}.json`;

  function check(tasks) {  // FNV-1a: finds a slip of an editor, not a forger
    const listed = tasks.map((one) => `\n${one.task}:` + one.answers.map((a) => `${a.image}=${a.group}`).join(",")).join("");
    let value = 0x811c9dc5;
    for (const byte of new TextEncoder().encode(`${study.study}\n${state.annotator}${listed}`))
      value = Math.imul(value ^ byte, 0x01000193) >>> 0;
    return value;
  }

  function save() {
    tick();
    const tasks = state.tasks.map((one, position) => ({
      task: one.task, position, swapped: one.swapped, seconds: Math.round(one.seconds * 10) / 10, changes: one.changes,
      answers: one.order.filter((image) => image in one.answers).map((image) => ({image, ...one.answers[image]})),
    })).filter((one) => one.answers.length);
    const file = {format: "shiftbench answers", version: 1, study: study.study, annotator: state.annotator, part,
      session: state.session, started: state.started, saved: new Date().toISOString(), check: check(tasks), tasks};
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], {type: "application/json"}));
    link.download = filename();
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    state.unsaved = false;
    keep();
    $("saved").textContent = `Saved at ${new Date().toLocaleTimeString()}.`;
  }

  function intro() {
    const stored = kept();
    const n = stored ? stored.tasks.length : begin("").tasks.length;
    $("amount").textContent = `There ${n === 1 ? "is 1 task" : `are ${n} tasks`} with ${
      study.tasks[0].questions.length} images to sort in each.${n > 1 ? " You may close this page and come back later." : ""}`;
    $("start").hidden = Boolean(stored);
    $("resume").hidden = !stored;
    if (stored) {
      $("resumed").textContent = `${stored.annotator} has done ${stored.tasks.filter(whole).length} of ${n} tasks in this browser.`;
      $("continue").onclick = () => { state = stored; finished() === n ? end() : open(state.at); };
      $("fresh").onclick = () => {
        if (stored.unsaved && !confirm(`Answers of ${stored.annotator} are not saved as a file and would be lost. Go on?`)) return;
        localStorage.removeItem(slot);
        intro();
      };
    }
    show("intro");
  }

  $("start").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = $("name").value.trim().replace(/\s+/g, " ");
    if (!name) return $("name").focus();
    state = begin(name);
    open(0);
  });
  $("next").addEventListener("click", () => state.at + 1 < state.tasks.length ? open(state.at + 1) : end());
  $("back").addEventListener("click", () => open(state.at - 1));
  $("again").addEventListener("click", () => open(state.at));
  $("save").addEventListener("click", save);
  $("final").addEventListener("click", save);
  $("large").addEventListener("click", (event) => event.target === $("large") && $("large").close());
  document.addEventListener("visibilitychange", () => { tick(); if (state) keep(); });
  addEventListener("beforeunload", (event) => {
    if (state) { tick(); keep(); }
    if (!keeps && state?.unsaved) event.preventDefault();
  });
  addEventListener("hashchange", () => location.reload());
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("questions").querySelector("input").focus();
  });
  intro();
})();
