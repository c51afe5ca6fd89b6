"""Token folders and runs with some bytes of some file changed, under all that opens them.

A `stranger` makes the checksums right again after the change; whoever damages by chance does not, and is found out.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from conftest import WORD_COUNTS, Written, bpe_counts, bpe_tokenizer, word_tokenizer, write_run

from fuzz.choices import Choices, Files, damage, other_values, read_files, written
from fuzz.targets import ask, embed, in_memory, refused, use_tokenizer
from sgns_cli.config import ModelConfig, TrainConfig
from sgns_cli.corpus.report import describe_corpus
from sgns_cli.corpus.token_store import TokenStore, dtype_for, open_token_store, write_token_store
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.files import CHECKSUM, checksum, sealed, write_json
from sgns_cli.run_folder import METRICS, MODEL, STATE, TOKENIZER, TRAINING, read_state
from sgns_cli.tensors import map_tensors
from sgns_cli.token_folder import META
from sgns_cli.training.problem import make_problem
from sgns_cli.vectors.query import resolve_id, resolve_query
from sgns_cli.vectors.report import describe_model
from sgns_cli.vectors.run import open_run

FACTS = {"bytes": 60, "sources": ["x.txt"], "options": {}, "skipped": [], "notes": []}
ENOUGH = 2**24  # bytes of memory for folders of a few kilobytes


@cache
def token_folders() -> list[dict[str, bytes]]:
    """One of words and one of a BPE, as files."""
    return [_token_folder(word_tokenizer()), _token_folder(bpe_tokenizer())]


def _token_folder(tokenizer: Tokenizer) -> dict[str, bytes]:
    ids = np.array([0, 1, 2, 1, 0, 8], dtype=np.uint32)
    with TemporaryDirectory() as name:
        folder = Path(name) / "tokens"
        with write_token_store(folder, dtype_for(tokenizer.n_vocab)) as writer:
            writer.add(ids, np.array([3, 1, 2], dtype=np.int64))
            writer.finish(tokenizer, FACTS)
        return read_files(folder)


def token_folder(data: bytes) -> None:
    choices = Choices(data)
    whole = choices.pick(token_folders())
    stranger = choices.number(2)
    files = damage(whole, choices)
    check_tokens(whole, resealed(files) if stranger else files)


def check_tokens(whole: Files, files: Files) -> None:
    """A token folder of which some files may not be those of the `whole` one."""
    with written(files) as folder:
        for verify in (False, True):
            with refused(), in_memory(ENOUGH):
                store = open_token_store(folder, verify=verify)
                if verify:
                    honest = files.get(META) != whole[META] or all(files.get(name) == whole[name] for name in whole)
                    assert honest, "it accepts a file that is not what was written"
                    _is_a_corpus(store)
        with refused(), in_memory(ENOUGH):
            describe_corpus(folder)


def _is_a_corpus(store: TokenStore) -> None:
    """What training takes for granted."""
    assert store.tokens.max() < len(store.counts)
    assert (np.bincount(store.tokens, minlength=len(store.counts)) == store.counts).all()
    assert all(start < end for start, end in pairwise(store.documents.tolist()))
    use_tokenizer(store.tokenizer())
    problem = make_problem(store.tokens, store.documents, store.counts, ModelConfig(min_count=1), TrainConfig(epochs=1))
    assert problem.total_rounds > 0


def resealed(files: Files) -> dict[str, bytes]:
    """A token folder whose checksums are right, where its meta.json can have any."""
    try:
        meta = json.loads(files[META])
        meta["checksums"] = {name: hashlib.sha256(files[name]).hexdigest() for name in meta["checksums"]}
        meta.pop(CHECKSUM, None)
        return {**files, META: json.dumps(sealed(meta)).encode()}
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError):
        return dict(files)


@cache
def runs() -> list[dict[str, bytes]]:
    """One of words and one of a BPE, without checksums and with them."""
    with TemporaryDirectory() as name:
        words = write_run(Path(name) / "words", word_tokenizer(), np.array(WORD_COUNTS), positions="learned")
        bpe = write_run(Path(name) / "bpe", bpe_tokenizer(), bpe_counts(), positions="sinusoidal", dim=2)
        for run in (words, bpe):
            (run.path / "config.yaml").write_text("data: {sources: [a.txt]}\n")
            (run.path / "metrics.jsonl").write_text('{"step": 10, "seconds": 1.5, "device": "cpu", "threads": 2}\n')
        plain = [read_files(run.path) for run in (words, bpe)]
        for run in (words, bpe):
            _seal(run)
        return [*plain, *(read_files(run.path) for run in (words, bpe))]


def _seal(run: Written) -> None:
    """Write checksums into a run, as training does."""
    log = run.path / METRICS
    tensors = {**map_tensors(run.step / MODEL), **map_tensors(run.step / TRAINING)}
    told = {
        "tensors": {name: zlib.crc32(tensor.tobytes()) for name, tensor in tensors.items()},
        "tokenizer": {file.name: checksum(file) for file in sorted((run.path / TOKENIZER).iterdir())},
        "log": {"bytes": log.stat().st_size, "sha256": checksum(log)},
    }
    write_json(run.step / STATE, sealed({**read_state(run.step), **told}))


def run_folder(data: bytes) -> None:
    choices = Choices(data)
    check_run(damage(choices.pick(runs()), choices))


def check_run(files: Files) -> None:
    with written(files, "run") as folder:
        with refused(), in_memory(ENOUGH):
            model = open_run(folder)
            use_tokenizer(model.tokenizer)
            queries = []
            for resolve, asked in ((resolve_query, "the"), (resolve_query, " silver"), (resolve_id, 3)):
                try:
                    queries.append(resolve(model, asked))
                except SgnsError:
                    continue
            ask(model, queries)
            embed(model, ["the dog", "silver", ""])
        with refused(), in_memory(ENOUGH):
            describe_model(folder)


def every_value() -> Iterator[tuple[str, Callable[[], None]]]:
    """Every value of JSON in these folders as something else: the name of the file, and the check of its folder."""

    def of_tokens(whole: Files, name: str, make: Callable[[], bytes]) -> None:
        check_tokens(whole, resealed({**whole, name: make()}))

    def of_run(whole: Files, name: str, make: Callable[[], bytes]) -> None:
        check_run({**whole, name: make()})

    folders = [(of_tokens, whole) for whole in token_folders()] + [(of_run, whole) for whole in runs()]
    for check, whole in folders:
        for name in whole:
            if name.endswith((".json", ".safetensors")):
                yield from ((name, partial(check, whole, name, make)) for make in other_values(name, whole[name]))


FOLDER_TARGETS: dict[str, Callable[[bytes], None]] = {"token_folder": token_folder, "run_folder": run_folder}
