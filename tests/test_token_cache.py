"""Which token folders are kept, used again, built anew or refused."""

import io
import json
import os
import shutil

import pytest
from corpora import GIVES_UP, TEXT, TRAINED, WHITESPACE, data, documents, write_hard_pattern
from processes import holding

from sgns_cli.config import TokenizerConfig, TrainTokenizerConfig
from sgns_cli.corpus import token_cache
from sgns_cli.corpus.build import build_token_folder
from sgns_cli.corpus.token_cache import cached_token_folder
from sgns_cli.corpus.token_store import open_token_store
from sgns_cli.corpus.tokenizer import open_encoding
from sgns_cli.errors import SgnsError, UsageError


def test_a_folder_with_skipped_documents_is_not_trained_on_unless_that_is_wanted(tmp_path, ranks):
    give_up = write_hard_pattern(ranks)
    (tmp_path / "a.txt").write_text(f"one\n{GIVES_UP}\n")
    for _ in range(2):  # built, and found in the cache
        with pytest.raises(SgnsError, match=r"1 document was skipped, document 2 of .*a\.txt: the tokenizer gave up"):
            cached_token_folder(data(tmp_path / "a.txt"), give_up, tmp_path / "cache")
    store = cached_token_folder(data(tmp_path / "a.txt", errors="replace"), give_up, tmp_path / "cache")
    assert store.n_documents == 1
    build_token_folder(data(tmp_path / "a.txt"), give_up, tmp_path / "out")
    with pytest.raises(SgnsError, match="1 document was skipped") as caught:
        cached_token_folder(data(tmp_path / "out"), TokenizerConfig(), tmp_path / "cache")
    assert "data.errors=replace" in caught.value.hint
    store = cached_token_folder(data(tmp_path / "out", errors="replace"), TokenizerConfig(), tmp_path / "cache")
    assert store.folder == tmp_path / "out"


@pytest.fixture
def built(monkeypatch):
    """The folders that were built, not found."""
    folders = []

    def note(data, tokenizer, folder, **options):
        folders.append(folder)
        return build_token_folder(data, tokenizer, folder, **options)

    monkeypatch.setattr(token_cache, "build_token_folder", note)
    return folders


def test_the_same_corpus_is_tokenized_once(text, tmp_path, built):
    first = cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    again = cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    assert first.folder == again.folder
    assert first.folder.parent == tmp_path / ".tokens"
    assert len(built) == 1
    assert documents(again)[1] == [b"the", b"cat"]


def test_a_relative_path_is_the_same_corpus(text, tmp_path, built, monkeypatch):
    cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    monkeypatch.chdir(tmp_path)
    cached_token_folder(data("text.txt"), WHITESPACE, tmp_path / ".tokens")
    assert len(built) == 1


def test_whatever_decides_the_tokens_decides_the_folder(text, ranks, tmp_path, built):
    other = tmp_path / "other.txt"
    other.write_text(TEXT, encoding="utf-8")
    corpora = [data(text), data(other), data(text, other), data(other, text)]
    corpora += [data(text, lowercase=True), data(text, document="file"), data(text, errors="replace")]
    for corpus in corpora:
        cached_token_folder(corpus, WHITESPACE, tmp_path / ".tokens")
    for config in (ranks, TRAINED, TokenizerConfig(train=TrainTokenizerConfig(vocab_size=270, pattern="lines"))):
        cached_token_folder(data(text), config, tmp_path / ".tokens")
    assert len(set(built)) == len(built) == len(corpora) + 3
    beside = tmp_path / "ranks" / "small.json"
    beside.write_text(json.dumps({"pattern": "."}))
    cached_token_folder(data(text), ranks, tmp_path / ".tokens")
    assert len(set(built)) == len(corpora) + 4


def test_a_changed_file_is_read_again(text, tmp_path, built):
    cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    status = text.stat()
    text.write_text(TEXT.replace("dog", "god"), encoding="utf-8")
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, same time
    store = cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    assert b"god" in documents(store)[0]
    os.utime(text, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))
    cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    assert len(set(built)) == 3


@pytest.mark.parametrize("damage", ["tokens", "meta", "tokenizer"])
def test_a_damaged_folder_is_built_again(text, tmp_path, built, damage):
    store = cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    before = store.fingerprint
    name = {"tokens": "tokens.bin", "meta": "meta.json", "tokenizer": "tokenizer/vocabulary.txt"}[damage]
    content = bytearray((store.folder / name).read_bytes())
    content[0] ^= 1
    (store.folder / name).write_bytes(content)
    again = cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    assert built == [store.folder] * 2
    assert open_token_store(again.folder, verify=True).fingerprint == before


