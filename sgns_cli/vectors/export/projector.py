"""A folder for TensorBoard's embedding projector.

    vectors.tsv              a line a point, numbers with tabs between
    metadata.tsv             token (as it is shown here), id and, where it is known, count; a header line
    projector_config.pbtxt   names the two, for `tensorboard --logdir FOLDER`

The projector shows 100,000 points at most, so no more are written: the most frequent tokens.
"""

from pathlib import Path

from sgns_cli.corpus.token_text import show
from sgns_cli.vectors.export.selection import Selection, Written

FILES = ("vectors.tsv", "metadata.tsv", "projector_config.pbtxt")
MOST_POINTS = 100_000
CONFIG = """embeddings {
  tensor_name: "sgns"
  tensor_path: "vectors.tsv"
  metadata_path: "metadata.tsv"
}
"""


def write_projector(folder: Path, selection: Selection) -> Written:
    """Write the files of the folder."""
    model = selection.model
    ids = selection.by_count
    tokens = {id: token for id in ids.tolist() if (token := model.tokenizer.token_bytes(id)) is not None}
    points = ids[[id in tokens for id in ids.tolist()]][:MOST_POINTS]
    counted = model.counts is not None
    line = b"\t".join([b"%.9g"] * model.dim) + b"\n"
    with (folder / "vectors.tsv").open("wb") as file:
        for piece in selection.pieces(points):
            file.writelines(line % tuple(row.tolist()) for row in piece)
    with (folder / "metadata.tsv").open("w", encoding="utf-8", newline="\n") as file:
        file.write("token\tid\tcount\n" if counted else "token\tid\n")
        for id in points.tolist():
            file.write(f"{show(tokens[id])}\t{id}" + (f"\t{model.count(id)}\n" if counted else "\n"))
    (folder / "projector_config.pbtxt").write_text(CONFIG, encoding="ascii")
    left_out = len(tokens) - len(points)
    note = f"the projector shows {MOST_POINTS} points: the {left_out} least frequent tokens are left out"
    return Written(len(points), (note,) if left_out else ())
