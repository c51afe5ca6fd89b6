// A map of tokens: points on a canvas, labels as text above it. `data` comes by columns: map_page.py explains it.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const [map, canvas, list, tip, search] = ["map", "canvas", "labels", "tip", "search"].map($);
const pen = canvas.getContext("2d");
const dark = matchMedia("(prefers-color-scheme: dark)");
const N = data.x.length;
const SHADES = 24;
const MOST_LABELS = 400;
const MOST_TRIED = 4000;
const FONT = { query: "700 16px", neighbour: "13px", token: "12px" };
const SIZE = { query: 16, neighbour: 13, token: 12 };
const owner = data.token.map((_, i) => (i < data.queries ? i : (data.near[i]?.[0][0] ?? -1)));
const kind = owner.map((query, i) => (i < data.queries ? "query" : query >= 0 ? "neighbour" : "token"));
const plain = data.token.map((token) => token.replaceAll("␣", " ").toLowerCase());
const small = N > 2000;
const RADIUS = { query: 8, neighbour: 5, token: small ? 2 : 3.5 };
const family = getComputedStyle(document.body).fontFamily;
const widths = new Map(); // of labels, in pixels
const shownLabels = new Map(); // index -> its element
const bounds = boundsOf(data.x.keys());
const centre = { x: (bounds.left + bounds.right) / 2, y: (bounds.low + bounds.high) / 2 };
const view = { width: 0, height: 0, legend: null, zoom: 1, x: 0, y: 0 }; // x, y: what lies in the middle, in the map's own units
const screenX = new Float32Array(N);
const screenY = new Float32Array(N);
let hits = []; // indices, the best first
let isHit = new Set();
let current = -1; // the hit at hand
let focused = -1; // the point that the tip tells of

function boundsOf(points) {
  const box = { left: Infinity, right: -Infinity, low: Infinity, high: -Infinity };
  for (const i of points) {
    box.left = Math.min(box.left, data.x[i]);
    box.right = Math.max(box.right, data.x[i]);
    box.low = Math.min(box.low, data.y[i]);
    box.high = Math.max(box.high, data.y[i]);
  }
  return box;
}

const theme = () => (dark.matches ? data.dark : data.light);
const colourOf = (query) => theme().queries[query % theme().queries.length];
const ink = () => getComputedStyle(document.body).color;

function ramp(part) {
  const stops = theme().ramp;
  const place = part * (stops.length - 1);
  const first = Math.min(Math.floor(place), stops.length - 2);
  const channel = (colour, at) => parseInt(colour.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => {
    const [a, b] = [channel(stops[first], at), channel(stops[first + 1], at)];
    return Math.round(a + (b - a) * (place - first));
  });
  return `rgb(${mixed})`;
}

// Pixels a unit of the map, so that all of it fits with room for labels; the same across and up.
function scale() {
  const wide = Math.max(view.width - Math.min(150, view.width * 0.22), 50);
  const tall = Math.max(view.height - 80, 50);
  const fit = Math.min(wide / (bounds.right - bounds.left), tall / (bounds.high - bounds.low));
  return (Number.isFinite(fit) ? fit : 1) * view.zoom;
}

function project() {
  const unit = scale();
  for (let i = 0; i < N; i++) {
    screenX[i] = (data.x[i] - view.x) * unit + view.width / 2;
    screenY[i] = (view.y - data.y[i]) * unit + view.height / 2;
  }
}

const inView = (i, room = 0) =>
  screenX[i] > -room && screenX[i] < view.width + room && screenY[i] > -room && screenY[i] < view.height + room;
// Points and labels grow a little as one zooms in.
const radius = (i) => RADIUS[kind[i]] * Math.min(1.6, Math.pow(view.zoom, 0.15));
const reach = (i) => radius(i) + (isHit.has(i) ? 4 : kind[i] === "token" ? 0 : 2); // with its edge or ring
const dimmed = (i) => search.value !== "" && !isHit.has(i);

function drawSpokes() {
  pen.lineWidth = 1;
  pen.globalAlpha = search.value ? 0.12 : 0.3;
  for (let i = 0; i < N; i++)
    for (const [query] of data.near[i] ?? []) {
      pen.strokeStyle = colourOf(query);
      pen.beginPath();
      pen.moveTo(screenX[query], screenY[query]);
      pen.lineTo(screenX[i], screenY[i]);
      pen.stroke();
    }
  pen.globalAlpha = 1;
}

function circle(i, size) {
  pen.moveTo(screenX[i] + size, screenY[i]);
  pen.arc(screenX[i], screenY[i], size, 0, 2 * Math.PI);
}

// The backdrop, all points of a colour in one path, so that many points take few fills.
function drawTokens() {
  const groups = Array.from({ length: 2 * SHADES }, () => []);
  for (let i = N - 1; i >= 0; i--)
    if (kind[i] === "token" && inView(i, 10))
      groups[(dimmed(i) ? 0 : SHADES) + Math.min(SHADES - 1, Math.floor(data.shade[i] * SHADES))].push(i);
  groups.forEach((group, number) => {
    pen.globalAlpha = number < SHADES ? 0.22 : small ? 0.8 : 1;
    pen.fillStyle = ramp((number % SHADES) / (SHADES - 1));
    pen.beginPath();
    for (const i of group) circle(i, radius(i));
    pen.fill();
  });
}

