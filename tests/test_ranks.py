"""Runs of several processes: as torchrun starts them, and what becomes of one whose processes are stopped or killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from problems import clustered_corpus
from processes import SECONDS, TRAINING, WAIT, forget_waiting, signal_while_it_waits
from safetensors.numpy import load_file

from sgns_cli import run_folder
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.training import ranks
from sgns_cli.training.ranks import ALONE, Place, find_place

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 16, min_count: 1, subsample_threshold: 0, positions: learned, context_length: 8}
train: {epochs: 5}
run: {log_seconds: 0.01}
"""
OFTEN = ("--set", "run.checkpoint_minutes=0.0001")  # a step whenever the loop looks at the clock
LONG = ("--set", "train.epochs=100000", "--set", "run.checkpoint_minutes=0.002")  # until it is stopped
COMMAND = ("train", "c.yaml", "--device", "cpu")
WAITS = WAIT.format(name="save_step")  # the leader, behind each step


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """A folder with a text of planted clusters, its tokens in the cache, and the kernel compiled."""
    here = tmp_path_factory.mktemp("ranks")
    ids, offsets, _ = clustered_corpus()
    lines = [" ".join(f"w{i}" for i in ids[a:b]) for a, b in pairwise(offsets)]
    (here / "corpus.txt").write_text("\n".join(lines) + "\n")
    (here / "c.yaml").write_text(CONFIG)
    return here


