// The losses of a run over the tokens seen, as SVG. `data` is explained in loss_page.py.
const data = JSON.parse(document.getElementById("data").textContent);
const chart = document.getElementById("chart");
const tip = document.getElementById("tip");
const dark = matchMedia("(prefers-color-scheme: dark)");
const NAMES = { loss: "training loss", held_out_loss: "held-out loss", learning_rate: "learning rate" };
const FEW = 60; // reports up to which each gets a dot
const reports = data.reports;
const cross = element("line", { class: "cross" }); // through the report that the tip tells of
let chosen = -1; // that report
let places = []; // of the reports, across

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Round numbers that cover low to high in about `wanted` steps.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(Number((n * step).toPrecision(12)));
  return found;
}

function short(value) {
  for (const [unit, letter] of [[1e9, "B"], [1e6, "M"]]) if (value >= unit) return Number((value / unit).toPrecision(3)) + letter;
  return value.toLocaleString("en");
}

// Not Math.min(...values): a call takes only so many arguments.
const leastOf = (values) => values.reduce((least, value) => Math.min(least, value), Infinity);
const mostOf = (values) => values.reduce((most, value) => Math.max(most, value), -Infinity);
const known = (name) => reports.filter((report) => report[name] !== null);

function draw() {
  const [width, height] = [chart.clientWidth, chart.clientHeight];
  const box = { left: 58, right: width - 66, top: 66, bottom: height - 48 };
  const colours = dark.matches ? data.dark : data.light;
  const losses = [...known("loss").map((one) => one.loss), ...known("held_out_loss").map((one) => one.held_out_loss)];
  const [least, most] = losses.length ? [leastOf(losses), mostOf(losses)] : [0, 1];
  const room = (most - least) * 0.08 || 0.5;
  const end = reports.at(-1).tokens_seen || 1;
  const top = mostOf(reports.map((report) => report.learning_rate)) * 1.08 || 1;
  const across = (seen) => box.left + (0.02 + 0.96 * (seen / end)) * (box.right - box.left);
  const up = (part) => box.bottom - part * (box.bottom - box.top);
  const ofLoss = (loss) => up((loss - least + room) / (most - least + 2 * room));
  const ofRate = (rate) => up(rate / top);
  const svg = element("svg", { role: "img", "aria-label": "Losses over the tokens seen" });
  for (const loss of ticks(least - room, most + room, Math.max(2, (box.bottom - box.top) / 70))) {
    svg.append(element("line", { class: "grid", x1: box.left, x2: box.right, y1: ofLoss(loss), y2: ofLoss(loss) }));
    svg.append(element("text", { x: box.left - 10, y: ofLoss(loss) + 4, "text-anchor": "end" }, loss));
  }
  for (const rate of ticks(0, top, 5))
    svg.append(element("text", { x: box.right + 8, y: ofRate(rate) + 4 }, rate));
  for (const seen of ticks(0, end * 1.02, Math.max(2, width / 130)))
    svg.append(element("text", { x: across(seen), y: box.bottom + 20, "text-anchor": "middle" }, short(seen)));
  svg.append(element("text", { x: (box.left + box.right) / 2, y: box.bottom + 39, "text-anchor": "middle" }, "tokens seen, over all epochs"));
  data.epochs.forEach(([epoch, seen], i) => {
    svg.append(element("line", { class: "epoch", x1: across(seen), x2: across(seen), y1: box.top, y2: box.bottom }));
    svg.append(element("text", { x: across(seen), y: box.top - 7, "text-anchor": "middle" }, i ? epoch : `epoch ${epoch}`));
  });
  let x = box.left;
  for (const [name, words] of Object.entries(NAMES)) {
    const place = name === "learning_rate" ? ofRate : ofLoss;
    const points = known(name).map((report) => [across(report.tokens_seen), place(report[name])]);
    svg.append(element("polyline", { class: name, stroke: colours[name], points: points.join(" ") }));
    if (name === "held_out_loss" || (name === "loss" && points.length <= FEW))
      for (const [cx, cy] of points) svg.append(element("circle", { cx, cy, r: 3.6, fill: colours[name] }));
    const label = element("text", { class: "name", x, y: 30, style: `fill: ${colours[name]}` }, words);
    svg.append(label);
    x += 9 * words.length + 14;
  }
  places = reports.map((report) => across(report.tokens_seen));
  cross.setAttribute("y1", box.top);
  cross.setAttribute("y2", box.bottom);
  svg.append(cross);
  chart.querySelector("svg")?.remove();
  chart.prepend(svg);
  placeMarks();
}

// Moves the cross and the tip to the chosen report, or hides them.
function placeMarks() {
  cross.style.display = chosen < 0 ? "none" : "";
  tip.hidden = chosen < 0;
  if (chosen < 0) return;
  const x = places[chosen];
  cross.setAttribute("x1", x);
  cross.setAttribute("x2", x);
  tip.style.left = `${x + 14 + tip.offsetWidth > chart.clientWidth ? x - 14 - tip.offsetWidth : x + 14}px`;
  tip.style.top = "84px";
}

function tell(report) {
  if (report === chosen) return;
  chosen = report;
  if (report >= 0) fillTip(reports[report]);
  placeMarks();
}

function fillTip(report) {
  const add = (name, text) => tip.append(Object.assign(document.createElement(name), { textContent: text }));
  const { step, epoch, tokens_seen, learning_rate } = report;
  tip.replaceChildren();
  add("b", `${tokens_seen.toLocaleString("en")} tokens`);
  for (const name of ["loss", "held_out_loss"])
    if (report[name] !== null) add("span", `${NAMES[name]} ${report[name].toFixed(4)}`);
  add("span", `learning rate ${Number(learning_rate.toPrecision(4))}`);
  add("span", `epoch ${epoch}, step ${step.toLocaleString("en")}`);
}

chart.addEventListener("pointermove", (event) => {
  const x = event.clientX - chart.getBoundingClientRect().left;
  tell(places.reduce((best, place, i) => (Math.abs(place - x) < Math.abs(places[best] - x) ? i : best), 0));
});
chart.addEventListener("pointerleave", () => tell(-1));
chart.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  tell(Math.min(reports.length - 1, Math.max(0, chosen + step)));
});
dark.addEventListener("change", draw);
new ResizeObserver(draw).observe(chart);
draw();
