"""A map of tokens as a page with zoom, hover and search."""

from pathlib import Path
from typing import Any

from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.page import write_page
from sgns_cli.vectors.plot.token_map import TokenMap

PLACES = 5  # significant digits of a place


def draw_map_page(shown: TokenMap, path: Path) -> None:
    """Write `shown` as a page. Raises SgnsError if the file cannot be written."""
    write_page(
        path,
        title=shown.title,
        subtitle=shown.subtitle,
        styles=["page.css", "map.css"],
        tools="map_tools.html",
        body="map.html",
        scripts=["labels.js", "map.js", "map_actions.js"],
        data=_map_data(shown),
    )


def _map_data(shown: TokenMap) -> dict[str, Any]:
    """The map by columns, an entry a point; `label`, `parts` and `near` by the numbers of the points that have them.

    `queries` is how many of the points, the first, are queries; `near` has pairs of one of those and the cosine.
    """
    points, scale = shown.points, shown.scale
    extent = float(abs(shown.layout.places).max()) or 1.0
    places = (shown.layout.places / extent).round(PLACES)
    shades = [scale.shade(point) for point in points]
    return {
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "token": [point.label for point in points],
        "label": {index: point.short for index, point in enumerate(points) if point.short != point.label},
        "id": [point.ids[0] if len(point.ids) == 1 else None for point in points],
        "parts": {index: point.ids for index, point in enumerate(points) if len(point.ids) > 1},
        "count": [point.count for point in points],
        "rank": [point.rank for point in points],
        "shade": [None if shade is None else round(shade, 3) for shade in shades],
        "near": {i: [[query, round(score, 6)] for query, score in p.near] for i, p in enumerate(points) if p.near},
        "queries": sum(point.role == "query" for point in points),
        "axes": shown.axes,
        "ends": [f"{end:,}" for end in scale.ends],
        "meaning": scale.title,
        "counted": scale.counted,
        "light": {"ramp": style.RAMP, "queries": style.QUERY_COLOURS, "unknown": style.UNKNOWN},
        "dark": {"ramp": style.RAMP_DARK, "queries": style.QUERY_COLOURS_DARK, "unknown": style.UNKNOWN},
    }