def environment(**more: object) -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("SGNS_", "COV"))}
    own = {"PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    return {**clean, **own, **{key: str(value) for key, value in more.items()}}


def torchrun(here: Path, processes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m", "sgns_cli"]
    command = [sys.executable, *launcher, *COMMAND, *arguments]
    return subprocess.run(command, cwd=here, env=environment(), capture_output=True, text=True, timeout=SECONDS)


class Run:
    """The processes of a run, started as torchrun does it, but each with its own output."""

    def __init__(self, here: Path, processes: int, *arguments: str, before: tuple[str, ...] = ()) -> None:
        """`before` is what each process does before it is sgns."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        here_alone = {"LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        programs = [TRAINING.format(before=code) for code in (*before, *[""] * processes)]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", programs[rank], *COMMAND, *arguments],
                cwd=here,
                env=environment(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=processes, **here_alone),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(processes)
        ]

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def ended(self) -> list[tuple[int, str]]:
        """Exit codes and what was said on stderr."""
        told = [process.communicate(timeout=SECONDS)[1] for process in self.processes]
        return [(process.returncode, text) for process, text in zip(self.processes, told, strict=True)]

    def wait_for_step(self, run: Path, after: int = 0) -> None:
        end = time.monotonic() + SECONDS
        while not any(run_folder.step_number(step) > after for step in steps(run)):
            assert time.monotonic() < end, "no checkpoint came"
            assert all(process.poll() is None for process in self.processes), self.ended()
            time.sleep(0.02)


def steps(run: Path) -> list[Path]:
    return run_folder.steps(run) if run.is_dir() else []


def arrays(run: Path) -> list[bytes]:
    step = steps(run)[-1]
    return [(step / name).read_bytes() for name in (run_folder.MODEL, run_folder.TRAINING)]


def state(run: Path) -> dict:
    return run_folder.read_state(steps(run)[-1])


def neighbours_in_cluster(run: Path) -> float:
    """The share of the seven nearest words of each that are of its own planted cluster."""
    vectors = load_file(steps(run)[-1] / run_folder.MODEL)["embeddings"]
    words = (run / run_folder.TOKENIZER / "vocabulary.txt").read_text().split()
    clusters = np.array([int(word[1:]) // 8 for word in words])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = unit @ unit.T
    np.fill_diagonal(similar, -1)
    return float((clusters[np.argsort(-similar, axis=1)[:, :7]] == clusters[:, None]).mean())


@pytest.fixture(scope="module")
def pair(corpus) -> Path:
    """A run of two processes, undisturbed."""
    done = torchrun(corpus, 2, "-o", "runs/pair", "--json")
    assert done.returncode == 0, done.stderr
    *reports, last = map(json.loads, done.stdout.splitlines())  # one process speaks
    assert last["run"] == "runs/pair"
    assert reports[-1]["tokens_seen"] == reports[-1]["tokens_total"] == 5 * 12 * 2970
    assert done.stderr.count("2 processes train together") == 1
    assert done.stderr.count("complete") == 1
    assert "Warning" not in done.stderr
    return corpus / "runs" / "pair"


def test_two_processes_find_the_clusters(pair):
    assert state(pair)["processes"] == 2
    assert neighbours_in_cluster(pair) == 1


def test_a_run_that_is_stopped_and_resumed_ends_with_the_same_bytes(corpus, pair):
    """Two times the same, too: the undisturbed run has no other bytes."""
    run = corpus / "runs" / "halted"
    forget_waiting(corpus)
    with Run(corpus, 2, "-o", "runs/halted", *OFTEN, before=(WAITS, "")) as halted:
        signal_while_it_waits(corpus, halted.processes[1], signal.SIGTERM)  # any of them may be asked
        ended = halted.ended()
    assert [code for code, _ in ended] == [130, 130]
    assert "interrupted and saved at step" in ended[0][1]
    assert ended[1][1] == ""
    assert 0 < state(run)["step"] < state(pair)["step"]
    with Run(corpus, 2, "-o", "runs/halted", "--resume") as resumed:
        assert [code for code, _ in resumed.ended()] == [0, 0]
    assert state(run)["step"] == state(pair)["step"]
    assert arrays(run) == arrays(pair)


def test_averages_of_some_rows_end_with_the_same_bytes_too(corpus):
    """The corpus has too few words to average some of them alone, but for these numbers: 4 rows, 4, 4, all."""
    some = "import sgns_cli.training.shares as shares; shares.ROUNDS = shares.ROWS = shares.MOST_ROUNDS = 4"
    for name, *arguments in [("whole",), ("cut", *OFTEN), ("cut", "--resume")]:
        waits = WAITS if len(arguments) > 1 else ""
        forget_waiting(corpus)
        with Run(corpus, 2, "-o", f"runs/{name}", *arguments, before=(f"{some}\n{waits}", some)) as run:
            if waits:
                signal_while_it_waits(corpus, run.processes[0], signal.SIGTERM)
            codes = [code for code, _ in run.ended()]
        assert codes == ([130, 130] if len(arguments) > 1 else [0, 0])
    assert arrays(corpus / "runs" / "whole") == arrays(corpus / "runs" / "cut")
    assert neighbours_in_cluster(corpus / "runs" / "whole") == 1


def test_four_processes_find_the_clusters(corpus):
    with Run(corpus, 4, "-o", "runs/four", "--threads", "1") as run:
        assert [code for code, _ in run.ended()] == [0] * 4
    assert state(corpus / "runs/four")["processes"] == 4
    assert neighbours_in_cluster(corpus / "runs/four") == 1


def test_a_killed_process_ends_the_others_with_a_word_and_the_run_can_be_resumed(corpus):
    """First one that follows is killed, and then, when the run goes on, the one that leads."""
    run, saved = corpus / "runs/killed", -1
    for victim, more in ((2, ()), (0, ("--resume",))):
        with Run(corpus, 3, "-o", "runs/killed", *LONG, *more) as group:
            group.wait_for_step(run, after=saved)
            group.processes[victim].kill()
            ended = group.ended()
        for rank, (code, text) in enumerate(ended):
            if rank != victim:
                assert code == 1, text
                assert f"error: another process of this run has ended (process {rank} of 3 sees: " in text
                assert "--resume goes on from the last checkpoint" in text
                assert "Traceback" not in text
        assert state(run)["step"] > saved
        saved = state(run)["step"]


def test_another_number_of_processes_cannot_resume(corpus, pair, sgns, monkeypatch):
    monkeypatch.chdir(corpus)
    step = steps(pair)[-1]
    told = json.loads((step / run_folder.STATE).read_text())
    assert told["processes"] == 2
    result = sgns("train", "c.yaml", "-o", "runs/pair", "--resume", "--set", "train.epochs=6", "--device", "cpu")
    assert result.code == 1
    assert "cannot resume runs/pair: it was started with 2 processes and this is one process" in result.err
    assert "start 2 with torchrun" in result.err
    assert sgns("train", "c.yaml", "-o", "runs/pair", "--resume", "--device", "cpu").code == 0  # it is complete


def test_a_mistake_is_told_once_and_ends_all(corpus):
    with Run(corpus, 2, "-o", "runs/mistake", "--set", "model.dimm=3") as run:
        ended = run.ended()
    assert [code for code, _ in ended] == [2, 2]
    assert "model.dimm" in ended[0][1]
    assert ended[1][1] == ""
    assert not (corpus / "runs/mistake").exists()


def test_tokens_that_another_process_does_not_see_end_all(corpus):
    """Of three processes two can go on; the leader says why they do not, and the other one is silent."""
    hide = "import sgns_cli.training.joint as joint\njoint.is_token_folder = lambda path: False"
    with Run(corpus, 3, "-o", "runs/unseen", before=("", hide, "")) as run:
        ended = run.ended()
    assert [code for code, _ in ended] == [1, 1, 1]
    assert "is not there" in ended[1][1]
    assert "process 1 of 3 cannot take part" in ended[0][1]
    assert ended[2][1] == ""
    assert not (corpus / "runs/unseen").exists()


def test_a_leader_that_fails_in_the_middle_keeps_nobody_waiting(corpus):
    fail = (
        "import sgns_cli.training.averaging as averaging\n"
        "def fail(*arguments): raise MemoryError\n"
        "averaging.Averaging.average = fail"
    )
    with Run(corpus, 2, "-o", "runs/failed", before=(fail, "")) as run:
        ended = run.ended()
    assert [code for code, _ in ended] == [1, 1]
    assert "not enough memory" in ended[0][1]
    assert "another process of this run has ended" in ended[1][1]


def test_a_process_knows_its_place_by_the_environment_of_torchrun():
    assert find_place({}) == ALONE
    told = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert find_place(told) == ALONE  # another program's: nobody could be reached
    assert find_place({**told, "MASTER_ADDR": "a", "MASTER_PORT": "1"}) == Place(5, 8, 1, 4)


def test_each_process_of_a_machine_has_a_device_of_its_own(monkeypatch):
    there = {"auto": "cuda", "cuda": "cuda", "cuda:1": "cuda:1", "cpu": "cpu", "mps": "mps"}

    def choose(wanted):
        if wanted == "cuda:2":
            raise SgnsError("there is no device cuda:2 here (2 found)")
        return there[wanted]

    monkeypatch.setattr(ranks, "choose_device", choose)
    place = Place(1, 4, 1, 4)
    assert [place.device(wanted) for wanted in ("auto", "cuda", "cpu")] == ["cuda:1", "cuda:1", "cpu"]
    assert ALONE.device("auto") == "cuda"
    with pytest.raises(SgnsError, match="no device cuda:2"):
        Place(2, 4, 2, 4).device("cuda")
    for one in ("cuda:1", "mps"):
        with pytest.raises(UsageError, match="one device"):
            place.device(one)
        assert ALONE.device(one) == one
    assert Place(1, 4, 0, 1).device("cuda:1") == "cuda:1"  # the only process of its machine


def test_a_dry_run_is_of_one_process(sgns, monkeypatch):
    for name, value in zip(ranks.VARIABLES, ("0", "2", "0", "2", "127.0.0.1", "1"), strict=True):
        monkeypatch.setenv(name, value)
    result = sgns("train", "c.yaml", "--dry-run")
    assert result.code == 2
    assert "start it without torchrun" in result.err
