"""Text that matplotlib can draw: installed fonts for what DejaVu Sans lacks, and escapes for what no font has.

matplotlib is imported inside functions only: it is an extra.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sgns_cli.errors import SgnsError

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

FAMILY = "DejaVu Sans"  # matplotlib brings it along
WEIGHTS = ("normal", "bold")
PREFERRED = ("Noto Sans", "PingFang", "Hiragino", "Microsoft", "Yu Gothic", "Malgun", "Arial Unicode", "WenQuanYi")
NO_FONTS = ("LastResort", "Last Resort", ".")  # claim every character and draw boxes; the system's own


def require_matplotlib() -> None:
    """Raises SgnsError if matplotlib is not installed."""
    try:
        with quiet_matplotlib():
            import matplotlib  # noqa: F401
    except ImportError as error:
        raise SgnsError(
            "drawing a PNG needs matplotlib", "pip install 'sgns-cli[plot]', or draw a page: -o FILE.html"
        ) from error


@contextmanager
def quiet_matplotlib() -> Iterator[None]:
    """Without what matplotlib says on the side: that it looks for fonts, that a family has no bold."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class Fonts:
    """Families that together draw as much of `texts` as the installed fonts can."""

    def __init__(self, texts: Iterable[str]) -> None:
        wanted = {ord(character) for text in texts for character in text}
        self.families = [FAMILY]
        missing = wanted - _characters(FAMILY)
        for family in _other_families() if missing else ():
            if found := missing & _characters(family):
                self.families.append(family)
                missing -= found
            if not missing:
                break
        self.missing = missing

    def drawable(self, text: str) -> str:
        r"""`text` with what no font has as \u4e2d."""
        return "".join(
            character.encode("unicode_escape").decode("ascii") if ord(character) in self.missing else character
            for character in text
        )

    def properties(self, size: float, *, bold: bool = False) -> "FontProperties":
        """The fonts at `size` points."""
        from matplotlib.font_manager import FontProperties

        return FontProperties(family=self.families, size=size, weight=WEIGHTS[bold])


def _characters(family: str) -> set[int]:
    """What a family has in every weight that is drawn."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    files = {findfont(FontProperties(family=[family], weight=weight), fallback_to_default=False) for weight in WEIGHTS}
    return set.intersection(*(set(get_font(file).get_charmap()) for file in files))


def _other_families() -> list[str]:
    """The installed families by name, those made for many scripts first."""
    from matplotlib.font_manager import fontManager

    names = {font.name for font in fontManager.ttflist if font.style == "normal"} - {FAMILY}
    usable = sorted(name for name in names if not name.startswith(NO_FONTS))
    return sorted(usable, key=lambda name: not name.startswith(PREFERRED))
