// What people do with the map: zoom, move, hover, search. map.js draws it.
const MOST_ZOOM = 400;

function zoomAt(factor, x = view.width / 2, y = view.height / 2) {
  const before = scale();
  view.zoom = Math.min(MOST_ZOOM, Math.max(0.5, view.zoom * factor));
  const after = scale();
  view.x += (x - view.width / 2) * (1 / before - 1 / after);
  view.y -= (y - view.height / 2) * (1 / before - 1 / after);
  redraw();
}

function moveBy(x, y) {
  view.x -= x / scale();
  view.y += y / scale();
  redraw();
}

function reset() {
  Object.assign(view, { zoom: 1, x: centre.x, y: centre.y });
  redraw();
}

function showAll(points) {
  const { left, right, low, high } = boundsOf(points);
  Object.assign(view, { zoom: 1, x: (left + right) / 2, y: (low + high) / 2 });
  const fit = Math.min((view.width * 0.6) / (right - left), (view.height * 0.6) / (high - low)) / scale();
  view.zoom = Math.min(12, Math.max(1, fit));
  redraw();
}

const at = (event) => {
  const box = map.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

map.addEventListener("wheel", (event) => {
  event.preventDefault();
  const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1); // a line, where a wheel turns by lines
  zoomAt(Math.exp(-pixels * (event.ctrlKey ? 0.01 : 0.0018)), ...at(event)); // ctrl: a pinch on a touchpad
}, { passive: false });

// One pointer drags, two pinch. A mouse on a label selects its text instead.
const pointers = new Map();
map.addEventListener("pointerdown", (event) => {
  if (event.button || (event.pointerType === "mouse" && event.target.closest("li"))) return;
  pointers.set(event.pointerId, at(event));
});
map.addEventListener("pointermove", (event) => {
  const [x, y] = at(event);
  const before = pointers.get(event.pointerId);
  if (!before) {
    const label = event.target.closest?.("li");
    tell(label ? Number(label.dataset.index) : nearestTo(x, y, 14));
    return;
  }
  if (!map.hasPointerCapture(event.pointerId)) map.setPointerCapture(event.pointerId);
  map.classList.add("dragged");
  const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
  if (other) {
    const apart = ([a, b]) => Math.hypot(a - other[0], b - other[1]) || 1;
    zoomAt(apart([x, y]) / apart(before), (x + other[0]) / 2, (y + other[1]) / 2);
    moveBy((x - before[0]) / 2, (y - before[1]) / 2);
  } else moveBy(x - before[0], y - before[1]);
  pointers.set(event.pointerId, [x, y]);
});
for (const name of ["pointerup", "pointercancel"])
  map.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    if (name === "pointerup" && event.pointerType === "touch" && !map.classList.contains("dragged")) tell(nearestTo(...at(event), 24));
    if (!pointers.size) map.classList.remove("dragged");
  });
map.addEventListener("pointerleave", () => tell(-1));
map.addEventListener("dblclick", (event) => {
  if (!event.target.closest("li")) reset();
});

const KEYS = {
  "+": () => zoomAt(1.4), "=": () => zoomAt(1.4), "-": () => zoomAt(1 / 1.4), 0: reset,
  ArrowLeft: () => moveBy(60, 0), ArrowRight: () => moveBy(-60, 0), ArrowUp: () => moveBy(0, 60), ArrowDown: () => moveBy(0, -60),
};
map.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
$("in").addEventListener("click", () => zoomAt(1.6));
$("out").addEventListener("click", () => zoomAt(1 / 1.6));
$("reset").addEventListener("click", reset);

// Search: by any part of a token; the whole token first, then what begins so, then by importance.
function find(text) {
  const wanted = text.replaceAll("␣", " ").toLowerCase();
  const [whole, begun, other] = [[], [], []];
  if (wanted)
    plain.forEach((token, i) => {
      if (!token.includes(wanted)) return;
      const word = token.trim();
      (word === wanted.trim() ? whole : word.startsWith(wanted.trim()) ? begun : other).push(i);
    });
  hits = [...whole, ...begun, ...other];
  isHit = new Set(hits);
  current = -1;
  widths.clear(); // hits are bold
  $("found").textContent = wanted ? `${hits.length.toLocaleString("en")} found` : "";
  tell(hits.length ? hits[0] : -1);
  try {
    history.replaceState(null, "", text ? `#search=${encodeURIComponent(text)}` : "#");
  } catch {
    // a page inside another may not change its address
  }
  redraw();
}

function goTo(step) {
  if (!hits.length) return;
  current = (current + step + hits.length) % hits.length;
  const i = hits[current];
  Object.assign(view, { x: data.x[i], y: data.y[i], zoom: Math.max(view.zoom, Math.min(8, Math.sqrt(N / 30))) });
  $("found").textContent = `${(current + 1).toLocaleString("en")} of ${hits.length.toLocaleString("en")}`;
  tell(i);
  redraw();
}

search.addEventListener("input", () => find(search.value));
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") goTo(event.shiftKey ? (current < 0 ? 0 : -1) : 1);
  else if (event.key === "Escape") {
    search.value = "";
    find("");
  }
});

function readAddress() {
  const text = /^#search=(.*)$/.exec(location.hash)?.[1];
  if (text === undefined) return;
  try {
    search.value = decodeURIComponent(text);
  } catch {
    search.value = text; // no proper escapes: as it stands
  }
  find(search.value);
}

function drawLegend() {
  $("queries").replaceChildren(...Array.from({ length: data.queries }, (_, query) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const dot = document.createElement("i");
    dot.style.borderColor = colourOf(query);
    button.type = "button";
    button.title = "Show it and its neighbours";
    button.append(dot, data.token[query]);
    button.addEventListener("click", () => {
      showAll(owner.flatMap((_, i) => (i === query || data.near[i]?.some(([one]) => one === query) ? [i] : [])));
      tell(query);
    });
    item.append(button);
    return item;
  }));
  $("ramp").style.background = `linear-gradient(90deg, ${Array.from({ length: 9 }, (_, i) => ramp(i / 8))})`;
  [$("low").textContent, $("high").textContent] = data.ends;
  $("meaning").textContent = data.meaning;
  $("ramp").hidden = $("ends").hidden = $("meaning").hidden = data.ends[0] === data.ends[1];
}

function fill() {
  [view.width, view.height] = [map.clientWidth, map.clientHeight];
  const { offsetLeft: left, offsetTop: top, offsetWidth: width, offsetHeight: height } = $("legend");
  view.legend = { left, top, right: left + width, bottom: top + height };
  draw();
}

[$("across").textContent, $("up").textContent] = data.axes;
Object.assign(view, centre);
drawLegend();
fill();
readAddress();
draw();
new ResizeObserver(fill).observe(map);
window.addEventListener("hashchange", readAddress);
dark.addEventListener("change", () => {
  drawLegend();
  redraw();
});
