"""The README's session works: its console blocks are run by a real shell, its Python blocks by Python.

All ```console blocks run in their order, in a folder that holds copies of configs/ and data/, on a terminal of 80
columns; then the ```python blocks. A line that begins with `$ ` is a command, the lines after it are what it shows.

- A block is compared line by line, exactly (white space at the end of lines and empty lines apart).
- What a model answers depends on its training, and training all epochs takes too long here: the copied configs train
  one epoch. A block after <!-- trained --> is therefore compared in its shape: the same number of lines, tables with
  the same header, JSON with the same keys, notes equal but for their numbers (shapes in brackets stay).
  <!-- trained: 4 columns --> says that the first four columns of its tables do not depend on the training.
- Progress lines, which depend on the clock, are passed over.

`python tests/test_readme.py` runs every block with all its epochs and writes what they show into the README.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
README = PROJECT / "README.md"
BLOCK = re.compile(r"(?:<!-- trained(?P<columns>.*?) -->\n)?```console\n(?P<text>.*?)```\n", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```\n", re.DOTALL)
PROGRESS = re.compile(r"(training|tokenizing|reading) +\d+%|training the tokenizer on ")
NUMBER = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True)
class Step:
    """A command of the README and what it shows there."""

    command: str
    shown: tuple[str, ...]
    trained: bool  # whether what it shows depends on training
    columns: int  # that do not


@dataclass(frozen=True)
class Ran:
    code: int
    lines: tuple[str, ...]


def steps(text: str) -> list[Step]:
    found = []
    for block in BLOCK.finditer(text):
        columns = NUMBER.search(block["columns"] or "")
        for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            trained = block["columns"] is not None
            found.append(Step(command, _lines(shown), trained, int(columns[0]) if columns else 0))
    return found


def _lines(shown: str) -> tuple[str, ...]:
    """Lines that say something, without white space at their ends."""
    lines = (line.rstrip() for line in shown.splitlines())
    return tuple(line for line in lines if line and not PROGRESS.match(line))


def shell(command: str, folder: Path) -> Ran:
    """Run a command as in a terminal of 80 columns; stdout and stderr come as they would be seen."""
    import pty
    import termios

    terminal, end = pty.openpty()
    settings = termios.tcgetattr(end)
    settings[1] &= ~termios.OPOST  # no \r before \n
    termios.tcsetattr(end, termios.TCSANOW, settings)
    hidden = ("SGNS_", "COV", "HF_", "NO_COLOR", "FORCE_COLOR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
        cwd=folder,
        env={**environment, "PATH": path, "TERM": "dumb", "COLUMNS": "80", "LC_ALL": "C.UTF-8"},
    )
    os.close(end)
    shown = b""
    while True:
        try:
            more = os.read(terminal, 2**16)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not more:
            break
        shown += more
    os.close(terminal)
    return Ran(process.wait(), _lines(shown.decode()))


def prepare(folder: Path, *, fully: bool) -> Path:
    """What the README's commands find in the repository; unless `fully`, configs that train one epoch."""
    shutil.copytree(PROJECT / "configs", folder / "configs")
    (folder / "data").mkdir()
    (folder / "data" / "kjv.txt").symlink_to(PROJECT / "data" / "kjv.txt")
    if not fully:
        for config in (folder / "configs").glob("*.yaml"):
            text = config.read_text(encoding="utf-8")
            config.write_text(re.sub(r"(?<=\n  epochs: )\d+", "1", text), encoding="utf-8")
    return folder


def shape(lines: Sequence[str], columns: int) -> list[str]:
    """What of a block does not depend on training."""
    shaped, header = [], True
    for line in lines:
        if line.startswith("note: compiling the kernel"):
            continue  # only where it was not compiled before
        if line.startswith("{"):
            shaped.append(" ".join(json.loads(line)))
        elif line.startswith(("note: ", "error: ", "hint: ")):
            shaped.append(_note(line))
        elif set(line) <= {" ", "─"}:
            header = False
            shaped.append("rule")
        else:
            cells = re.split(r"\s{2,}", line.strip())
            shaped.append("  ".join(cells if header and "\t" not in line and _has_rule(lines) else cells[:columns]))
    return shaped