function drawMarked() {
  for (let i = N - 1; i >= 0; i--) {
    if (kind[i] === "token" || !inView(i, 20)) continue;
    pen.globalAlpha = dimmed(i) ? 0.35 : 1;
    pen.fillStyle = data.shade[i] === null ? theme().unknown : ramp(data.shade[i]);
    pen.strokeStyle = colourOf(owner[i]);
    pen.lineWidth = kind[i] === "query" ? 3.5 : 2.5;
    pen.beginPath();
    circle(i, radius(i));
    pen.fill();
    pen.stroke();
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = ink();
  for (const i of [...hits.slice(0, MOST_TRIED), focused]) {
    if (i < 0 || !inView(i, 20)) continue;
    pen.lineWidth = i === focused ? 2.5 : 1.2;
    pen.beginPath();
    circle(i, radius(i) + 3);
    pen.stroke();
  }
}

function labelWidth(i) {
  if (!widths.has(i)) {
    pen.font = `${kind[i] === "token" && isHit.has(i) ? "700 12px" : FONT[kind[i]]} ${family}`;
    widths.set(i, Math.ceil(pen.measureText(data.label[i] ?? data.token[i]).width) + 1);
  }
  return widths.get(i);
}

function boxOf(i) {
  const size = reach(i);
  return { left: screenX[i] - size, right: screenX[i] + size, top: screenY[i] - size, bottom: screenY[i] + size };
}

function chooseLabels() {
  const wanted = [];
  const seen = [];
  const fewHits = hits.length <= 50;
  const want = (i) => {
    if (!inView(i)) return;
    seen.push(i);
    if (wanted.length < MOST_TRIED)
      wanted.push({
        index: i, x: screenX[i], y: screenY[i], radius: reach(i),
        width: labelWidth(i), height: SIZE[kind[i]] + 2, must: kind[i] !== "token" || (fewHits && isHit.has(i)),
      });
  };
  if (focused >= 0) want(focused);
  for (const i of hits) if (i !== focused) want(i);
  for (let i = 0; i < N; i++) if (i !== focused && !isHit.has(i)) want(i);
  return fitLabels(wanted, seen.length <= MOST_TRIED ? seen : [], boxOf, view, MOST_LABELS);
}

function drawLabels() {
  const placed = chooseLabels();
  const kept = new Set(placed.map((label) => label.index));
  for (const [i, item] of shownLabels)
    if (!kept.has(i)) {
      item.remove();
      shownLabels.delete(i);
    }
  pen.lineWidth = 0.8;
  for (const { index: i, left, top, right, bottom, far } of placed) {
    const colour = owner[i] < 0 ? "" : colourOf(owner[i]);
    const item = shownLabels.get(i) ?? makeLabel(i);
    item.style.transform = `translate(${left}px, ${top + 1}px)`;
    item.style.color = colour;
    item.className = `${kind[i]}${dimmed(i) ? " off" : ""}${isHit.has(i) ? " hit" : ""}`;
    if (!far) continue;
    const [x, y] = [Math.min(Math.max(screenX[i], left), right), Math.min(Math.max(screenY[i], top), bottom)];
    const part = (radius(i) + 1) / Math.hypot(x - screenX[i], y - screenY[i]);
    pen.globalAlpha = dimmed(i) ? 0.2 : 0.7;
    pen.strokeStyle = colour || ink();
    pen.beginPath();
    pen.moveTo(screenX[i] + part * (x - screenX[i]), screenY[i] + part * (y - screenY[i]));
    pen.lineTo(x, y);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function makeLabel(i) {
  const item = document.createElement("li");
  item.textContent = data.label[i] ?? data.token[i];
  item.dir = "auto";
  item.tabIndex = 0;
  item.dataset.index = i;
  item.addEventListener("focus", () => tell(i));
  item.addEventListener("blur", () => tell(-1));
  shownLabels.set(i, item);
  list.append(item);
  return item;
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(view.width * ratio), Math.round(view.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, view.width, view.height);
  project();
  drawSpokes();
  drawTokens();
  drawMarked();
  drawLabels();
  placeTip();
}

let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

// The tip: everything known of one point.
function tell(i) {
  if (i === focused) return;
  focused = i;
  tip.replaceChildren();
  if (i >= 0) {
    const add = (name, text) => {
      const line = document.createElement(name);
      line.textContent = text;
      line.dir = "auto";
      tip.append(line);
    };
    add("b", data.token[i]);
    add("span", data.id[i] === null ? `the mean of tokens ${data.parts[i].join(", ")}` : `id ${data.id[i]}`);
    if (data.count[i] !== null) add("span", `${data.count[i].toLocaleString("en")} times in the corpus`);
    if (data.rank[i] !== null) add("span", `${data.counted ? "frequency rank" : "rank in the file"} ${data.rank[i].toLocaleString("en")}`);
    for (const [query, score] of data.near[i] ?? []) add("span", `cosine ${score.toFixed(3)} to ${data.token[query]}`);
  }
  redraw();
}

function placeTip() {
  tip.hidden = focused < 0 || !inView(focused);
  if (tip.hidden) return;
  const [x, y] = [screenX[focused], screenY[focused]];
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, x + 12 + width > view.width ? x - 12 - width : x + 12)}px`;
  tip.style.top = `${Math.max(4, y + 20 + height > view.height ? y - 20 - height : y + 20)}px`; // not on its label
}

function nearestTo(x, y, reach) {
  let best = -1;
  let least = reach * reach;
  for (let i = 0; i < N; i++) {
    const distance = (screenX[i] - x) ** 2 + (screenY[i] - y) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}
