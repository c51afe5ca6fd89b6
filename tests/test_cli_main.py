"""The front door: help, versions, exit codes, and what a start must not import."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Result, Written

import sgns_cli
from sgns_cli import cli, inventory
from sgns_cli.errors import SgnsError

Sgns = Callable[..., Result]
COMMANDS = [
    "init",
    "tokenize",
    "train",
    "neighbors",
    "neighbours",
    "analogy",
    "similarity",
    "embed",
    "evaluate",
    "plot",
    "export",
    "info",
]
HEAVY = ["torch", "datasets", "numba", "pandas", "rich", "tiktoken", "scipy"]


def test_help_and_version(sgns: Sgns) -> None:
    assert sgns("--version") == Result(0, f"sgns {sgns_cli.__version__}\n", "")
    for option in ("-h", "--help"):
        result = sgns(option)
        assert result.code == 0
        assert all(name in result.out for name in COMMANDS if name != "neighbours")
    assert sgns().code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_one_example(sgns: Sgns, command: str) -> None:
    for option in ("-h", "--help"):
        result = sgns(command, option)
        assert result.code == 0
        assert result.out.count(f"Example: sgns {command}") == 1
        assert "\x1b" not in result.out


def test_a_misspelt_command_or_option(sgns: Sgns) -> None:
    result = sgns("neighbrs", "silver")
    assert result.code == 2
    assert "neighbors" in result.err
    result = sgns("neighbors", "silver", "--kk", 3)
    assert result.code == 2
    assert result.err.splitlines()[-1] == "hint: `sgns neighbors --help` shows what it takes"


@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        (SgnsError("what", "what to do"), 1, "error: what\nhint: what to do\n"),
        (MemoryError(), 1, "error: not enough memory\n"),
        (KeyboardInterrupt(), 130, ""),
        (ValueError("odd"), 1, "error: this is a bug in sgns: ValueError: odd\nhint: run it again with SGNS_DEBUG=1"),
        (PermissionError(13, "Permission denied", "x.txt"), 1, "error: x.txt: Permission denied\n"),
    ],
)
def test_failures_are_words_and_codes(
    sgns: Sgns, monkeypatch: pytest.MonkeyPatch, failure: BaseException, code: int, words: str
) -> None:
    def fail(path: Path) -> None:
        raise failure

    monkeypatch.setattr(inventory, "check_run", fail)
    result = sgns("info", "x")
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert "Traceback" not in result.err
    if isinstance(failure, SgnsError):
        monkeypatch.setenv("SGNS_DEBUG", "1")
        result = sgns("info", "x")
        assert result.code == code
        assert "Traceback" in result.err
        assert result.err.endswith(words)


def run_python(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (["--version"], [*HEAVY, "numpy", "pydantic", "yaml"]),
        (["--help"], [*HEAVY, "numpy", "yaml"]),
        (["train", "--help"], [*HEAVY, "numpy", "yaml"]),
        (["neighbors", "dog", "--json"], [*HEAVY, "yaml"]),
        (["embed", "the dog", "--pool", "mean"], [*HEAVY, "yaml"]),
    ],
)
def test_what_a_start_does_not_import(word_run: Written, arguments: list[str], without: list[str]) -> None:
    code = (
        f"import sys; from sgns_cli.cli import main; code = main({arguments!r}); assert code == 0, code; "
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    out = run_python(code, word_run.path.parents[1])
    loaded = set(out.splitlines()[-1].split())
    assert "LOADED" in loaded
    assert not loaded & set(without)


def test_a_reader_that_has_gone_ends_it_quietly(word_run: Written) -> None:
    code = f"{sys.executable} -m sgns_cli neighbors - --json -q | head -n 1; echo ${{PIPESTATUS[*]}}"
    done = subprocess.run(
        ["bash", "-c", code],
        input="dog\n" * 20_000,
        capture_output=True,
        text=True,
        cwd=word_run.path.parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "0 0"
    assert done.stderr == ""


@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_pipes_carry_utf_8_whatever_the_locale(sgns_process, bpe_run: Written, locale: str) -> None:
    done = sgns_process("neighbors", "[/b]", "-k", 50, environment={"LC_ALL": locale, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "␣silver" in done.stdout


def test_the_script_is_this_main() -> None:
    assert cli.main.__module__ == "sgns_cli.cli"


def test_the_hint_names_the_command_whatever_the_parser_knows(sgns: Sgns) -> None:
    for arguments in (["train", "c.yaml", "--set"], ["train", "--bogus"], ["train", "c.yaml", "--threads", "x"]):
        result = sgns(*arguments)
        assert result.code == 2
        assert result.err.splitlines()[-1] == "hint: `sgns train --help` shows what it takes"
    assert "Value error" not in sgns("tokenize", "x", "--document", "page").err


SHELL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@SHELL
@pytest.mark.parametrize(
    ("command", "code", "err"),
    [
        ("neighbors dog -q >&-", 0, ""),
        ("neighbors dog 2>&-", 0, ""),
        ("neighbors dog 2>/dev/full", 0, ""),
        ("neighbors nope 2>/dev/full", 1, ""),
        ("neighbors - -q <&-", 1, "error: no query came on standard input"),
        ("neighbors dog -q >/dev/full", 1, "error: cannot write to standard output: No space left on device"),
        ("neighbors dog -q --json >/dev/full", 1, "error: cannot write to standard output: No space left on device"),
        ("--help >/dev/full", 1, "error: cannot write to standard output: No space left on device"),
        ("--version >&-", 0, ""),
    ],
)
def test_streams_that_are_closed_or_full(word_run: Written, command: str, code: int, err: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m sgns_cli {command}"],
        capture_output=True,
        text=True,
        cwd=word_run.path.parents[1],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        timeout=60,
    )
    assert done.returncode == code, done
    assert done.stderr.partition("\n")[0] == err


def test_an_interrupt_while_it_is_imported_shows_no_traceback(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from sgns_cli.cli import main\n"
        "assert 'typer' not in sys.modules\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.{kind})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "assert main(['--help']) == 130\n"
    )
    for kind in ("SIGINT", "SIGTERM"):
        assert run_python(code.replace("{kind}", kind), tmp_path) == ""
