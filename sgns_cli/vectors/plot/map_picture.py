"""A map of tokens as a PNG, drawn by matplotlib: 1600 x 1200 pixels, the same bytes for the same map.

Everything is drawn in pixels of the map's own field, so that labels can be placed (labels.py) where they are drawn.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sgns_cli.folders import publish_file
from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.labels import place_labels
from sgns_cli.vectors.plot.sheet import DPI, Sheet, open_sheet, short
from sgns_cli.vectors.plot.token_map import TokenMap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

FIELD = (56, 60, 1400, 1010)  # left, bottom, width and height of the map, in pixels
BAR = (1486, 110, 16, 420)  # of the colour bar
MARGIN = 0.06  # of the field, free around the points
RADII = {"query": 9.0, "neighbour": 6.0, "token": 4.5, "many": 2.5}  # pixels
EDGES = {"query": 2.2, "neighbour": 1.4, "token": 0.3}  # points
MANY = 2000  # points from which they are drawn small
MOST_LABELS = 1500  # that are tried
SIZES = {"query": 10.5, "neighbour": 8.0, "token": 6.5}  # of labels, in points
GROWN = ((40, 1.4), (150, 1.2))  # labels of so few points are so much larger
LINE = 1.25  # height of a line of text, in font sizes


def draw_map_picture(shown: TokenMap, path: Path) -> None:
    """Write `shown` as a PNG. Raises SgnsError if matplotlib is missing, or the file cannot be written."""
    texts = [shown.title, shown.subtitle, *(point.label for point in shown.points[:MOST_LABELS])]
    with publish_file(path) as hidden, open_sheet(shown.title, shown.subtitle, texts) as sheet:
        axes = sheet.add_field(FIELD)
        places = _in_field(shown.layout.places)
        _draw_spokes(axes, shown, places)
        radii = _draw_points(axes, shown, places)
        _draw_labels(sheet, axes, shown, places, radii)
        _draw_scale(sheet, shown)
        across, up = shown.axes
        left, bottom, width, height = FIELD
        if across:
            sheet.text(left + width / 2, bottom - 14, across, size=8, across="center", up="top")
            sheet.text(left - 14, bottom + height / 2, up, size=8, across="right", up="center", rotation=90)
        sheet.save(hidden)


def _in_field(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places in pixels of the field, to the same scale across and up."""
    size = np.array(FIELD[2:], dtype=np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    with np.errstate(divide="ignore"):
        scale = (size * (1 - 2 * MARGIN) / (high - low)).min()
    return np.asarray((places - (low + high) / 2) * (scale if np.isfinite(scale) else 0) + size / 2)


def _colour(query: int | None) -> str:
    return style.INK if query is None else style.QUERY_COLOURS[query % len(style.QUERY_COLOURS)]


def _ramp() -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("frequency", style.RAMP)


def _draw_spokes(axes: "Axes", shown: TokenMap, places: NDArray[np.float64]) -> None:
    """A faint line from each query to each of its neighbours."""
    from matplotlib.collections import LineCollection

    pairs = [(query, index) for index, point in enumerate(shown.points) for query, _ in point.near]
    if pairs:
        lines = [(places[query], places[index]) for query, index in pairs]
        colours = [_colour(query) for query, _ in pairs]
        axes.add_collection(LineCollection(lines, colors=colours, linewidths=0.8, alpha=0.28, zorder=1))


def _draw_points(axes: "Axes", shown: TokenMap, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw the backdrop, then neighbours, then queries. Returns the radius of each in pixels, edges and all."""
    roles = [point.role for point in shown.points]
    radii = np.array([RADII["many" if role == "token" and len(roles) > MANY else role] for role in roles])
    ramp = _ramp().with_extremes(bad=style.UNKNOWN)
    for order, role in enumerate(("token", "neighbour", "query"), start=2):
        chosen = np.flatnonzero(np.array(roles) == role)[::-1]  # the most frequent last, on top
        points = [shown.points[index] for index in chosen.tolist()]
        shades = [shown.scale.shade(point) for point in points]
        axes.scatter(
            places[chosen, 0],
            places[chosen, 1],
            s=(2 * radii[chosen] * 72 / DPI) ** 2,
            c=[np.nan if shade is None else shade for shade in shades],
            cmap=ramp,
            vmin=0,
            vmax=1,
            plotnonfinite=True,
            edgecolors="white" if role == "token" else [_colour(point.owner) for point in points],
            linewidths=0 if role == "token" and len(roles) > MANY else EDGES[role],
            zorder=order,
        )
    return radii + np.array([EDGES[role] for role in roles]) * DPI / 72 / 2


def _draw_labels(
    sheet: Sheet, axes: "Axes", shown: TokenMap, places: NDArray[np.float64], radii: NDArray[np.float64]
) -> None:
    from matplotlib.patheffects import withStroke

    texts = [sheet.fonts.drawable(point.short) for point in shown.points[:MOST_LABELS]]
    roles = [point.role for point in shown.points[:MOST_LABELS]]
    grown = next((factor for few, factor in GROWN if len(shown.points) <= few), 1.0)
    in_points = {role: size * grown for role, size in SIZES.items()}
    properties = {role: sheet.fonts.properties(size, bold=role == "query") for role, size in in_points.items()}
    boxes = []
    for text, role in zip(texts, roles, strict=True):
        width, height, descent = sheet.extent(text, properties[role])
        line = in_points[role] * DPI / 72
        below = max(descent, line * (LINE - 1))
        boxes.append((width, max(height - descent, line * 0.75) + below, below))
    sizes = np.array([box[:2] for box in boxes])
    wanted = sum(role != "token" for role in roles)
    field_width, field_height = FIELD[2:]
    crowded = len(shown.points) > MANY
    for label in place_labels(
        places, radii, sizes, width=field_width, height=field_height, wanted=wanted, crowded=crowded
    ):
        point, role = shown.points[label.index], roles[label.index]
        colour = _colour(point.owner)
        if label.line_to is not None:
            (x, y), (end_x, end_y) = places[label.index], label.line_to
            axes.plot([x, end_x], [y, end_y], color=colour, linewidth=0.5, alpha=0.7, zorder=1.5 if not crowded else 5)
        axes.text(
            label.x,
            label.y + boxes[label.index][2],
            texts[label.index],
            fontproperties=properties[role],
            color=colour,
            parse_math=False,
            path_effects=[withStroke(linewidth=1.6, foreground=style.GROUND)],
            zorder=6,
        )


def _draw_scale(sheet: Sheet, shown: TokenMap) -> None:
    """The bar that says what colours mean; nothing where all points are equally frequent."""
    scale = shown.scale
    if scale.low == scale.high:
        return
    left, bottom, width, height = BAR
    bar = sheet.add_field(BAR)
    gradient = np.linspace(0, 1, 256)[:, None]
    bar.imshow(gradient, extent=(0, width, 0, height), aspect="auto", cmap=_ramp(), origin="lower")
    rare, frequent = scale.ends
    for part in (0, 0.25, 0.5, 0.75, 1):
        value = rare * (frequent / rare) ** part
        rounded = value if part in (0, 1) else float(f"{value:.2g}")
        sheet.text(left + width + 8, bottom + part * height, short(rounded), size=7, up="center")
    sheet.text(left, bottom + height + 22, scale.title.replace(" in the ", "\nin the "), size=7)
