"""The token folder: written in pieces, mapped whole, and refused when it is not what was written."""

import json
import shutil

import numpy as np
import pytest
from corpora import change_meta

from sgns_cli.corpus import token_store
from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.corpus.token_store import dtype_for, open_token_store, write_token_store
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.token_folder import is_token_folder

RANKS = {bytes([byte]): byte for byte in range(256)}
FACTS = {"bytes": 6, "sources": ["x.txt"], "options": {}, "skipped": [], "notes": []}


def bpe(highest=255):
    special = {"<|end|>": highest} if highest > 255 else {}
    return BpeTokenizer("bytes", ".", RANKS, special)


def ids(*values):
    return np.array(values, dtype=np.uint32)


def lengths(*values):
    return np.array(values, dtype=np.int64)


@pytest.fixture
def folder(tmp_path):
    """Documents [1 2 3], [3 3], [255]; two empty ones are dropped."""
    folder = tmp_path / "tokens"
    with write_token_store(folder, dtype_for(256)) as writer:
        writer.add(ids(1, 2, 3, 3, 3), lengths(0, 3, 2))
        writer.add(ids(), lengths(0))
        writer.add(ids(255), lengths(1))
        writer.finish(bpe(), FACTS)
    return folder


def test_what_was_written_is_read(folder):
    store = open_token_store(folder, verify=True)
    assert store.tokens.dtype == np.uint16
    assert store.tokens.tolist() == [1, 2, 3, 3, 3, 255]
    assert store.documents.dtype == np.int64
    assert store.documents.tolist() == [0, 3, 5, 6]
    assert store.n_documents == 3
    assert store.counts.dtype == np.int64
    assert (len(store.counts), store.counts[[1, 2, 3, 255]].tolist()) == (256, [1, 1, 3, 1])
    assert store.tokenizer().fingerprint == bpe().fingerprint
    with pytest.raises(ValueError, match="read-only"):
        store.tokens[0] = 7


def test_the_files_are_the_contracts(folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        "counts.npy",
        "documents.npy",
        "meta.json",
        "tokenizer",
        "tokens.bin",
    ]
    assert (folder / "tokens.bin").read_bytes() == bytes([1, 0, 2, 0, 3, 0, 3, 0, 3, 0, 255, 0])
    assert np.load(folder / "documents.npy").tolist() == [0, 3, 5, 6]
    meta = json.loads((folder / "meta.json").read_text())
    assert {**meta, "checksums": None, "checksum": None} == {
        "format_version": 1,
        "tokens": 6,
        "documents": 3,
        "types": 4,
        "dtype": "uint16",
        "tokenizer": {"kind": "bpe", "name": "bytes", "n_vocab": 256, "fingerprint": bpe().fingerprint},
        "checksums": None,
        "checksum": None,
        **FACTS,
    }
    files = ["counts.npy", "documents.npy", "tokenizer/ranks.json", "tokenizer/ranks.tiktoken", "tokens.bin"]
    assert sorted(meta["checksums"]) == files


@pytest.mark.parametrize(("highest", "dtype"), [(65535, "uint16"), (65536, "uint32")])
def test_ids_take_two_bytes_where_they_suffice(tmp_path, highest, dtype):
    tokenizer = bpe(highest)
    with write_token_store(tmp_path / "t", dtype_for(tokenizer.n_vocab)) as writer:
        writer.add(ids(0, highest), lengths(2))
        writer.finish(tokenizer, FACTS)
    store = open_token_store(tmp_path / "t")
    assert store.meta["dtype"] == dtype
    assert store.tokens.tolist() == [0, highest]
    assert (tmp_path / "t" / "tokens.bin").stat().st_size == 2 * np.dtype(dtype).itemsize


def test_first_ids_become_final_ids(tmp_path, monkeypatch):
    monkeypatch.setattr(token_store, "TOKENS_AT_ONCE", 2)
    with write_token_store(tmp_path / "t", np.dtype("<u4")) as writer:
        writer.add(ids(0, 1, 2, 2, 1, 2), lengths(3, 3))
        writer.finish(WhitespaceTokenizer(["c", "b", "a"]), FACTS, new_ids=ids(2, 1, 0))
    store = open_token_store(tmp_path / "t", verify=True)
    assert store.tokens.tolist() == [2, 1, 0, 0, 1, 0]
    assert store.counts.tolist() == [3, 2, 1]
    assert store.meta["dtype"] == "uint16"
    assert sorted(path.name for path in (tmp_path / "t").iterdir() if path.suffix == ".raw") == []


