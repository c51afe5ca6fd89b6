"""What surrounds a command: homes, names, streams, terminals, signals; none of it may cost data or fool anybody."""

import errno
import io
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from disk_cases import write_config, write_corpus, write_words
from disks import mounted
from hypothesis import given
from hypothesis import strategies as st
from processes import HOSTILE, NAMES, RAW, SECONDS

from sgns_cli import cli, run_folder
from sgns_cli.cli import Interrupt, hearing
from sgns_cli.cli.options import yaml_string
from sgns_cli.corpus import rank_files
from sgns_cli.errors import SgnsError
from sgns_cli.tensors import whole, write_tensors
from sgns_cli.training import compiled
from sgns_cli.user_folders import expand_home, user_folder
from sgns_cli.vectors.export import formats

PROJECT = Path(__file__).parents[1]

ROOT = Path(__file__).parents[1]
STARTS = [sys.executable, "-m", "sgns_cli"]
WITHOUT_OUTPUT = ["neighbors dog", "analogy dog cat ball", "similarity dog cat", "embed dog", "info", "info runs/words"]
WITHOUT_OUTPUT += ["tokenize corpus.txt --encoding whitespace", "plot --json", "--help", "--version", "train --help"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("SGNS_", "COV"))}
ENVIRONMENT |= {"PYTHONPATH": str(ROOT), "TERM": "dumb"}


# ------------------------------------------------------------------ homes and temporary folders


@pytest.mark.parametrize(
    ("home", "named", "found"),
    [
        ("here", None, "here/.cache"),
        ("here", "", "here/.cache"),
        ("here", "relative", "here/.cache"),
        ("here", "other", "other"),
        ("nowhere", "other", "other"),
        ("nowhere", None, None),
        ("relative", None, None),
        ("", None, None),
    ],
)
def test_caches_lie_in_a_home_that_is_there(tmp_path, monkeypatch, home, named, found):
    def absolute(name):
        return str(tmp_path / name) if name in ("here", "other", "nowhere") else name

    (tmp_path / "here").mkdir()
    (tmp_path / "relative").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", absolute(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", absolute(named))
    assert user_folder("XDG_CACHE_HOME", ".cache") == (None if found is None else tmp_path / found)


def test_a_kernel_without_a_home_is_kept_for_the_process_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = compiled._cache_folder.__wrapped__()
    assert folder.parent == tmp_path
    assert folder.name.startswith(compiled._FLEETING)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    with pytest.raises(SgnsError, match="the compiled kernel has no place") as refused:
        compiled._cache_folder.__wrapped__()
    assert "XDG_CACHE_HOME" in refused.value.hint


def test_rank_files_are_looked_for_without_a_home_and_without_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])
    assert rank_files.cache_folders() == [tmp_path]


def test_a_name_that_begins_with_a_tilde_is_a_name_where_there_is_no_such_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expand_home("~/notes.txt") == tmp_path / "notes.txt"
    assert expand_home("~nobody's notes.txt") == Path("~nobody's notes.txt")


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_files_may_have_any_name(sgns, tmp_path, name):
    """From the text to the vectors, each file with a hard name; nothing raw is shown."""
    write_corpus(tmp_path)
    (tmp_path / f"{name}.txt").write_bytes((tmp_path / "corpus.txt").read_bytes())
    path = f"./{name}" if name.startswith("-") else name
    run = f"{path}.run"
    for arguments in (
        ["tokenize", f"{path}.txt", "-o", f"{path}.tokens", "--encoding", "whitespace"],
        ["init", f"{path}.yaml", "--source", f"{path}.txt"],
        ["train", f"{path}.yaml", "-o", run, "--threads", "1", "--set", "train.epochs=0", "--set", "model.dim=4"],
        ["info", run],
        ["info", f"{path}.tokens"],
        ["embed", "w", "--model", run, "-o", f"{path}.npy"],
        ["export", "--format", "glove", "--model", run, "-o", f"{path}.vectors"],
        ["plot", "--model", run, "-o", f"{path}.html"],
    ):
        result = sgns(*arguments)
        assert result.code == 0, (arguments, result)
        assert not RAW.search(result.out.replace("\t", " ") + result.err), result
    assert (tmp_path / f"{name}.html").is_file()


@given(st.text(st.characters()))
def test_a_text_as_yaml_means_just_that(text):
    assert yaml.safe_load(yaml_string(text)) == text


