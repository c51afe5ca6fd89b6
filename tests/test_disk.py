"""Full, read-only and failing disks at each place that writes: what is lost, what is said, and what helps."""

import contextlib
import errno
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from disk_cases import CASES, Faults, write_config, write_corpus, write_words
from disks import mounted, refusing

from sgns_cli import run_folder
from sgns_cli.corpus import rank_files
from sgns_cli.corpus.reader import spool
from sgns_cli.errors import SgnsError
from sgns_cli.training import run, trainer

FULL = ["init a sample", "tokenize words", "train", "resume", "embed mask", "embed safetensors", "export projector"]
OTHERS = ["tokenize words", "train", "embed mask", "export projector"]
MOST = 3  # changes of a command at which the disk refuses, evenly taken


@pytest.fixture(autouse=True)
def every_round_is_a_step(monkeypatch):
    monkeypatch.setattr(trainer, "SLICE_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("full", name) for name in FULL] + [(kind, name) for kind in ("read-only", "failing") for name in OTHERS],
)
def test_a_disk_that_refuses_loses_nothing(sgns, tmp_path, name, kind):
    faults = Faults(CASES[name], kind, tmp_path / "disk", sgns)
    for number in sorted({1 + index * (faults.changes - 1) // (MOST - 1) for index in range(MOST)}):
        faults.examine(number)


# ------------------------------------------------------------------ in mid-training, on a disk of its own


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte, in memory; skips where the tests may not mount one."""
    with mounted(tmp_path / "small", size="1m") as folder:
        yield folder


def fill(folder):
    with (folder.parent / "small" / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def make_read_only(folder):
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)


def make_roomy(folder):
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
    (folder / "filler").unlink(missing_ok=True)


@pytest.mark.parametrize(("spoil", "words"), [(fill, "No space left"), (make_read_only, "Read-only")])
def test_a_disk_that_refuses_in_mid_training_costs_what_came_after_the_last_step(
    sgns, tmp_path, small_disk, monkeypatch, spoil, words
):
    """The folder of the run is the disk: the lock of the run lies beside it."""
    write_config(tmp_path)
    assert sgns("train", "c.yaml", "-o", "undisturbed").code == 0
    save = run.save_step

    def save_and_spoil(folder, step, *arguments, **more):
        saved = save(folder, step, *arguments, **more)
        if step == 1:
            spoil(small_disk)
        return saved

    monkeypatch.setattr(run, "save_step", save_and_spoil)
    result = sgns("train", "c.yaml", "-o", "small")
    assert (result.code, result.out) == (1, "")
    assert re.search(rf"error: cannot write small.*: {words}", result.err), result.err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    whole = sorted(path.name for path in run_folder.steps(small_disk))
    assert whole == ["step-00000000", "step-00000001"]
    assert sgns("info", "small/step-00000001").code == 0
    make_roomy(small_disk)
    assert sgns("train", "c.yaml", "-o", "small", "--resume").code == 0
    last, expected = (run_folder.steps(tmp_path / name)[-1] for name in ("small", "undisturbed"))
    for name in (run_folder.MODEL, run_folder.TRAINING):
        assert (last / name).read_bytes() == (expected / name).read_bytes()
    assert not [path for path in small_disk.iterdir() if path.name.startswith(".")]


# ------------------------------------------------------------------ what can be done without


KERNEL = """
import resource, sys
from pathlib import Path
from sgns_cli.training import compiled

def twice(value):
    return 2 * value

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

kept = compiled._cache_folder()
assert compiled.is_kept(), kept
limit(100)
assert compiled.jit(twice)(21) == 42
assert not [path for path in kept.rglob("*") if path.is_file()], "debris"
limit(resource.RLIM_INFINITY)
assert compiled.jit(twice)(21) == 42
files = [path for path in kept.rglob("*") if path.is_file()]
assert {path.suffix for path in files} == {".nbi", ".nbc"}
for path in files:
    path.write_bytes(path.read_bytes()[:20])
assert compiled.jit(twice)(21) == 42
loaded = compiled.jit(twice)
assert loaded(21) == 42
assert loaded.stats.cache_hits, "what was damaged is kept anew"
"""


def test_a_cache_of_kernels_that_cannot_be_written_or_is_damaged_costs_a_compilation(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "kernel.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["full", "read-only", "failing"])
def test_a_cache_of_rank_files_that_cannot_be_written_is_done_without(monkeypatch, tmp_path, kind):
    data = b"what is published"
    monkeypatch.setattr(rank_files, "_download", lambda address: data)
    monkeypatch.setattr(rank_files, "cache_folders", lambda: [tmp_path / "cache"])
    files = [("https://example.org/x", hashlib.sha256(data).hexdigest())]
    with refusing(tmp_path, kind, 1) as disk:
        assert rank_files.fetch_rank_files("x", files) == {files[0][0]: data}
    assert disk.refuses
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size != len(data)]


def test_standard_input_that_cannot_be_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        refusing(tmp_path, "full", 1),
        pytest.raises(SgnsError, match=f"cannot keep standard input in {tmp_path}: File too large") as refused,
    ):
        spool(io.BytesIO(bytes(10_000)))
    assert refused.value.hint.startswith("set TMPDIR to a folder with room")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    with pytest.raises(SgnsError, match="cannot keep standard input in a temporary file: No usable temporary"):
        spool(io.BytesIO(b"text"))


def test_standard_input_that_cannot_be_read_is_no_fault_of_the_disk():
    class Broken(io.RawIOBase):
        def read(self, size=-1):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")

    with pytest.raises(SgnsError, match="cannot read standard input: Is a directory"):
        spool(Broken())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    [
        "tokenize corpus.txt --encoding whitespace",
        "tokenize corpus.txt --encoding whitespace -o t",
        "neighbors dog",
        "analogy dog cat ball",
        "similarity dog cat",
        "embed dog",
        "evaluate --similarity pairs.txt",
        "plot --json",
        "info runs/words --json",
        "info",
    ],
)
def test_output_that_takes_no_more_is_an_error_of_every_command(sgns, tmp_path, monkeypatch, command):
    write_words(tmp_path)
    write_corpus(tmp_path)
    (tmp_path / "pairs.txt").write_text("dog\tcat\t1\nball\tcat\t2\nthe\tcat\t3\n")
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        result = sgns(*command.split())
        monkeypatch.undo()
    assert result.code == 1
    assert result.err.splitlines()[-2:] == [
        "error: cannot write to standard output: No space left on device",
        "hint: make room, or send it somewhere else",
    ]
