const facts = JSON.parse(document.getElementById("facts").textContent), card = document.getElementById("card");
const plates = [...document.querySelectorAll("svg")];
function line(tag, text) { const e = document.createElement(tag); e.textContent = text; return e; }
function show(event) {
  const i = +event.currentTarget.dataset.i, node = facts.nodes[i], near = new Set(node.near);
  plates.forEach(svg => {
    svg.classList.add("busy");
    svg.querySelectorAll("g.node").forEach(g => { const j = +g.dataset.i;
      g.classList.toggle("near", j === i || near.has(j)); g.classList.toggle("here", j === i); });
    svg.querySelectorAll("line").forEach(l => l.classList.toggle("near", +l.dataset.a === i || +l.dataset.b === i));
  });
  card.replaceChildren(line("b", node.name), line("small", `${node.size} items, community ${node.community}`),
    line("small", `nearest: ${node.nearest}`), line("small", `farthest: ${node.farthest}`),
    ...node.images.map(k => { const e = new Image(); e.src = facts.images[k]; return e; }));
  card.style.display = "block"; move(event);
}
function move(event) {
  const x = event.clientX + 18, y = event.clientY + 18;
  card.style.left = Math.max(4, x + card.offsetWidth > innerWidth ? event.clientX - card.offsetWidth - 18 : x) + "px";
  card.style.top = Math.max(4, Math.min(y, innerHeight - card.offsetHeight - 8)) + "px";
}
function hide() { card.style.display = "none"; plates.forEach(svg => svg.classList.remove("busy")); }
document.querySelectorAll("g.node").forEach(g => {
  g.addEventListener("mouseenter", show); g.addEventListener("mousemove", move);
  g.addEventListener("mouseleave", hide); });