def test_a_folder_without_meta_is_built_again(text, tmp_path, built):
    store = cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    (store.folder / "meta.json").unlink()
    cached_token_folder(data(text), WHITESPACE, tmp_path / ".tokens")
    assert len(built) == 2


def test_standard_input_is_known_by_its_content(tmp_path, built):
    for content in (b"a b", b"a b", b"a c"):
        store = cached_token_folder(data("-"), WHITESPACE, tmp_path / ".tokens", stdin=io.BytesIO(content))
        assert [b" ".join(document) for document in documents(store)] == [content]
    assert len(built) == 2


def test_a_token_folder_is_used_as_it_is(text, ranks, tmp_path, built):
    made = build_token_folder(data(text), ranks, tmp_path / "tokens")
    for config in (TokenizerConfig(), ranks):
        store = cached_token_folder(data(tmp_path / "tokens"), config, tmp_path / ".tokens")
        assert (store.folder, store.fingerprint) == (tmp_path / "tokens", made.fingerprint)
    assert built == []
    for config in (WHITESPACE, TRAINED):
        with pytest.raises(UsageError, match="another tokenizer"):
            cached_token_folder(data(tmp_path / "tokens"), config, tmp_path / ".tokens")
    with pytest.raises(UsageError, match=r"data\.lowercase"):
        cached_token_folder(data(tmp_path / "tokens", lowercase=True), TokenizerConfig(), tmp_path / ".tokens")


def test_a_token_folder_of_a_trained_bpe_fits_the_config_that_made_it(text, tmp_path):
    build_token_folder(data(text), TRAINED, tmp_path / "tokens")
    store = cached_token_folder(data(tmp_path / "tokens"), TRAINED, tmp_path / ".tokens")
    assert store.tokenizer().n_vocab == 270
    other = TokenizerConfig(train=TrainTokenizerConfig(vocab_size=271, pattern="words"))
    with pytest.raises(UsageError, match="another tokenizer"):
        cached_token_folder(data(tmp_path / "tokens"), other, tmp_path / ".tokens")


def test_a_damaged_token_folder_is_refused(text, tmp_path):
    store = build_token_folder(data(text), WHITESPACE, tmp_path / "tokens")
    content = bytearray((store.folder / "tokens.bin").read_bytes())
    content[0] ^= 1
    (store.folder / "tokens.bin").write_bytes(content)
    with pytest.raises(SgnsError, match="damaged"):
        cached_token_folder(data(tmp_path / "tokens"), TokenizerConfig(), tmp_path / ".tokens")


def test_an_unknown_encoding_is_refused_before_anything_is_written(text, tmp_path):
    with pytest.raises(UsageError, match="unknown encoding"):
        cached_token_folder(data(text), TokenizerConfig(encoding="cl100k"), tmp_path / ".tokens")
    with pytest.raises(UsageError, match="unknown encoding"):
        build_token_folder(data(text), TokenizerConfig(encoding="cl100k"), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


def test_open_encoding_has_no_vocabulary_for_whitespace():
    with pytest.raises(UsageError, match="whitespace"):
        open_encoding("whitespace")


def test_a_folder_that_another_process_builds_is_waited_for(text, tmp_path):
    cache = tmp_path / "cache"
    folder = cached_token_folder(data(text), WHITESPACE, cache).folder
    shutil.rmtree(folder)
    reports = []
    with holding(folder) as other:
        assert other.stdout.readline() == b"held\n"

        def report(progress):
            reports.append(progress.stage)
            if progress.stage == "waiting":
                other.stdin.close()

        assert cached_token_folder(data(text), WHITESPACE, cache, progress=report).folder == folder
    assert reports == ["waiting", "tokens"]
    assert [path.name for path in cache.iterdir()] == [folder.name]


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(text, tmp_path):
    cache = tmp_path / "cache"
    for name in (".dead.incomplete", ".dead.old.incomplete", ".living.incomplete"):
        (cache / name).mkdir(parents=True)
    with holding(cache / "living") as other:
        assert other.stdout.readline() == b"held\n"
        folder = cached_token_folder(data(text), WHITESPACE, cache).folder
        there = {path.name for path in cache.iterdir()}
    assert there == {folder.name, ".living.incomplete", ".living.lock"}


def test_a_change_anywhere_in_a_file_is_seen(tmp_path):
    path = tmp_path / "long.txt"
    path.write_bytes(b"word " * 200_000)
    status = path.stat()
    before = cached_token_folder(data(path), WHITESPACE, tmp_path / "cache").folder
    with path.open("r+b") as file:
        file.seek(345_678)
        file.write(b"X")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cached_token_folder(data(path), WHITESPACE, tmp_path / "cache").folder != before
