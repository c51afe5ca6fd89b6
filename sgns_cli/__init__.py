"""Skip-gram embeddings for the tokens of language models: the command line `sgns`, and `load` for Python.

>>> import sgns_cli
>>> model = sgns_cli.load("runs/kjv")  # doctest: +SKIP
>>> model.neighbors("silver", k=3)  # doctest: +SKIP
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sgns_cli.vectors.choices import Kind

if TYPE_CHECKING:
    from sgns_cli.vectors.embeddings import Embeddings

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def load(
    path: str | Path | None = None,
    *,
    vectors: Kind = "input",
    centre: bool = False,
    tensor: str | None = None,
    encoding: str | None = None,
) -> "Embeddings":
    """Open a run, one of its steps, or a word2vec, GloVe or .safetensors file; without a path the latest run here.

    `vectors` chooses the matrix, `centre` subtracts the mean row before vectors are compared, `tensor` and `encoding`
    name the matrix and the tokens of a .safetensors file. Raises SgnsError if there is none or it is damaged. Needs no
    torch.
    """
    from sgns_cli.vectors.embeddings import Embeddings
    from sgns_cli.vectors.opening import open_model, resolve_model

    resolved, _ = resolve_model(None if path is None else Path(path))
    return Embeddings(open_model(resolved, tensor=tensor, encoding=encoding), vectors=vectors, centre=centre)
