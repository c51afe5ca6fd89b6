"""Training from a config: train."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from sgns_cli.cli import INTERRUPTED, hearing
from sgns_cli.cli.options import Json, Quiet, Threads, writes, yaml_string
from sgns_cli.console import Console
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.streams import OutputClosed

if TYPE_CHECKING:
    from sgns_cli.training.estimate import Estimate


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A config file; `sgns init` writes one.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key: --set model.dim=300")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="The run folder. [run.directory]")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last step of the run.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run, once the new one's first step is complete.")
    ] = False,
    init_from: Annotated[
        Path | None, typer.Option("--init-from", metavar="RUN", help="Start from the vectors of another run.")
    ] = None,
    device: Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda[:N]|mps", help="Where to train.")] = "auto",
    threads: Threads = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would train, in what time and memory, and write no run.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train embeddings as CONFIG says; Ctrl-C saves a checkpoint, --resume goes on from it."""
    from sgns_cli.config_file import load_config
    from sgns_cli.corpus.token_cache import cached_token_folder
    from sgns_cli.machine import available_threads
    from sgns_cli.token_folder import CACHE
    from sgns_cli.training.closing import closing_notes, summary
    from sgns_cli.training.estimate import prepare_estimate
    from sgns_cli.training.joint import follow
    from sgns_cli.training.ranks import find_place, joined
    from sgns_cli.training.run import prepare_run
    from sgns_cli.training.start import Request, check_free, check_start, run_directory

    if resume and (overwrite or init_from):
        raise UsageError("--resume goes with neither --overwrite nor --init-from", "choose one of them")
    place = find_place()
    if dry_run and place.processes > 1:
        raise UsageError("--dry-run looks at the training of one process", "start it without torchrun")
    all_threads = threads or available_threads()
    threads = threads or max(1, all_threads // place.local_processes)
    device = place.device(device)
    with joined(place, device, threads) as group:
        if group is not None and not group.leads:
            with _stop_signals() as stopped:
                raise typer.Exit(follow(group, device=device, threads=threads, stopped=stopped))
        console = Console(json=json, quiet=quiet)
        began = time.perf_counter()
        overrides = [*(set_ or []), *([f"run.directory={yaml_string(str(output))}"] if output else [])]
        settings = load_config(config, overrides)
        # A run that is there is in nobody's way if none is written.
        request = Request(resume=resume, overwrite=overwrite or (dry_run and not resume), init_from=init_from)
        check_start(settings, request)
        if not dry_run:
            check_free(settings)
        with writes(run_directory(settings)), console.tokenize_progress() as show_tokens:
            store = cached_token_folder(
                settings.data,
                settings.tokenizer,
                run_directory(settings).parent / CACHE,
                progress=show_tokens,
                threads=all_threads,
            )
        tokenize_seconds = time.perf_counter() - began
        if dry_run:
            estimate = prepare_estimate(settings, store, request=request, device=device, threads=threads)
            with _stop_signals() as stopped:
                _show_estimate(console, estimate, stopped)
            return
        with _stop_signals() as stopped:
            training = prepare_run(settings, store, request=request, device=device, threads=threads, group=group)
            for note in training.notes:
                console.note(note)
            out = _Records(console)
            with console.training_progress() as show:
                for record in training.progress(stopped):
                    show(record)
                    out.write(asdict(record))
            seconds = {"tokenize_seconds": tokenize_seconds, "total_seconds": time.perf_counter() - began}
            out.write(summary(training, **seconds))
            for note in closing_notes(training, **seconds):
                console.note(note)
        if not training.complete:
            raise typer.Exit(INTERRUPTED)
        out.check()


def _show_estimate(console: Console, estimate: "Estimate", stopped: "StopFlag") -> None:
    for note in estimate.notes:
        console.note(note)
    facts = estimate.measure(stopped)
    if stopped():
        raise typer.Exit(INTERRUPTED)
    console.facts(facts)


class _Records:
    """The records of --json. When they cannot be written any more, training goes on without them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.closed = not console.json
        self.refusal: SgnsError | None = None

    def write(self, record: dict[str, object]) -> None:
        if self.closed:
            return
        try:
            self.console.records([record])
        except OutputClosed:
            self.closed = True
            self.console.note("nobody reads the records any more: training goes on without them")
        except SgnsError as error:
            self.closed, self.refusal = True, error
            self.console.note(f"{error.message}: training goes on without the records")

    def check(self) -> None:
        """Raises SgnsError if some could not be written, though somebody reads them."""
        if self.refusal is not None:
            raise self.refusal


@contextmanager
def _stop_signals() -> Iterator["StopFlag"]:
    """Turn the signals that ask a program to stop into a request to stop at the next round."""
    flag = StopFlag()
    with hearing(flag.raise_):
        yield flag


class StopFlag:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.raised = False

    def raise_(self, number: int, frame: FrameType | None) -> None:
        self.raised = True

    def __call__(self) -> bool:
        return self.raised
