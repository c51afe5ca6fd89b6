"""The losses of a run as a page: curves that say their values where one points."""

from pathlib import Path
from typing import Any

from sgns_cli.vectors.plot import style
from sgns_cli.vectors.plot.losses import Losses, loss_records
from sgns_cli.vectors.plot.page import write_page


def draw_loss_page(losses: Losses, path: Path) -> None:
    """Write `losses` as a page. Raises SgnsError if the file cannot be written."""
    write_page(
        path,
        title=losses.title,
        subtitle=losses.subtitle,
        styles=["page.css", "loss.css"],
        body="loss.html",
        scripts=["loss.js"],
        data=_loss_data(losses),
    )


def _loss_data(losses: Losses) -> dict[str, Any]:
    """`reports`: the records of --json, at least one, a loss null where there was nothing new to say.

    `epochs`: pairs of an epoch, from 1, and the tokens seen at its end. `light` and `dark`: the colour of each curve,
    by the name that its values have in a report.
    """
    return {
        "reports": list(loss_records(losses)),
        "epochs": losses.epoch_marks,
        "light": {"loss": style.TRAINING, "held_out_loss": style.HELD_OUT, "learning_rate": style.RATE},
        "dark": {"loss": style.TRAINING_DARK, "held_out_loss": style.HELD_OUT_DARK, "learning_rate": style.RATE_DARK},
    }
