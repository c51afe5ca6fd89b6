"""The formats that vectors can be exported in, and the way in: `export` writes one of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.folders import publish_file, publish_folder
from sgns_cli.vectors.choices import Dtype, FormatName, Kind, Rows
from sgns_cli.vectors.export import projector, static_model
from sgns_cli.vectors.export.selection import Selection, Written
from sgns_cli.vectors.export.tensor_files import write_safetensors
from sgns_cli.vectors.export.word_files import write_glove, write_word2vec, write_word2vec_binary
from sgns_cli.vectors.model import Model

GENSIM = "gensim.models.KeyedVectors.load_word2vec_format"


@dataclass(frozen=True)
class Format:
    """How a format is written and read; `files` are the names in it, where it is a folder."""

    write: Callable[[Path, Selection], Written]
    read: str  # {} is the path, as Python writes it
    dtypes: tuple[Dtype, ...] = ("float32",)
    files: tuple[str, ...] = ()
    rows: tuple[Rows, ...] = ("trained", "all")  # the first is the default


FORMATS: dict[FormatName, Format] = {
    "word2vec": Format(write_word2vec, GENSIM + "({})", ("float32", "float16")),
    "word2vec-bin": Format(write_word2vec_binary, GENSIM + "({}, binary=True)"),
    "glove": Format(write_glove, GENSIM + "({}, no_header=True)", ("float32", "float16")),
    "safetensors": Format(write_safetensors, "safetensors.numpy.load_file({})", ("float32", "float16", "int8")),
    "model2vec": Format(
        static_model.write_static_model,
        "model2vec.StaticModel.from_pretrained({}), or SentenceTransformer({})",
        ("float32", "float16", "int8"),
        static_model.FILES,
        ("all",),
    ),
    "projector": Format(projector.write_projector, "tensorboard --logdir {}", files=projector.FILES),
}


@dataclass(frozen=True)
class Exported:
    """What an export wrote: its shape, notes, and the line that reads it."""

    shape: tuple[int, int]
    notes: tuple[str, ...]
    read: str


def check_options(name: FormatName, rows: Rows | None, dtype: Dtype) -> None:
    """Raise UsageError for rows or numbers that a format does not have."""
    if dtype not in FORMATS[name].dtypes:
        able = [other for other, format in FORMATS.items() if dtype in format.dtypes]
        raise UsageError(f"{name} has no {dtype}", f"leave out --dtype, or choose one that has: {', '.join(able)}")
    if rows is not None and rows not in FORMATS[name].rows:
        raise UsageError(
            f"{name} has a row for each id of its tokenizer: --rows {rows} would leave some out",
            "leave out --rows, or choose another format",
        )


def export(
    model: Model,
    path: Path,
    name: FormatName,
    *,
    kind: Kind = "input",
    rows: Rows | None = None,
    dtype: Dtype = "float32",
    overwrite: bool = False,
) -> Exported:
    """Write a model's vectors to `path`: a file, which replaces one that is there, or a folder.

    A folder is replaced with `overwrite`, and only if nothing but an earlier export is in it. Raises SgnsError if it
    may not be, if there is nothing to write, or a number does not fit `dtype`; UsageError as `check_options` does.
    """
    check_options(name, rows, dtype)
    format = FORMATS[name]
    selection = Selection(model, kind, rows or format.rows[0], dtype)
    if len(selection.by_id) == 0:
        raise SgnsError(f"no token of {model.path} was trained", "add --rows all, or name another model")
    if format.files:
        if path.exists() and not (overwrite and _holds_only(path, format.files)):
            if overwrite:
                raise _in_the_way(path, name)
            raise SgnsError(f"{path} exists already", "choose another, or add --overwrite if it is an earlier export")
        with publish_folder(path, overwrite=overwrite) as hidden:
            written = format.write(hidden, selection)
    else:
        with publish_file(path) as hidden:
            written = format.write(hidden, selection)
    read = format.read.replace("{}", json.dumps(str(path), ensure_ascii=False))
    return Exported((written.rows, model.dim), written.notes, read)


def _holds_only(folder: Path, names: tuple[str, ...]) -> bool:
    return folder.is_dir() and all(entry.name in names and entry.is_file() for entry in folder.iterdir())


def _in_the_way(path: Path, name: FormatName) -> SgnsError:
    return SgnsError(f"{path} is no earlier {name} export: other things are in it", "choose another folder")
