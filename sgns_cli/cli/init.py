"""A config to start from: init."""

import math
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sgns_cli.cli.options import Quiet, yaml_string
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.folders import make_folder, publish_file, writing

HERE = Path(__file__).parent
TEMPLATE = HERE / "starter.yaml"
SAMPLE = HERE / "sample.txt"  # Genesis and Exodus, King James Version, a verse a line
DEMO = Path("data/kjv.txt")
FILES_NAMED = 10  # text files that a config names one by one; more become a glob

LARGE = 3_000_000  # bytes of text from which the defaults are right, and up to which it is looked at
BYTES_A_TOKEN = 200  # of the text for each token of the vocabulary, so that most occur often enough
BYTES_TO_PASS = 15_000_000  # over all epochs: some three million tokens
MOST_EPOCHS = 200  # past which a short text is only learnt by heart


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path("config.yaml"),
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="PATH", help="What to train on. [default: the text files here, or a sample]"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write a commented config that trains as it is.

    Vocabulary and epochs go by how much text there is. An existing file is never overwritten.
    """
    console = Console(quiet=quiet)
    if str(file) == "-":
        raise UsageError("- is no name for a config", "name a file, for example config.yaml")
    if file.exists():
        raise SgnsError(f"{file} exists already", "name another file, or remove it first")
    sources = [source] if source is not None else _find_sources(file.parent, console)
    text = TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("$SOURCES", f"[{', '.join(map(yaml_string, sources))}]")
    text = text.replace("$DIRECTORY", yaml_string(f"runs/{file.stem}"))
    text = _fit(text, sources)
    with writing(file):
        make_folder(file.parent)
        with publish_file(file) as hidden:
            hidden.write_text(text, encoding="utf-8", newline="\n")
    command = f"sgns train {shlex.quote(str(file))}"
    console.note(f"wrote {file}, which reads {', '.join(sources)}; train it with `{command}`")


@dataclass(frozen=True)
class Setting:
    """A value that is not the default, and why."""

    key: str
    value: object
    why: str


def _fit(template: str, sources: list[str]) -> str:
    """The template with what suits the sources. Raises SgnsError if there is nothing in them to train on."""
    from sgns_cli.config import DataConfig
    from sgns_cli.corpus.sources import count_bytes
    from sgns_cli.corpus.token_store import open_token_store
    from sgns_cli.token_folder import is_token_folder
    from sgns_cli.user_folders import expand_home

    folder = expand_home(sources[0])
    if is_token_folder(folder):
        size = open_token_store(folder).meta.get("bytes")
        template = template.replace("\n  train:", "\n  # The token folder brings its own.\n  # train:")
        template = template.replace("\n    vocab_size", "\n  #   vocab_size").replace(
            "\n    pattern", "\n  #   pattern"
        )
    else:
        size = count_bytes(DataConfig(sources=sources), at_most=LARGE)
    if size == 0:
        raise SgnsError(f"there is no text in {', '.join(sources)}", "give --source a file or a folder with text in it")
    for setting in _settings(size) if isinstance(size, int) and size < LARGE else []:
        line = rf"^( *){setting.key}: \S+"
        template = re.sub(line, rf"\1# {setting.why}\n\1{setting.key}: {setting.value}", template, flags=re.MULTILINE)
    return template


def _settings(size: int) -> list[Setting]:
    """What a text of less than LARGE bytes needs in place of the defaults."""
    vocab_size = min(8192, max(512, 2 ** round(math.log2(size / BYTES_A_TOKEN))))
    about = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1000))} kB"
    epochs = min(MOST_EPOCHS, round(BYTES_TO_PASS / size))
    settings = [
        Setting("pattern", "words", f"The default is lines, whose long tokens are too rare in {about} of text."),
        Setting("epochs", epochs, f"The default is 5; a text of {about} takes more to pass some million tokens."),
    ]
    if vocab_size < 8192:
        why = f"The default is 8192; with fewer, most tokens occur often enough in {about} of text."
        settings.append(Setting("vocab_size", vocab_size, why))
    if size < 100_000:
        settings.append(
            Setting("min_count", 2 if size > 10_000 else 1, "The default is 5; a short text has few of each.")
        )
    return settings


def _find_sources(folder: Path, console: Console) -> list[str]:
    """What there is to read here; where there is nothing, a sample written beside the config."""
    if DEMO.is_file():
        return [str(DEMO)]
    for pattern in ("*.txt", "*.md"):
        texts = sorted(str(path) for path in Path().glob(pattern) if path.is_file() and path.stat().st_size)
        if texts:
            return texts if len(texts) <= FILES_NAMED else [pattern]
    sample = folder / "sample.txt"
    if not sample.exists():
        with writing(sample):
            make_folder(folder)
            with publish_file(sample) as hidden:
                shutil.copyfile(SAMPLE, hidden)
        console.note(f"no .txt and no .md files here: wrote {sample} to train on (Genesis and Exodus)")
    return [str(sample)]
