// Which labels fit: greedily, in the order given, so that none lies on another. Pixels from the upper left.
const CELL = 64;
const COVERED_COST = 6; // pixels of distance that a label goes rather than cover a point
const SIDES = [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]];

class Boxes {
  constructor() { this.cells = new Map(); }

  *keys(box) {
    for (let column = Math.floor(box.left / CELL); column <= Math.floor(box.right / CELL); column++)
      for (let row = Math.floor(box.top / CELL); row <= Math.floor(box.bottom / CELL); row++) yield column * 65536 + row;
  }

  // How many boxes meet this one, counted up to `most`.
  count(box, most) {
    let met = 0;
    for (const key of this.keys(box))
      for (const other of this.cells.get(key) ?? [])
        if (box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom && ++met >= most)
          return met;
    return met;
  }

  add(box) {
    for (const key of this.keys(box)) {
      if (!this.cells.has(key)) this.cells.set(key, []);
      this.cells.get(key).push(box);
    }
  }
}

// `wanted`: [{index, x, y, radius, width, height, must}], the most important first; `points`: [index] of which as few
// as can be are covered. Gives those that fit, with left and top, and `far` where a line has to lead to the point.
// A label keeps off the points that must be seen; those that must be seen themselves may go further away.
function fitLabels(wanted, points, boxOf, view, most) {
  const [taken, kept, crowd] = [new Boxes(), new Boxes(), new Boxes()];
  const placed = [];
  taken.add(view.legend);
  for (const i of points) crowd.add(boxOf(i));
  for (const one of wanted) if (one.must) kept.add(boxOf(one.index));
  for (const one of wanted) {
    if (placed.length >= most) break;
    let best = null;
    for (const { left, top, cost, far } of placesOf(one)) {
      if (best && cost >= best.cost) break;
      const box = { left, top, right: left + one.width, bottom: top + one.height };
      if (left < 2 || top < 2 || box.right > view.width - 2 || box.bottom > view.height - 2) continue;
      if (taken.count(box, 1) || kept.count(box, 1)) continue;
      const whole = cost + COVERED_COST * crowd.count(box, 9);
      if (!best || whole < best.cost) best = { box, cost: whole, far };
    }
    if (!best) continue;
    const { left, top, right, bottom } = best.box;
    taken.add({ left: left - 3, top: top - 1, right: right + 3, bottom: bottom + 1 });
    placed.push({ index: one.index, left, top, right, bottom, far: best.far });
  }
  return placed;
}

// Right, left, above, below, then the corners; by rising cost.
function* placesOf({ x, y, radius, width, height, must }) {
  for (const distance of must ? [3, 14, 28, 44, 64] : [3])
    for (const [order, [across, down]] of SIDES.entries()) {
      const away = (radius + distance) * (across && down ? 0.71 : 1);
      const left = x + across * away + ((across - 1) * width) / 2;
      const top = y + down * away + ((down - 1) * height) / 2;
      yield { left, top, cost: distance + order * 0.5, far: distance > 10 };
    }
}
