"""The rules of who may import whom, and of what a file may be: docs/architecture.md says why.

Every import statement counts, also those inside functions and under TYPE_CHECKING.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "sgns_cli"
FILES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}
MOST_LINES = 400

# What of another wing may be imported: the small modules that own a file format or a notation.
BETWEEN_WINGS = {
    "corpus": set(),
    "training": {"corpus.token_store", "corpus.tokenizer"},
    "vectors": {"corpus.tokenizer", "corpus.token_text", "corpus.tokenizer_json"},
}
# The only importers of heavy or replaceable packages: a file, or a folder ending in /.
IMPORTERS = {
    "torch": ["training/"],
    "torch.distributed": ["training/ranks.py"],
    "numba": ["training/"],
    "llvmlite": ["training/"],
    "datasets": ["corpus/sources.py"],
    "huggingface_hub": ["corpus/sources.py"],
    "tiktoken": ["corpus/bpe.py", "corpus/tokenizer.py"],
    "tiktoken_ext": ["corpus/tokenizer.py"],
    "rustbpe": ["corpus/bpe_worker.py"],
    "psutil": ["machine.py"],
    "regex": ["corpus/bpe.py"],
    "requests": ["corpus/rank_files.py"],
    "pydantic": ["config.py", "config_file.py"],
    "yaml": ["config_file.py", "yaml_text.py"],
    "typer": ["cli/"],
    "rich": ["console.py"],
    "matplotlib": ["vectors/plot/"],
    "sklearn": ["vectors/plot/layout.py"],
    "threadpoolctl": ["vectors/plot/layout.py"],
    "safetensors": [],  # tensors.py reads and writes the format itself
}


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports; of `from a import b` both a and a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively: write the full name"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """What a file imports of this package, without the package's name; names inside modules come along."""
    return {name.removeprefix("sgns_cli.") for name in imports(path) if name.startswith("sgns_cli.")}


def wing_of(name: str) -> str:
    """corpus.tokenizer.Tokenizer -> corpus; a module of the front or a name in it -> ''."""
    wing = name.replace("/", ".").split(".")[0]
    return wing if (PACKAGE / wing).is_dir() else ""


def test_there_is_a_package_to_look_at() -> None:
    assert len(FILES) > 30
    assert {wing_of(name) for name in FILES} == {"", "cli", "corpus", "training", "vectors"}


@pytest.mark.parametrize("file", FILES)
def test_nobody_imports_the_front_door(file: str) -> None:
    if wing_of(file) == "cli" or file in ("__main__.py", "console.py"):
        return
    front = {name for name in ours(FILES[file]) if name.split(".")[0] in ("cli", "console", "streams")}
    assert not front, f"{file} may not import {front}: return values, let the command line print them"


@pytest.mark.parametrize("file", [name for name in FILES if wing_of(name) in BETWEEN_WINGS])
def test_wings_meet_only_in_the_modules_that_own_a_format(file: str) -> None:
    wing = wing_of(file)
    foreign = {name for name in ours(FILES[file]) if wing_of(name) not in ("", wing)}
    allowed = BETWEEN_WINGS[wing]
    strays = {name for name in foreign if name not in allowed and not any(name.startswith(f"{a}.") for a in allowed)}
    assert strays <= {"corpus"}, f"{file} reaches into another wing: {strays}"  # `from sgns_cli.corpus import x`


@pytest.mark.parametrize("file", [name for name in FILES if not wing_of(name) and not name.startswith("__")])
def test_the_front_knows_no_wing(file: str) -> None:
    wings = {name for name in ours(FILES[file]) if wing_of(name)}
    assert not wings, f"{file} is for every wing and may not import {wings}"


@pytest.mark.parametrize("file", [name for name in FILES if name.startswith("training/kernels/")])
def test_kernels_know_arrays_only(file: str) -> None:
    beyond = {
        name
        for name in ours(FILES[file])
        if not name.startswith(("training.kernels", "training.compiled", "training.unchecked", "training.draws"))
    }
    assert not beyond, f"{file}: arrays in, arrays changed, loss out; not {beyond}"


@pytest.mark.parametrize("package", IMPORTERS)
def test_packages_have_their_importers(package: str) -> None:
    allowed = IMPORTERS[package]
    found = {name for name, path in FILES.items() if any(f"{one}.".startswith(f"{package}.") for one in imports(path))}
    strays = {name for name in found if not any(name == a or (a.endswith("/") and name.startswith(a)) for a in allowed)}
    assert not strays, f"only {allowed} may import {package}"
    assert found or not allowed, f"nobody imports {package} any more: take it out of this list and of pyproject.toml"


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    names = {re.split(r"[<>=\[ ;]", requirement)[0] for requirement in listed}
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", table)} == set()


@pytest.mark.parametrize("file", FILES)
def test_no_file_is_too_long(file: str) -> None:
    lines = FILES[file].read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES, f"{file} has {lines} lines, more than {MOST_LINES}: split it"


@pytest.mark.parametrize("file", FILES)
def test_nothing_is_printed_past_the_console(file: str) -> None:
    tree = ast.parse(FILES[file].read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    prints = [call.lineno for call in calls if call.func.id == "print"]
    assert not prints, f"{file} prints in lines {prints}: console.py does that"