@pytest.mark.parametrize("debug", [False, True])
def test_nothing_hostile_reaches_the_terminal_raw(sgns, tmp_path, monkeypatch, debug):
    """Names, texts, keys, headers and variables come back in errors and notes, and in a traceback."""
    text = HOSTILE
    write_words(tmp_path)
    write_corpus(tmp_path)
    (tmp_path / "c.yaml").write_text("data: {sources: [corpus.txt]}\n")
    (tmp_path / "raw.yaml").write_text(f"data: {{sources: [corpus.txt], {text}: 1}}\n")
    (tmp_path / "key.yaml").write_text(f"data: {{sources: [corpus.txt], {yaml_string(text)}: 1}}\n")
    (tmp_path / "value.yaml").write_text(f"data: {{sources: [x]}}\nmodel: {{dim: {yaml_string(text)}}}\n")
    (tmp_path / "t.csv").write_text(f'"{text}",b\nx,y\n')
    write_tensors(tmp_path / "t.safetensors", {name: whole(np.zeros((9, 3), np.float32)) for name in (text, "b")})
    if debug:
        monkeypatch.setenv("SGNS_DEBUG", "1")
    for arguments in (
        [text],
        ["info", f"--{text}"],
        ["info", text],
        ["init", "--source", text],
        ["tokenize", text],
        ["tokenize", "corpus.txt", "--encoding", text],
        ["tokenize", "corpus.txt", "--document", text],
        ["tokenize", "t.csv"],
        ["tokenize", "t.csv", "--column", f"{text}?"],
        ["train", text],
        ["train", "raw.yaml"],
        ["train", "key.yaml"],
        ["train", "value.yaml"],
        ["train", "c.yaml", "--set", text],
        ["train", "c.yaml", "--set", f"model.{text}=1"],
        ["train", "c.yaml", "--set", f"model.dim={yaml_string(text)}"],
        ["train", "c.yaml", "--device", text],
        ["train", "c.yaml", "--threads", text],
        ["neighbors", text],
        ["neighbors", "x", "--model", text],
        ["neighbors", "x", "--model", "t.safetensors"],
        ["neighbors", "x", "--model", "t.safetensors", "--tensor", f"{text}?"],
        ["evaluate", "--similarity", text],
        ["export", "-o", "x", "--format", text],
        ["plot", "-o", text],
    ):
        result = sgns(*arguments)
        assert result.code in (1, 2), (arguments, result)
        assert "bug in sgns" not in result.err, (arguments, result.err)
        assert not RAW.search(result.out + result.err), (arguments, result)
    monkeypatch.setenv("SGNS_MODEL", text)
    monkeypatch.setenv("COLUMNS", text)
    monkeypatch.setenv("TERM", text)
    for command in ("neighbors dog", "info runs/words", "--help"):
        result = sgns(*command.split())
        assert not RAW.search(result.out.replace("\t", " ") + result.err)


# ------------------------------------------------------------------ streams


@pytest.mark.parametrize("command", WITHOUT_OUTPUT)
def test_streams_that_were_closed_are_nobody(sgns, tmp_path, monkeypatch, command):
    write_words(tmp_path)
    write_corpus(tmp_path)
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    try:
        assert cli.main(command.split()) == 0
    finally:
        opened = [getattr(sys, name) for name in ("stdin", "stdout", "stderr")]
        monkeypatch.undo()
        for stream in opened:
            stream.close()


@pytest.mark.parametrize("command", WITHOUT_OUTPUT)
def test_a_reader_that_has_gone_is_no_failure(sgns, tmp_path, monkeypatch, command):
    write_words(tmp_path)
    write_corpus(tmp_path)
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as pipe:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", pipe)
        result = sgns(*command.split())
        monkeypatch.undo()
    assert result.code == 0
    assert "error" not in result.err


def test_training_goes_on_where_its_records_have_no_room(sgns, tmp_path, monkeypatch):
    """A model is worth more than its log: it is saved, and the command fails at the end."""

    class FullOnce(io.StringIO):
        failed = False

        def write(self, text):
            if not self.failed:
                self.failed = True
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    write_config(tmp_path)
    monkeypatch.setattr(sys, "stdout", FullOnce())
    result = sgns("train", "c.yaml", "--json", "--threads", "1")
    assert sys.stdout.getvalue() == ""  # not the later ones without the first
    assert result.code == 1
    assert "training goes on without the records" in result.err
    assert result.err.splitlines()[-2].startswith("error: cannot write to standard output: No space left")
    step = run_folder.steps(tmp_path / "runs" / "c")[-1]
    assert run_folder.read_state(step)["tokens_seen"] == run_folder.read_state(step)["tokens_total"]


# ------------------------------------------------------------------ locale, umask, limits, installs, folders