def _has_rule(lines: Sequence[str]) -> bool:
    return any("──" in line for line in lines)


def _note(line: str) -> str:
    """A note without its numbers; what a trained model says of tokens is cut off behind the words that say what."""
    if "ask it: sgns neighbors" in line:
        return "note: ask it"
    line = re.sub(r" is read as .*", " is read as", line)
    parts = re.split(r"(\[[\d, ]*\])", line)  # a shape is no number that training decides
    return "".join(part if part.startswith("[") else NUMBER.sub("#", part) for part in parts)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Ran]:
    """Every step of the README, run in order."""
    pytest.importorskip("pty", reason="needs a terminal to run the README in")
    folder = prepare(tmp_path_factory.mktemp("readme"), fully=False)
    results = {}
    for number, step in enumerate(steps(README.read_text(encoding="utf-8"))):
        results[number] = shell(step.command, folder)
    results[-1] = Ran(0, (str(folder),))
    return results


STEPS = steps(README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.command[:40] for step in STEPS])
def test_a_command_shows_what_the_readme_says(ran: dict[int, Ran], number: int) -> None:
    step, result = STEPS[number], ran[number]
    assert result.code == 0, "\n".join(result.lines)
    if step.trained:
        assert shape(result.lines, step.columns) == shape(step.shown, step.columns)
    else:
        assert result.lines == step.shown, "run `python tests/test_readme.py` and read the diff"


def test_the_python_blocks_run(ran: dict[int, Ran]) -> None:
    folder = Path(ran[-1].lines[0])
    blocks = PYTHON.findall(README.read_text(encoding="utf-8"))
    assert blocks
    proof = (
        "import numpy; from sgns_cli.tensors import map_tensors\n"
        "saved = map_tensors(__import__('pathlib').Path(max(glob('runs/kjv/step-*'))) / 'model.safetensors')\n"
        "assert numpy.array_equal(layer.weight.numpy(), saved['embeddings'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error:::__main__", "-c", "".join(blocks) + proof],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_opens_with_the_two_commands() -> None:
    text = README.read_text(encoding="utf-8")
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    at = [text.index(f"make {target}") for target in ("demo", "test")]
    assert at == sorted(at)
    assert at[-1] < text.index("```console")
    assert all(f"\n{target}:" in makefile for target in re.findall(r"^make (\w+)", text, flags=re.MULTILINE))


def test_the_session_covers_the_commands() -> None:
    commands = " ".join(step.command for step in STEPS)
    for name in ("init", "tokenize", "train", "neighbors", "analogy", "similarity", "embed", "plot", "export", "info"):
        assert f"sgns {name}" in commands
    assert sum(not step.trained for step in STEPS) >= 3  # those that catch a drift exactly


def test_shape_ignores_numbers_and_nothing_else() -> None:
    table = [
        " rank   token   score",
        " ─────────────",
        "    1   gold    0.669",
        "note: 'a' is read as a (trained 3 times)",
    ]
    other = [
        " rank   token   score",
        " ─────────────",
        "    1   wheat   0.7",
        "note: 'a' is read as b (trained 9 times)",
    ]
    assert shape(table, 1) == shape(other, 1)
    assert shape(table, 2) != shape(other, 2)
    assert shape(table[:3], 1) != shape(table, 1)
    assert shape(['{"a": 1, "b": 2}'], 0) != shape(['{"a": 1, "c": 2}'], 0)


def rewrite() -> None:
    """Run every block in full and write what it shows into the README."""
    with tempfile.TemporaryDirectory() as name:
        folder = prepare(Path(name), fully=True)

        def fresh(block: re.Match[str]) -> str:
            parts = []
            for step in steps(block[0]):
                result = shell(step.command, folder)
                if result.code:
                    sys.exit(f"{step.command} ended with {result.code}:\n" + "\n".join(result.lines))
                parts.append("\n".join([f"$ {step.command}", *result.lines]))
            opening = block[0].partition("```console\n")[0]
            return f"{opening}```console\n" + "\n".join(parts) + "\n```\n"

        README.write_text(BLOCK.sub(fresh, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    rewrite()
