"""All commands in one application, and `run`, the one place where failures become words and exit codes.

0 done, 1 an expected failure, 2 what arguments and config text alone decide, 130 interrupted. Nothing heavy is
imported before a command runs.
"""

import errno
import os
from pathlib import Path
from typing import Annotated

import typer

from sgns_cli import __version__
from sgns_cli.cli import INTERRUPTED
from sgns_cli.cli.embed import embed
from sgns_cli.cli.evaluate import evaluate
from sgns_cli.cli.export import export
from sgns_cli.cli.info import info
from sgns_cli.cli.init import init
from sgns_cli.cli.plot import plot
from sgns_cli.cli.query import analogy, neighbors, similarity
from sgns_cli.cli.tokenize import tokenize
from sgns_cli.cli.train import train
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.streams import OutputClosed, flush, output_refused, prepare_streams, release_streams

app = typer.Typer(
    name="sgns",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sgns {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog="Example: sgns init && sgns train config.yaml")
def sgns(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train and query skip-gram (SGNS) embeddings for the tokens that LLMs use."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(UsageError.exit_code)


app.command(epilog="Example: sgns init --source notes.txt")(init)
app.command(
    short_help="Print the tokens of a text, or write a token folder.",
    epilog="Example: sgns tokenize notes.txt -o tokens --train-vocab 8192",
)(tokenize)
app.command(
    short_help="Train embeddings as CONFIG says.", epilog="Example: sgns train config.yaml --set model.dim=300"
)(train)
app.command(epilog='Example: sgns neighbors silver "night " -k 5')(neighbors)
app.command("neighbours", hidden=True, epilog="Example: sgns neighbours silver")(neighbors)
app.command(short_help="A is to B as C is to ?", epilog="Example: sgns analogy king queen man")(analogy)
app.command(short_help="How alike are A and B?", epilog="Example: sgns similarity silver gold")(similarity)
app.command(
    short_help="Turn texts into vectors: token plus position.",
    epilog='Example: sgns embed "The dog fetched the ball" -o dog.npy',
)(embed)
app.command(
    short_help="Score a model on analogies and word pairs.",
    epilog="Example: sgns evaluate --analogies data/analogies.txt",
)(evaluate)
app.command(
    short_help="Write vectors in the format of another program.",
    epilog="Example: sgns export -o words.bin --format word2vec-bin",
)(export)
app.command(
    short_help="Draw a map of tokens, or the losses of a run.", epilog="Example: sgns plot silver king -o map.html"
)(plot)
app.command(short_help="Describe a run, a step, a token folder, or list them.", epilog="Example: sgns info runs/kjv")(
    info
)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code; failures never leave as tracebacks."""
    prepare_streams()
    try:
        return _invoke(arguments)
    except (OutputClosed, BrokenPipeError):
        return 0
    except KeyboardInterrupt as error:
        Console().note(f"interrupted: {error}" if str(error) else "interrupted")
        return INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        failure = _failure(error, arguments)
        if os.environ.get("SGNS_DEBUG"):
            Console().traceback(error)
        Console().error(failure)
        return failure.exit_code
    finally:
        release_streams()


def _invoke(arguments: list[str]) -> int:
    """Run a command. Typer's own way in would turn an interrupt into an exit code, and forget what it said."""
    command = typer.main.get_command(app)
    code = 0
    try:
        with command.make_context("sgns", list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as error:
        code = error.exit_code
    flush()
    return code


def _failure(error: BaseException, arguments: list[str]) -> SgnsError:
    """Anything raised, as what it means and what to do."""
    if isinstance(error, SgnsError):
        return error
    if hasattr(error, "format_message"):  # Typer's own: a usage error. Its classes are not public
        command = getattr(getattr(error, "ctx", None), "command_path", None) or _named(arguments)
        message = error.format_message().replace(": Value error, ", ": ")  # the words of the types' own checks
        return UsageError(message, f"`{command} --help` shows what it takes")
    if isinstance(error, MemoryError):
        return SgnsError("not enough memory", "give it less at once, a smaller model, or a larger machine")
    if isinstance(error, OSError) and error.filename is None and error.errno in (errno.ENOSPC, errno.EIO):
        return output_refused(error)  # help and version, which are printed past the console
    if isinstance(error, OSError) and error.errno == errno.ENOENT and not _has_working_folder():
        return SgnsError("the working folder is no longer there", "change to one that is, then run it again")
    debug = "run it again with SGNS_DEBUG=1 for the traceback"
    if isinstance(error, OSError):
        return SgnsError(f"{error.filename or 'the system'}: {error.strerror or error}", f"check the path, or {debug}")
    return SgnsError(f"this is a bug in sgns: {type(error).__name__}: {error}", f"{debug}, and report it")


def _has_working_folder() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False


def _named(arguments: list[str]) -> str:
    """`sgns COMMAND`, by the first argument that is one; the parser does not always say."""
    names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    return " ".join(["sgns", *[argument for argument in arguments if argument in names][:1]])
