"""Where labels go on a picture, so that none lies on another: greedily, the most important first.

Pixels from the lower left. Knows nothing of tokens or of matplotlib.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Where a label may lie as seen from its point, the best first: right, left, above, below, then the corners.
SIDES = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]
NEAR = (4.0,)  # pixels between the edge of a point and its label
FAR = (4.0, 14.0, 28.0, 44.0, 64.0, 90.0)  # of a label that has to be seen
GAP = 3.0  # pixels between two labels
HALO = np.array([-GAP, -GAP, GAP, GAP])  # around a label, where points are too near to it
LINED = 10.0  # from which distance on a line leads from the label to its point
CROWDED = 1  # points that a label which need not be seen may cover
COVERED_COST = 6.0  # pixels of distance that a label goes rather than cover a point
SIDE_COST = 0.5


@dataclass(frozen=True)
class Label:
    """The label of point `index`: its lower left corner, and the end of its leader line if it has one."""

    index: int
    x: float
    y: float
    line_to: tuple[float, float] | None


def place_labels(
    points: NDArray[np.float64],
    radii: NDArray[np.float64],
    sizes: NDArray[np.float64],
    *,
    width: float,
    height: float,
    wanted: int = 0,
    crowded: bool = False,
) -> list[Label]:
    """Labels of `sizes` [L, 2] for the first L of `points` [N, 2] on width x height pixels, the most important first.

    The first `wanted` may go far from their points and cover others; the rest are left out where there is no room.
    No two labels overlap, none leaves the picture, and none covers one of the first `wanted` points. `crowded`: there
    are too many of the other points to keep off them.
    """
    crowd = _Crowd(points[:0] if crowded else points, width, height)
    reach = radii[:wanted, None]
    kept_free = np.concatenate([points[:wanted] - reach, points[:wanted] + reach], axis=1)
    taken = np.zeros((0, 4))
    labels: list[Label] = []
    for index, (label_width, label_height) in enumerate(sizes.tolist()):
        x, y = points[index].tolist()
        if not (0 <= x <= width and 0 <= y <= height):
            continue
        others = np.delete(kept_free, index, axis=0) if index < wanted else kept_free
        best: tuple[float, NDArray[np.float64], float] | None = None
        for cost, distance, box in _candidates(x, y, radii[index], label_width, label_height, far=index < wanted):
            if best is not None and cost >= best[0]:
                break  # candidates come by rising cost, and covered points only add to it
            if box[0] < 0 or box[1] < 0 or box[2] > width or box[3] > height:
                continue
            if _meets(box, taken, GAP) or _meets(box, others, 0):
                continue
            covered = crowd.within(box + HALO)
            if index >= wanted and covered > CROWDED:
                continue
            if best is None or cost + COVERED_COST * covered < best[0]:
                best = (cost + COVERED_COST * covered, box, distance)
        if best is None:
            continue
        _, box, distance = best
        taken = np.concatenate([taken, box[None]])
        line_to = (min(max(x, box[0]), box[2]), min(max(y, box[1]), box[3])) if distance >= LINED else None
        labels.append(Label(index, float(box[0]), float(box[1]), line_to))
    return labels


def _candidates(
    x: float, y: float, radius: float, width: float, height: float, *, far: bool
) -> Iterator[tuple[float, float, NDArray[np.float64]]]:
    """Boxes [left, bottom, right, top] around a point with their costs and distances, by rising cost."""
    for distance in FAR if far else NEAR:
        for order, (across, up) in enumerate(SIDES):
            away = radius + distance
            if across and up:
                away *= 0.71  # on a circle
            left = x + across * away + (across - 1) * width / 2
            bottom = y + up * away + (up - 1) * height / 2
            yield distance + order * SIDE_COST, distance, np.array([left, bottom, left + width, bottom + height])


def _meets(box: NDArray[np.float64], others: NDArray[np.float64], gap: float) -> bool:
    apart = (others[:, :2] >= box[2:] + gap) | (others[:, 2:] <= box[:2] - gap)
    return bool((~apart.any(axis=1)).any())


class _Crowd:
    """How many points lie in a box, by sums over all pixels to the lower left."""

    def __init__(self, points: NDArray[np.float64], width: float, height: float) -> None:
        self.shape = (int(width) + 1, int(height) + 1)
        inside = ((points >= 0) & (points <= [width, height])).all(axis=1)
        pixels = points[inside].astype(np.int64)
        counts = np.zeros((self.shape[0] + 1, self.shape[1] + 1), dtype=np.int64)
        np.add.at(counts, (pixels[:, 0] + 1, pixels[:, 1] + 1), 1)
        self.sums = counts.cumsum(axis=0).cumsum(axis=1)

    def within(self, box: NDArray[np.float64]) -> int:
        left, bottom = (max(int(edge), 0) for edge in box[:2])
        right, top = (min(int(edge) + 1, size) for edge, size in zip(box[2:], self.shape, strict=True))
        sums = self.sums
        return int(sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom])
