"""The losses of a run as a PNG: over the tokens seen, with the ends of epochs and, lightly, the learning rate."""

from pathlib import Path

from sgns_cli.folders import publish_file
from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.losses import Losses, Report
from sgns_cli.vectors.plot.sheet import HEIGHT, WIDTH, open_sheet, short

FIELD = (110, 110, 1360, 900)  # left, bottom, width and height of the chart, in pixels
FEW = 60  # reports up to which each gets a dot
SPARE = 0.08  # of the height, free above and below the curves


def draw_loss_picture(losses: Losses, path: Path) -> None:
    """Write `losses` as a PNG. Raises SgnsError if matplotlib is missing, or the file cannot be written."""
    reports = losses.reports
    with publish_file(path) as hidden, open_sheet(losses.title, losses.subtitle, []) as sheet:
        left, bottom, width, height = FIELD
        axes = sheet.figure.add_axes((left / WIDTH, bottom / HEIGHT, width / WIDTH, height / HEIGHT))
        rates = axes.twinx()
        end = reports[-1].tokens_seen or 1
        for one in (axes, rates):
            for edge in one.spines.values():
                edge.set_visible(False)
            one.tick_params(length=0, labelsize=8.5, labelcolor=style.FAINT, pad=6)
            one.margins(y=SPARE)
            one.set_xlim(-0.02 * end, 1.02 * end)
        axes.set_facecolor(style.GROUND)
        axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
        axes.set_axisbelow(True)
        marker = "o" if len(reports) <= FEW else ""
        rates.plot(*_curve(reports, "learning_rate"), color=style.RATE, linewidth=1.1, linestyle=(0, (4, 3)))
        rates.set_ylim(bottom=0)
        rates.grid(visible=False)
        for name, colour, dots in (("loss", style.TRAINING, marker), ("held_out_loss", style.HELD_OUT, "o")):
            axes.plot(*_curve(reports, name), color=colour, linewidth=2, marker=dots, markersize=5)
        for epoch, seen in losses.epoch_marks:
            axes.axvline(seen, color="#cfd6de", linewidth=0.8, linestyle=(0, (1, 2)), zorder=0.5)
            axes.annotate(
                f"epoch {epoch}" if epoch == losses.epoch_marks[0][0] else str(epoch),
                (seen, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                color=style.FAINT,
                fontsize=7,
            )
        axes.xaxis.set_major_formatter(lambda value, _: short(value))
        sheet.text(left + width / 2, bottom - 62, "tokens seen, over all epochs", size=9, across="center")
        names = (("training loss", style.TRAINING), ("held-out loss", style.HELD_OUT), ("learning rate", style.FAINT))
        x = left + width - 30.0
        for name, colour in reversed(names):
            sheet.text(x, bottom + height + 46, name, size=9.5, bold=True, colour=colour, across="right")
            x -= sheet.width(name, 9.5, bold=True) + 36
        sheet.save(hidden)


def _curve(reports: list[Report], name: str) -> tuple[list[int], list[float]]:
    """Tokens seen and values, of the reports that have one."""
    known = [(report.tokens_seen, getattr(report, name)) for report in reports if getattr(report, name) is not None]
    return [seen for seen, _ in known], [value for _, value in known]
