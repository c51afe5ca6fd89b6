"""The losses of a run as a page: curves that say their values where one points."""

from pathlib import Path

from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.losses import Losses, loss_records
from sgns_cli.vectors.plot.page import write_page

BODY = """\
<div id="chart" tabindex="0" role="application" aria-label="Losses: left and right go from report to report">
<div id="tip" role="status" hidden></div>
</div>
"""


def draw_loss_page(losses: Losses, path: Path) -> None:
    """Write `losses` as a page. Raises SgnsError if the file cannot be written."""
    write_page(
        path,
        title=losses.title,
        subtitle=losses.subtitle,
        styles=["page.css", "loss.css"],
        body=BODY,
        scripts=["loss.js"],
        data={
            "reports": list(loss_records(losses)),
            "epochs": losses.epoch_marks,
            "light": {"loss": style.TRAINING, "held_out_loss": style.HELD_OUT, "learning_rate": style.RATE},
            "dark": {
                "loss": style.TRAINING_DARK,
                "held_out_loss": style.HELD_OUT_DARK,
                "learning_rate": style.RATE_DARK,
            },
        },
    )
