"""A page of its own: markup, style, script and data in one HTML file that asks nothing of a network.

page.html is the frame of every page, page.css its looks; a page adds its own. Data goes in as JSON, in a form that no
token can break out of.
"""

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sgns_cli.folders import publish_file
from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.token_map import TokenMap

PARTS = Path(__file__).parent
LONGEST = 40  # characters of a label; the tip has all of a token
PLACES = 5  # significant digits of a place


def draw_map_page(shown: TokenMap, path: Path) -> None:
    """Write `shown` as a page with zoom, hover and search. Raises SgnsError if the file cannot be written."""
    write_page(
        path,
        title=shown.title,
        subtitle=shown.subtitle,
        styles=["page.css", "map.css"],
        tools=_part("map_tools.html"),
        body=_part("map.html"),
        scripts=["labels.js", "map.js", "map_actions.js"],
        data=_map_data(shown),
    )


def write_page(
    path: Path,
    *,
    title: str,
    subtitle: str,
    styles: Sequence[str],
    body: str,
    scripts: Sequence[str],
    data: dict[str, Any],
    tools: str = "",
) -> None:
    """Write one HTML file; `styles` and `scripts` name files beside this one, `tools` and `body` are markup."""
    filled = {
        "title": html.escape(title),
        "subtitle": html.escape(subtitle),
        "style": "".join(map(_part, styles)),
        "tools": tools,
        "body": body,
        "data": embed_json(data),
        "script": "".join(map(_part, scripts)),
    }
    page = re.sub(r"{{(\w+)}}", lambda match: filled[match[1]], _part("page.html"))
    with publish_file(path) as hidden:
        hidden.write_bytes(page.encode("utf-8", "backslashreplace"))  # half a surrogate, as file names have


def embed_json(value: object) -> str:
    r"""JSON for a <script> element: ASCII only, and no "<" that could end the element or begin a comment.

    >>> embed_json("</script>")
    '"\\u003c/script>"'
    """
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _map_data(shown: TokenMap) -> dict[str, Any]:
    """The map by columns, an entry a point; `near` and `parts` only of the points that have them."""
    points, scale = shown.points, shown.scale
    extent = float(abs(shown.layout.places).max()) or 1.0
    places = (shown.layout.places / extent).round(PLACES)
    shades = [scale.shade(point) for point in points]
    ends = [f"{end:,}" for end in ((scale.low, scale.high) if scale.counted else (scale.high, scale.low))]
    return {
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "token": [point.label for point in points],
        "label": {i: p.label[: LONGEST - 1] + "…" for i, p in enumerate(points) if len(p.label) > LONGEST},
        "id": [point.ids[0] if len(point.ids) == 1 else None for point in points],
        "parts": {index: point.ids for index, point in enumerate(points) if len(point.ids) > 1},
        "count": [point.count for point in points],
        "rank": [point.rank for point in points],
        "shade": [None if shade is None else round(shade, 3) for shade in shades],
        "near": {i: [[query, round(score, 6)] for query, score in p.near] for i, p in enumerate(points) if p.near},
        "queries": len(shown.queries),
        "axes": shown.axes,
        "ends": ends,
        "meaning": scale.title,
        "counted": scale.counted,
        "light": {"ramp": style.RAMP, "queries": style.QUERY_COLOURS, "unknown": style.UNKNOWN},
        "dark": {"ramp": style.RAMP_DARK, "queries": style.QUERY_COLOURS_DARK, "unknown": style.UNKNOWN},
    }
