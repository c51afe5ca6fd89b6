from pathlib import Path

from sgns_cli.vectors.model import Model


def open_word_vectors(path: Path, *, tensor: str | None = None, encoding: str | None = None) -> Model:
    raise NotImplementedError
