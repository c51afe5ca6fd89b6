"""The sheet that pictures are drawn on: 1600 x 1200 pixels, a title, places in pixels from the lower left.

Whatever the user's own matplotlibrc says, and with no date or version in the file, so that equal input gives equal
bytes. matplotlib is imported inside functions only: it is an extra.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.fonts import Fonts, quiet_matplotlib, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties

WIDTH, HEIGHT, DPI = 1600, 1200, 150
TITLE = (56, 1144)  # where its line begins
SUBTITLE = (56, 1104)
RIGHT = 1560  # where both end at the latest
SMALLEST = 0.6  # of the size of a line that is too long, before its end is cut off

Box = tuple[float, float, float, float]  # left, bottom, width, height


@dataclass(frozen=True)
class Sheet:
    """A figure whose texts and fields are placed in pixels."""

    figure: "Figure"
    fonts: Fonts
    renderer: "RendererAgg"  # to measure text with

    def add_field(self, box: Box) -> "Axes":
        """An empty field whose own coordinates are its pixels."""
        left, bottom, width, height = box
        axes = self.figure.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))
        axes.set_xlim(0, width)
        axes.set_ylim(0, height)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_facecolor(style.GROUND)
        for edge in axes.spines.values():
            edge.set_visible(False)
        return axes

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float,
        bold: bool = False,
        colour: str = style.FAINT,
        across: Literal["left", "center", "right"] = "left",
        up: Literal["bottom", "center", "top", "baseline"] = "baseline",
        rotation: float = 0,
    ) -> None:
        """Write a text as it stands: no mathematics between dollar signs."""
        self.figure.text(
            x / WIDTH,
            y / HEIGHT,
            self.fonts.drawable(text),
            fontproperties=self.fonts.properties(size, bold=bold),
            color=colour,
            ha=across,
            va=up,
            rotation=rotation,
            parse_math=False,
        )

    def line(
        self, x: float, y: float, text: str, *, size: float, bold: bool = False, colour: str = style.FAINT
    ) -> None:
        """Write a line from x to RIGHT at most: smaller where it is long, and cut where it is longer still."""
        room = RIGHT - x
        width = self.width(text, size, bold=bold)
        if width > room:
            size *= max(SMALLEST, room / width)
        while len(text) > 1 and self.width(text, size, bold=bold) > room:
            text = text[: int(len(text) * 0.9) - 1] + "…"
        self.text(x, y, text, size=size, bold=bold, colour=colour)

    def width(self, text: str, size: float, *, bold: bool = False) -> float:
        """Of a text at `size` points, in pixels."""
        return self.extent(self.fonts.drawable(text), self.fonts.properties(size, bold=bold))[0]

    def extent(self, text: str, font: "FontProperties") -> tuple[float, float, float]:
        """The width of a text, its height, and how much of that is below its line, in pixels."""
        width, height, below = self.renderer.get_text_width_height_descent(text, font, ismath=False)  # type: ignore[no-untyped-call]
        return float(width), float(height), float(below)

    def save(self, path: Path) -> None:
        self.figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})


@contextmanager
def open_sheet(title: str, subtitle: str, texts: Iterable[str]) -> Iterator[Sheet]:
    """Yield a sheet with its title on it, and fonts for `texts`. Raises SgnsError if matplotlib is missing."""
    require_matplotlib()
    with quiet_matplotlib():
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
        from matplotlib.figure import Figure

    with quiet_matplotlib(), matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI, facecolor=style.PAPER)
        FigureCanvasAgg(figure)
        sheet = Sheet(figure, Fonts([title, subtitle, *texts]), RendererAgg(WIDTH, HEIGHT, DPI))  # type: ignore[no-untyped-call]
        sheet.line(*TITLE, title, size=14, bold=True, colour=style.INK)
        sheet.line(*SUBTITLE, subtitle, size=8.5)
        yield sheet


def short(value: float) -> str:
    """A number in few characters: 16,187; 2,500,000 -> 2.5M."""
    for unit, letter in ((1e9, "B"), (1e6, "M")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:,.0f}"
