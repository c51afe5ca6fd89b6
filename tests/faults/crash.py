"""Killing `sgns` at a chosen operation on the disk: the same place each time, and every place there is.

A server process (`python tests/faults/crash.py`) has everything imported and the kernel at hand, and forks a child for
each command that it is asked to run; so a trial takes milliseconds. Before the child does its n-th operation that
changes the disk, it kills itself. The operations are those that Python audits: opening a file to write, renaming,
making and removing. Where a file is opened and emptied, there is one more place, between that and the first byte.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
OPERATIONS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
NEVER = 0  # the number of no operation


@dataclass(frozen=True)
class Trial:
    """How a command ended: its exit code, or minus a signal; the operations it did or was at; what it said."""

    code: int
    operations: list[str]
    err: str


class Crasher:
    """The server process, as its user sees it."""

    def __init__(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SGNS_")}
        environment |= {"PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "dumb", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__))]
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> "Crasher":
        return self

    def __exit__(self, *error: object) -> None:
        self._server.communicate()  # closes its stdin, which ends it

    def run(self, folder: Path, arguments: list[str], kill_at: int = NEVER) -> Trial:
        """Run a command in `folder`; it dies before its operation number `kill_at`, from 1 on, if it has so many."""
        assert self._server.stdin
        assert self._server.stdout
        print(json.dumps([str(folder), arguments, kill_at]), file=self._server.stdin, flush=True)
        return Trial(*json.loads(self._server.stdout.readline()))


def _serve() -> None:
    _import_all()
    for line in sys.stdin:
        folder, arguments, kill_at = json.loads(line)
        log, err = Path(f"{folder}.log"), Path(f"{folder}.err")
        child = os.fork()
        if child == 0:
            _be_the_child(Path(folder), arguments, kill_at, log, err)
        _, status = os.waitpid(child, 0)
        trial = [os.waitstatus_to_exitcode(status), log.read_text().splitlines(), err.read_text()]
        log.unlink()
        err.unlink()
        sys.stdout.write(json.dumps(trial) + "\n")
        sys.stdout.flush()


def _import_all() -> None:
    """Import what the commands do, and compile or load the kernel, without starting a thread: none survives a fork."""
    import importlib

    for name in ("cli.app", "training.run", "training.closing", "training.estimate", "vectors.export.formats"):
        importlib.import_module(f"sgns_cli.{name}")
    for name in ("cli.init", "corpus.token_cache", "vectors.arrays", "vectors.opening", "config_file"):
        importlib.import_module(f"sgns_cli.{name}")
    importlib.import_module("filelock")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from problems import zipf_problem

    from sgns_cli.training.engine import initial_matrices
    from sgns_cli.training.engines import make_engine

    for positions in ("none", "learned"):
        problem = zipf_problem(model={"positions": positions})
        make_engine(problem, initial_matrices(problem), "cpu", 1).train(0, 0, 0)
    import threading

    assert threading.active_count() == 1


def _be_the_child(folder: Path, arguments: list[str], kill_at: int, log: Path, err: Path) -> None:
    """Run the command, and never return."""
    os.chdir(folder)
    with log.open("w") as lines, err.open("w") as words, open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
        os.dup2(words.fileno(), 1)
        os.dup2(words.fileno(), 2)
        sys.addaudithook(_Hook(folder, kill_at, lines.fileno()))
        from sgns_cli.training import trainer

        trainer.SLICE_SECONDS = 0.0  # a round a slice, so that no clock decides how many steps are saved
        os.fsync = lambda file: None  # a process that is killed loses nothing of what it gave to the system
        try:
            code = __import__("sgns_cli.cli", fromlist=["main"]).main(arguments)
            sys.stdout.flush()
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 99
        os._exit(code)


class _Hook:
    """Counts the operations that change the disk under a folder, and ends the process at one of them."""

    def __init__(self, folder: Path, kill_at: int, log: int) -> None:
        self.folder = str(folder)
        self.kill_at = kill_at
        self.log = log
        self.count = 0

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and flags & WRITING and self._ours(path):
                self._step(f"open {path}")
                if flags & os.O_TRUNC and not os.path.isdir(path):  # noqa: PTH112 - which a file without a name is in
                    self._step(f"emptied {path}", empties=path)
        elif event in OPERATIONS and self._ours(arguments[0]):
            self._step(f"{event} {arguments[0]}")

    def _ours(self, path: object) -> bool:
        path = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
        return not os.path.isabs(path) or path.startswith(self.folder)  # noqa: PTH117

    def _step(self, what: str, *, empties: str | None = None) -> None:
        self.count += 1
        os.write(self.log, f"{what}\n".encode())
        if self.count == self.kill_at:
            if empties is not None:
                self.kill_at = NEVER
                os.close(os.open(empties, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _serve()
