"""Any matrix of a .safetensors file whose rows are tokens: the token embeddings of a language model.

The file says nothing of the tokens, so `encoding` does: an encoding of tiktoken, a rank file, or a list of one token a
line such as BERT's vocab.txt. Memory-mapped; float16 and bfloat16 become float32 row by row.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sgns_cli.corpus.tokenizer import Tokenizer, encoding_names, load_tokenizer, open_encoding
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.files import MOST_TOKENIZER, read_whole
from sgns_cli.tensors import map_tensors
from sgns_cli.user_folders import expand_home
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.names import tokens_of

RANK_FILE = ".tiktoken"
FLOATING = (np.float16, np.float32, np.float64, np.uint16)  # the last is raw bfloat16
LISTED = 8  # tensors that an error names


def open_tensor_file(path: Path, *, tensor: str | None, encoding: str | None) -> Model:
    """Open the matrix named `tensor`, or the only one there is, with row i as token id i of `encoding`.

    Raises SgnsError if the file has no such matrix or is damaged, UsageError without an encoding.
    """
    matrix = _matrix(path, tensor)
    if encoding is None:
        raise UsageError(
            f"{path} does not say which tokens its rows are",
            "add --encoding NAME, a rank FILE.tiktoken, or a file of one token a line such as vocab.txt",
        )
    tokenizer, notes = _tokens(encoding)
    if tokenizer.n_vocab != len(matrix):
        sizes = f"the matrix has {len(matrix)} rows, {encoding} has {tokenizer.n_vocab} ids"
        notes = (*notes, f"{sizes}: look whether they belong together")
    return Model(path=path, embeddings=matrix, load_tokenizer=lambda: tokenizer, notes=notes)


def _matrix(path: Path, name: str | None) -> NDArray[Any]:
    tensors = map_tensors(path).items()
    matrices = {key: array for key, array in tensors if array.ndim == 2 and array.size and array.dtype in FLOATING}
    largest = sorted(matrices.items(), key=lambda named: -named[1].shape[0])  # the tokens' is among the first
    listed = [f"{key} {list(array.shape)}" for key, array in largest]
    among = ", ".join([*listed[:LISTED], *(["..."] if len(listed) > LISTED else [])])
    if not matrices:
        raise SgnsError(f"{path} has no matrix of floating-point numbers", "name another file")
    if name is None and len(matrices) > 1:
        raise UsageError(f"{path} has {len(matrices)} matrices", f"choose one with --tensor: {among}")
    if name is not None and name not in matrices:
        raise SgnsError(f"{path} has no matrix of floating-point numbers called {name!r}", f"it has {among}")
    return matrices[name if name is not None else next(iter(matrices))]


def _tokens(encoding: str) -> tuple[Tokenizer, tuple[str, ...]]:
    path = expand_home(encoding)
    if path.is_dir() and encoding not in encoding_names():
        return load_tokenizer(path), ()
    if encoding in encoding_names() or path.suffix == RANK_FILE or not path.is_file():
        try:
            return open_encoding(encoding), ()
        except UsageError as error:
            message = error.message.replace("tokenizer.encoding", "--encoding")
            hint = "name an encoding (`sgns info --encodings`), a rank FILE.tiktoken, or a file of one token a line"
            raise UsageError(message, hint) from error
    if path.suffix == ".json":
        raise SgnsError(f"{path} is no list of tokens", "write its tokens in the order of ids into a file, one a line")
    try:
        lines = read_whole(path, at_most=MOST_TOKENIZER).split(b"\n")
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path") from error
    if not lines[-1]:
        lines.pop()
    return tokens_of([line.removesuffix(b"\r") for line in lines])
