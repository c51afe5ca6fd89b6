from pathlib import Path

from sgns_cli.vectors.model import Model


def open_tensor_file(path: Path, *, tensor: str | None = None, encoding: str | None = None) -> Model:
    raise NotImplementedError