def test_the_fingerprint_is_the_content(folder, tmp_path):
    def made(tokens, documents, tokenizer, sources):
        path = tmp_path / "other"
        with write_token_store(path, dtype_for(tokenizer.n_vocab), overwrite=True) as writer:
            writer.add(ids(*tokens), lengths(*documents))
            writer.finish(tokenizer, {**FACTS, "sources": sources})
        return open_token_store(path).fingerprint

    same = open_token_store(folder).fingerprint
    assert made([1, 2, 3, 3, 3, 255], [3, 2, 1], bpe(), ["elsewhere"]) == same
    assert made([1, 2, 3, 3, 3, 254], [3, 2, 1], bpe(), ["x.txt"]) != same
    assert made([1, 2, 3, 3, 3, 255], [3, 3], bpe(), ["x.txt"]) != same
    assert made([1, 2, 3, 3, 3, 255], [3, 2, 1], bpe(300), ["x.txt"]) != same


def test_a_failed_writer_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), write_token_store(tmp_path / "t", np.dtype("<u2")) as writer:
        writer.add(ids(1), lengths(1))
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_not_overwritten_unasked(folder):
    with pytest.raises(SgnsError, match="exists already"), write_token_store(folder, np.dtype("<u2")):
        pass
    assert open_token_store(folder, verify=True).n_documents == 3


def test_a_token_folder_is_known_by_its_files(folder, tmp_path):
    assert is_token_folder(folder)
    assert not is_token_folder(tmp_path)
    assert not is_token_folder(folder / "tokens.bin")
    with pytest.raises(SgnsError, match="is no token folder"):
        open_token_store(tmp_path)


DAMAGES = {
    "tokens cut": lambda folder: (folder / "tokens.bin").write_bytes(b"\1\0"),
    "documents gone": lambda folder: (folder / "documents.npy").unlink(),
    "documents cut": lambda folder: (folder / "documents.npy").write_bytes(b"\x93NUMPY"),
    "documents of another kind": lambda folder: np.save(folder / "documents.npy", np.zeros(4)),
    "documents that do not fit": lambda folder: np.save(folder / "documents.npy", np.array([0, 3, 5, 7])),
    "counts gone": lambda folder: (folder / "counts.npy").unlink(),
    "counts that do not fit": lambda folder: np.save(folder / "counts.npy", np.ones(256, np.int64)),
    "counts too few": lambda folder: np.save(folder / "counts.npy", np.ones(6, np.int64)),
    "a pickle": lambda folder: np.save(folder / "counts.npy", np.array([{}]), allow_pickle=True),
    "meta no JSON": lambda folder: (folder / "meta.json").write_text("{"),
    "meta empty": lambda folder: (folder / "meta.json").write_text('{"format_version": 1}'),
    "meta of no tokens": lambda folder: change_meta(folder, tokens=0),
    "another dtype": lambda folder: change_meta(folder, dtype="float32"),
    "no checksums": lambda folder: change_meta(folder, checksums={}),
    "a later format": lambda folder: change_meta(folder, format_version=2),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_when_opened(folder, damage):
    DAMAGES[damage](folder)
    with pytest.raises(SgnsError, match=str(folder)) as caught:
        open_token_store(folder)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["tokens.bin", "documents.npy", "counts.npy", "tokenizer/ranks.tiktoken"])
def test_any_changed_byte_is_found_when_verified(folder, name):
    data = bytearray((folder / name).read_bytes())
    data[-3] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(SgnsError, match="damaged"):
        open_token_store(folder, verify=True)


def test_a_lost_tokenizer_is_found_when_verified(folder):
    shutil.rmtree(folder / "tokenizer")
    assert open_token_store(folder).n_documents == 3
    with pytest.raises(SgnsError, match=r"tokenizer/ranks\.json is not what was written"):
        open_token_store(folder, verify=True)
