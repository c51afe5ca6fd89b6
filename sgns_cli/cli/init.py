"""A config to start from: init."""

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer

from sgns_cli.cli.options import Quiet
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError
from sgns_cli.folders import writing
from sgns_cli.inventory import META

HERE = Path(__file__).parent
TEMPLATE = HERE / "starter.yaml"
SAMPLE = HERE / "sample.txt"  # Genesis and Exodus, King James Version, a verse a line
DEMO = Path("data/kjv.txt")
FILES_NAMED = 10  # text files that a config names one by one; more become a glob


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("config.yaml"),
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="PATH", help="What to train on. [default: the text files here, or a sample]"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a commented config that trains as it is. An existing file is never overwritten."""
    console = Console(quiet=quiet)
    if file.exists():
        raise SgnsError(f"{file} exists already", "name another file, or remove it first")
    if source is not None and not source.startswith("hf:") and not set(source) & set("*?[") and source != "-":
        _require(Path(source).expanduser())
    sources = [source] if source is not None else _find_sources(file.parent, console)
    text = TEMPLATE.read_text(encoding="utf-8")
    # JSON's strings and lists are YAML's too, whatever is in them.
    text = text.replace("$SOURCES", json.dumps(sources, ensure_ascii=False))
    text = text.replace("$DIRECTORY", json.dumps(f"runs/{file.stem}", ensure_ascii=False))
    if source is not None and (Path(source) / META).is_file():
        text = text.replace("\n  train:", "\n  # The token folder brings its own.\n  # train:")
        text = text.replace("\n    vocab_size", "\n  #   vocab_size").replace("\n    pattern", "\n  #   pattern")
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    console.note(f"wrote {file}, which reads {', '.join(sources)}; train it with `sgns train {file}`")


def _require(path: Path) -> None:
    if not path.exists():
        raise SgnsError(f"there is no {path}", "give --source a text file, a folder, a glob or a token folder")


def _find_sources(folder: Path, console: Console) -> list[str]:
    """What there is to read here; where there is nothing, a sample written beside the config."""
    if DEMO.is_file():
        return [str(DEMO)]
    texts = sorted(str(path) for path in Path().glob("*.txt") if path.is_file() and path.stat().st_size)
    if texts:
        return texts if len(texts) <= FILES_NAMED else ["*.txt"]
    sample = folder / "sample.txt"
    if not sample.exists():
        with writing(sample):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SAMPLE, sample)
        console.note(f"no text files here: wrote {sample} to train on (Genesis and Exodus)")
    return [str(sample)]
