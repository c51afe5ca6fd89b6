"""What tests/fuzz/run.py fuzzes at length, for a moment: under hypothesis, and under every input that was found.

What each target promises stands at it in tests/fuzz/.
"""

import io
import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from fuzz import run
from fuzz.choices import written
from fuzz.folder_targets import every_value, resealed, token_folders
from fuzz.inputs import inputs_like
from fuzz.seeds import BYTES, SEEDS, TARGETS, tensor_file
from hypothesis import HealthCheck, given, settings

from sgns_cli.config_file import load_config
from sgns_cli.corpus.token_store import open_token_store
from sgns_cli.corpus.tokenizer import load_tokenizer, read_rank_file
from sgns_cli.errors import SgnsError
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.question_files import read_analogies, read_similarities
from sgns_cli.vectors.tensor_file import open_tensor_file

EXAMPLES = {"token_folder": 20, "run_folder": 20}  # of others 50
TERABYTE = 2**40

FOUND = [  # what ended in a traceback, filled memory or the screen, or broke another promise
    ("config_file", b"data: {sources: [a]}\nmodel: {dim: 0x" + b"f" * 5000 + b"}"),  # ValueError: too many digits
    ("config_file", b'data: {sources: ["\\UFFFFFFFF"]}'),  # OverflowError of chr
    ("config_file", b"data: {sources: [!!timestamp x]}"),  # AttributeError of PyYAML
    ("config_file", b"? " + b"a" * 5000 + b"\n: 1"),  # an error as long as the key
    ("config_overrides", b"\0model.dim=" + b"9" * 5000),  # likewise
    ("rank_file", b"+dGg= 256 \ndGhl\n257 dGhlcg== 258\0"),  # what the fast parser alone took
    ("rank_file", b'+\0{"pattern": ".", "special_tokens": {"\\ud800": 300}}'),  # UnicodeEncodeError
    ("rank_file", b'+\0{"pattern": "[", "name": "' + b"x" * 5000 + b'"}'),  # an error as long as the name
    ("rank_file", b'+\0{"pattern": "(?:(?:(?:(?=a)x){1000}){1000}){1000}"}'),  # gigabytes
    ("query", b"\0\0\0\0the \x1b[31m"),  # a note that is not printable
    ("word_vectors", b"a" + b" 1" * 4000 + b"\n" * 4000),  # 64 MB of memory for 12 kB
    ("tensor_file", tensor_file(b'{"e":{"dtype":"F32","shape":[3,2' + b",1" * 70 + b'],"data_offsets":[0,24]}}')),
    ("tensor_file", tensor_file(b'{"e":{"dtype":"F32","shape":[1e400,2],"data_offsets":[0,24]}}')),  # OverflowError
    ("tensor_file", tensor_file(b'{"e":{"dtype":"F32","shape":[0,1180591620717411303424],"data_offsets":[0,0]}}')),
]


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name: str) -> None:
    @settings(max_examples=EXAMPLES.get(name, 50), database=None, suppress_health_check=list(HealthCheck))
    @given(inputs_like(SEEDS[name]))
    def some(data: bytes) -> None:
        TARGETS[name](data)

    some()


@pytest.mark.parametrize(("name", "data"), FOUND, ids=[f"{number}-{name}" for number, (name, _) in enumerate(FOUND)])
def test_what_was_found(name: str, data: bytes) -> None:
    TARGETS[name](data)


def test_some_of_the_values_in_folders() -> None:
    """All of them are tried by tests/fuzz/run.py."""
    for name, check in islice(every_value(), 0, None, 149):
        try:
            check()
        except Exception as error:
            raise AssertionError(f"a value in {name}") from error


def npy(*numbers: int) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(numbers, "<i8"))
    return file.getvalue()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokens.bin", np.array([0, 1, 2, 1, 0, 9], "<u2").tobytes()),  # of nine words
        ("tokens.bin", np.array([0, 1, 2, 1, 0, 7], "<u2").tobytes()),  # not the one that was counted
        ("documents.npy", npy(0, 4, 3, 6)),
        ("documents.npy", npy(0, 3, 2**40, 6)),
        ("counts.npy", npy(2, 2, 1, 0, 0, 0, 0, 2, -1)),
        ("counts.npy", npy(*range(9)).replace(b"(9,)", b"(9, ")),  # numpy reads the header as Python: TokenError
        ("counts.npy", npy(*range(9)).replace(b"(9,)", b"(9if")),  # a SyntaxWarning, which people see
        ("counts.npy", npy(*range(9)).replace(b"9,), }                  ", b"9223372036854775808,)}")),  # OverflowError
        ("counts.npy", npy(*range(9)).replace(b"(9,), }           ", b"(100000000000,), }")),  # more than memory
    ],
)
def test_a_strangers_token_folder_is_no_corpus_by_its_checksums_alone(file: str, content: bytes) -> None:
    whole = token_folders()[0]
    assert file in whole and whole[file] != content
    with written(resealed({**whole, file: content})) as folder, pytest.raises(SgnsError, match="damaged"):
        open_token_store(folder, verify=True)


READERS: dict[str, Callable[[Path], object]] = {
    "c.yaml": lambda path: load_config(path, []),
    "r.tiktoken": read_rank_file,
    "r.json": lambda path: read_rank_file(path.with_suffix(".tiktoken")),
    "vocabulary.txt": lambda path: load_tokenizer(path.parent),
    "vocab.txt": lambda path: open_tensor_file(path.with_name("v.safetensors"), tensor=None, encoding=str(path)),
    "a.txt": read_analogies,
    "s.txt": read_similarities,
    "words.txt": open_model,
}
BESIDE = {
    "r.tiktoken": BYTES,
    "r.json": b'{"pattern": "."}',
    "v.safetensors": tensor_file(b'{"e":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}').partition(b"\n\n")[2],
}


def place(folder: Path, name: str) -> Path:
    """Where a file goes, with those beside it that its reader needs."""
    for other, content in BESIDE.items():
        if name in ("r.tiktoken", "r.json", "vocab.txt") and other != name:
            (folder / other).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("begin", [b"", b"3 2\n", b"a 1 2\n" * 100, b"3 2\na 1 2\n"], ids=["", "head", "rows", "both"])
@pytest.mark.parametrize("name", READERS)
def test_a_terabyte_is_refused_before_it_is_read(name: str, begin: bytes, tmp_path: Path) -> None:
    path = place(tmp_path, name)
    path.write_bytes(begin)
    try:
        os.truncate(path, TERABYTE)  # all hole: it takes no room
    except OSError:
        pytest.skip("this file system has no files of that length")
    with pytest.raises(SgnsError):
        READERS[name](path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
@pytest.mark.parametrize("name", [name for name in READERS if name not in ("c.yaml", "a.txt", "s.txt")])
def test_nobody_waits_for_a_pipe(name: str, tmp_path: Path) -> None:
    path = place(tmp_path, name)
    os.mkfifo(path)
    with pytest.raises(SgnsError):
        READERS[name](path)


def test_the_harness_finds_what_is_broken(monkeypatch, tmp_path: Path) -> None:
    """Without atheris, which this has to do without: a target that raises fails, another one does not."""
    monkeypatch.setattr(run, "has_atheris", lambda: False)

    def breaks(data: bytes) -> None:
        assert not data

    monkeypatch.setitem(SEEDS, "breaks", [b"x"])
    monkeypatch.setitem(TARGETS, "breaks", breaks)
    run.fuzz("token_text", [], seconds=0)
    with pytest.raises(AssertionError):
        run.fuzz("breaks", [], seconds=0)
