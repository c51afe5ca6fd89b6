"""Commands that write, each on a disk that refuses at one of its changes: what must be there then, and what is said.

`tests/test_disk.py` runs a part of them, `tests/faults/disk.py` all.
"""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from conftest import WORD_COUNTS, Result, bpe_counts, bpe_tokenizer, word_tokenizer, write_run
from corpora import write_ranks
from disks import Kind, refusing

from sgns_cli import run_folder
from sgns_cli.cli import main
from sgns_cli.files import checksum

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 8, min_count: 2, subsample_threshold: 1e-2, positions: learned, context_length: 7}
train: {epochs: 1}
run: {checkpoint_minutes: 1.0e-9, log_seconds: 1.0e-9}
"""  # a step for each round, where the loop looks at the clock after each: see test_disk.py
HINTS = {"full": "free some space", "read-only": "choose a folder that you may write to", "failing": "look after the"}
CLOCKS = ("metrics.jsonl", "state.json")  # their seconds differ from run to run
TREE = dict[str, bytes | None]
Sgns = Callable[..., Result]


def write_corpus(folder: Path) -> None:
    lines = (" ".join(f"w{line * place % (place + 3)}" for place in range(12)) for line in range(250))
    (folder / "corpus.txt").write_text("\n".join(lines))
    os.utime(folder / "corpus.txt", (1e9, 1e9))  # the name of its token folder goes by its time


def write_rank_corpus(folder: Path) -> None:
    write_corpus(folder)
    write_ranks(folder)


def write_config(folder: Path) -> None:
    write_corpus(folder)
    (folder / "c.yaml").write_text(CONFIG)


def write_stopped(folder: Path) -> None:
    """A run that lacks its last step."""
    write_config(folder)
    assert main(["train", "c.yaml", "--threads", "1", "-q"]) == 0
    shutil.rmtree(run_folder.steps(folder / "runs" / "c")[-1])


def write_other(folder: Path) -> None:
    """A run of another seed, which is to be replaced, or begun from."""
    write_config(folder)
    assert main(["train", "c.yaml", "--threads", "1", "-q", "--set", "train.seed=2"]) == 0


def write_export(folder: Path) -> None:
    write_bpe(folder)
    assert main(["export", "-o", "out", "--format", "model2vec", "--vectors", "context", "-q"]) == 0


def write_words(folder: Path) -> None:
    write_run(folder / "runs" / "words", word_tokenizer(), np.array(WORD_COUNTS), positions="learned")


def write_bpe(folder: Path) -> None:
    write_run(folder / "runs" / "bpe", bpe_tokenizer(), bpe_counts())


def write_nothing(folder: Path) -> None:
    pass


@dataclass(frozen=True)
class Case:
    prepare: Callable[[Path], None]
    command: str

    @property
    def arguments(self) -> list[str]:
        return self.command.split()


CASES = {
    "init": Case(write_corpus, "init new/c.yaml --source corpus.txt"),
    "init a sample": Case(write_nothing, "init new/c.yaml"),
    "tokenize words": Case(write_corpus, "tokenize corpus.txt -o out/t --encoding whitespace"),
    "tokenize ranks": Case(write_rank_corpus, "tokenize corpus.txt -o t --encoding ranks/small.tiktoken"),
    "tokenize trained": Case(write_corpus, "tokenize corpus.txt -o t --train-vocab 300"),
    "train": Case(write_config, "train c.yaml --threads 1"),
    "resume": Case(write_stopped, "train c.yaml --threads 1 --resume"),
    "overwrite": Case(write_other, "train c.yaml --threads 1 --overwrite"),
    "init from": Case(write_other, "train c.yaml --threads 1 -o runs/new --init-from runs/c"),
    "embed npy": Case(write_words, "embed dog -o x.npy"),
    "embed mask": Case(write_words, "embed dog -o x.npy --context-length 3"),
    "embed safetensors": Case(write_words, "embed dog -o x.safetensors"),
    "plot html": Case(write_words, "plot -o x.html"),
    "plot png": Case(write_words, "plot -o x.png"),
    "plot loss html": Case(write_stopped, "plot --loss -o x.html"),
    "plot loss png": Case(write_stopped, "plot --loss -o x.png"),
    "export model2vec": Case(write_bpe, "export -o out --format model2vec"),
    "export again": Case(write_export, "export -o out --format model2vec --overwrite"),
} | {
    f"export {name}": Case(write_words, f"export -o out --format {name}")
    for name in ("word2vec", "word2vec-bin", "glove", "safetensors", "projector")
}


@dataclass
class Faults:
    """A command in a folder, again and again from the start."""

    case: Case
    kind: Kind
    folder: Path
    sgns: Sgns

    def __post_init__(self) -> None:
        self.begin()
        with refusing(self.folder, self.kind) as disk:
            assert self.sgns(*self.case.arguments).code == 0
        self.changes = disk.changes
        self.whole = tree(self.folder)

    def begin(self) -> TREE:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        os.chdir(self.folder)
        self.case.prepare(self.folder)
        return tree(self.folder)

    def examine(self, number: int) -> Result:
        """Let the disk refuse from this change on; see that nothing is lost, and that the hint helps."""
        before = self.begin()
        with refusing(self.folder, self.kind, number):
            result = self.sgns(*self.case.arguments)
        after = tree(self.folder)
        hidden = {name for name in after if is_hidden(name)}
        if self.kind != "read-only":  # a step too many, of whose hiding the disk is not sure, keeps its files
            assert all(re.match(r"runs/(c|new)/.step-", name) for name in hidden), hidden
            assert not hidden or self.kind == "failing", hidden
        config = "runs/c/config.yaml"
        replaced = after.get(config) == self.whole.get(config) != before.get(config)  # the new run has its first step
        for name, data in before.items():  # only a step that is too many goes, and metrics grow
            gone = name not in self.whole or (replaced and name.startswith("runs/c"))
            assert after.get(name) in (data, self.whole.get(name)) or name.endswith("metrics.jsonl") or gone, name
        self._check_visible({name: after[name] for name in after.keys() - before.keys() - hidden})
        if result.code == 0:  # all that was left was to take a lock away
            self._check_whole(after.keys() - hidden)
            return result
        self.check_words(result)
        if any(name not in after for name in self.whole):  # else only the folder's own fsync was refused
            resume = result.err.endswith("--resume\n")  # which goes without these
            command = re.sub("--overwrite|--init-from [^ ]+", "", self.case.command) + " --resume"
            again = self.sgns(*(command.split() if resume else self.case.arguments))
            assert again.code == 0, again
            self._check_whole(tree(self.folder).keys())
        return result

    def check_words(self, result: Result) -> None:
        """What cannot be written, by a name that people know, and what to do."""
        assert (result.code, result.out) == (1, ""), result
        what, hint = result.err.splitlines()[-2:]
        reasons = "File too large|Read-only file system|Input/output error"
        found = re.fullmatch(
            rf"error: cannot write (.+): ({reasons})(?:; the last good checkpoint is (.+)|; .* is as it was)?", what
        )
        assert found, what
        assert not is_hidden(found[1]), what
        assert hint.startswith(f"hint: {HINTS[self.kind]}"), hint
        run = "runs/new" if "runs/new" in self.case.arguments else "runs/c"
        steps = [str(step) for step in run_folder.steps(Path(run))]
        assert found[3] is None or found[3] in steps[-2:], what  # of the last one the folder's fsync may be missing
        replaced = what.endswith(" is as it was")
        assert found[3] or replaced or len(steps) < 2 or f"{run}/step-" not in found[1], what
        assert "Traceback" not in result.err

    def _check_visible(self, found: TREE) -> None:
        """What can be seen is as it is in the end, or a whole step that went again."""
        for name, data in found.items():
            if name.endswith("metrics.jsonl"):
                assert data is not None
                assert all(json.loads(line) for line in data.splitlines())
            elif name.endswith("state.json"):
                folder = (self.folder / name).parent
                for file, expected in json.loads(data or b"")["checksums"].items():
                    assert checksum(folder / file) == expected
            elif name in self.whole:
                assert data == self.whole[name], name
            else:
                assert re.match(r"runs/(c|new)/step-\d+", name), name

    def _check_whole(self, names: set[str]) -> None:
        """The folder is as the undisturbed command leaves it."""
        assert set(names) == set(self.whole)
        for name, data in self.whole.items():
            if data is not None and not name.endswith(CLOCKS):
                assert (self.folder / name).read_bytes() == data, name


def tree(folder: Path) -> TREE:
    """All that is in a folder by its name there; the bytes of files."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") and part != ".tokens" for part in name.split("/"))