@pytest.mark.parametrize(
    "changes",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONWARNINGS": "error", "PYTHONSAFEPATH": "1"},
    ],
    ids=" ".join,
)
def test_environments_that_change_nothing(tmp_path, changes):
    write_words(tmp_path)
    (tmp_path / "runs" / "words").rename(tmp_path / "runs" / "wörter")
    done = subprocess.run(
        [*STARTS, "info", "--json"], cwd=tmp_path, env={**ENVIRONMENT, **changes}, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'"path": "runs/w' in done.stdout


def test_few_open_files_and_a_strict_umask_and_no_home_are_enough(tmp_path):
    write_corpus(tmp_path)
    command = f"ulimit -n 20; umask 077; {' '.join(STARTS)} tokenize corpus.txt -o t --train-vocab 300 -q"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env={**ENVIRONMENT, "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "t").rglob("*")}
    assert modes == {0}


def test_a_working_folder_that_was_removed_is_told(sgns, tmp_path, monkeypatch):
    write_words(tmp_path)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    result = sgns("embed", "dog", "--model", tmp_path / "runs" / "words", "-o", "x.npy")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: the working folder is no longer there\nhint: change to one that is")
    assert sgns("neighbors", "dog", "--model", tmp_path / "runs" / "words").code == 0


# ------------------------------------------------------------------ signals


def test_a_second_signal_is_the_same_request_for_a_while(monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    interrupt = Interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    now = 100.5
    interrupt(signal.SIGTERM, None)
    now = 102.0
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


def test_who_hears_signals():
    before = [signal.getsignal(number) for number in cli.STOPS]
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    handler = Interrupt()
    try:
        with hearing(handler):
            assert signal.getsignal(signal.SIGINT) is signal.getsignal(signal.SIGTERM) is handler
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with hearing(handler, last=True):
            pass
        assert {signal.getsignal(number) for number in cli.STOPS} == {signal.SIG_IGN}
    finally:
        signal.signal(signal.SIGHUP, ignored)
        for number, old in zip(cli.STOPS, before, strict=True):
            signal.signal(number, old)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_command_says_what_is_there(sgns, tmp_path, monkeypatch, when):
    write_words(tmp_path)
    export = formats.export

    def interrupted(*arguments, **more):
        if when == "after":
            export(*arguments, **more)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr(formats, "export", interrupted)
    result = sgns("export", "-o", "x.bin", "--format", "word2vec-bin")
    assert (result.code, result.out) == (130, "")
    said = "nothing was written" if when == "before" else "x.bin is complete"
    assert result.err.splitlines()[-1] == f"note: interrupted: {said}"
    assert (tmp_path / "x.bin").exists() == (when == "after")


@pytest.mark.parametrize("how", ["the terminal goes away", "signals in quick succession"])
def test_training_is_saved_however_it_is_stopped(tmp_path, how):
    write_config(tmp_path)
    command = [*STARTS, "train", "c.yaml", "--threads", "1", "--set", "train.epochs=1000000"]
    command += ["--set", "run.checkpoint_minutes=60", "--set", "run.log_seconds=0.05"]
    process, terminal = pty.fork()
    if process == 0:
        try:
            signal.alarm(SECONDS)  # it ends by itself, whatever becomes of this test
            os.chdir(tmp_path)
            os.execve(sys.executable, command, {**ENVIRONMENT, "TERM": "xterm"})
        finally:
            os._exit(127)
    seen = b""
    while b"lr" not in seen:
        seen += os.read(terminal, 65536)
    if how == "the terminal goes away":
        os.close(terminal)
        status = os.waitpid(process, 0)[1]
    else:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(process, number)
        while more := read_terminal(terminal):
            seen += more
        status = os.waitpid(process, 0)[1]
        assert b"saved at step" in seen
        assert b"Traceback" not in seen
    assert os.waitstatus_to_exitcode(status) == 130
    assert len(run_folder.steps(tmp_path / "runs" / "c")) == 1


def read_terminal(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody writes to it any more
        return b""


def test_a_read_only_install_is_enough(tmp_path):
    """The package on a disk of its own that may not be written to: nothing is compiled beside it, nothing is lost."""
    with mounted(tmp_path / "install", size="8m") as install:
        shutil.copytree(PROJECT / "sgns_cli", install / "sgns_cli", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["mount", "-o", "remount,ro", install], check=True)
        write_words(tmp_path)
        tokenize = ["tokenize", "-", "-o", "tokens", "--encoding", "whitespace"]
        for command in (tokenize, ["embed", "dog", "-o", "x.npy"], ["neighbors", "dog"]):
            done = subprocess.run(
                [sys.executable, "-m", "sgns_cli", *command],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(install), "PYTHONDONTWRITEBYTECODE": ""},
                input="a b c\n",
                capture_output=True,
                text=True,
                timeout=100,
            )
            assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("query\t")
