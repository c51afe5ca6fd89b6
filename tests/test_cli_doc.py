"""docs/cli.md is the help of every command, and the other pages name only options that exist."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

TORCHRUN = {"--standalone", "--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"}
NOT_OURS = {"--help", "--version", "--logdir"} | TORCHRUN  # of every command, and TensorBoard's
DOCS = ["docs/architecture.md", "docs/algorithm.md", "docs/formats.md", "docs/scaling.md", "docs/reliability.md"]
PAGES = ["README.md", *DOCS, "CONTRIBUTING.md"]
LONGEST = {"README.md": 300, **dict.fromkeys(DOCS, 150)}
COMMANDS = [
    "init",
    "tokenize",
    "train",
    "neighbors",
    "analogy",
    "similarity",
    "embed",
    "evaluate",
    "export",
    "plot",
    "info",
]


def make_cli(project: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_cli", project / "docs" / "make_cli.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_is_what_the_program_says(project: Path) -> None:
    written = (project / "docs" / "cli.md").read_text(encoding="utf-8")
    assert written == make_cli(project).cli_page(), "the help has changed: run `python docs/make_cli.py`, read the diff"


def test_every_command_is_on_the_page(project: Path) -> None:
    assert make_cli(project).commands() == COMMANDS


@pytest.mark.parametrize("page", LONGEST)
def test_pages_stay_short(project: Path, page: str) -> None:
    assert (project / page).read_text(encoding="utf-8").count("\n") <= LONGEST[page]


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_only_options_that_exist(project: Path, page: str) -> None:
    options = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
    known = set(options.findall((project / "docs" / "cli.md").read_text(encoding="utf-8"))) | NOT_OURS
    ours = [line for line in (project / page).read_text(encoding="utf-8").splitlines() if "pip " not in line]
    assert set(options.findall("\n".join(ours))) <= known
