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

PARTS = Path(__file__).parent


def write_page(
    path: Path,
    *,
    title: str,
    subtitle: str,
    styles: Sequence[str],
    body: str,
    scripts: Sequence[str],
    data: dict[str, Any],
    tools: str | None = None,
) -> None:
    """Write one HTML file; `styles`, `tools`, `body` and `scripts` name files beside this one.

    Raises SgnsError if the file cannot be written.
    """
    filled = {
        "title": html.escape(title),
        "subtitle": html.escape(subtitle),
        "style": "".join(map(_part, styles)),
        "tools": "" if tools is None else _part(tools),
        "body": _part(body),
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
