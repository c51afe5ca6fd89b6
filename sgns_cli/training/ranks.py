"""The processes of a run that torchrun starts: who each of them is, and what they say to one another.

The only module that knows torch.distributed, and torch is loaded only where there are several processes. Rank 0 leads:
it says what is done next, and all others listen (joint.py). It does not know what they say.
"""

# mypy: disable-error-code="no-untyped-call"
import atexit
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.training.device import choose_device

if TYPE_CHECKING:
    import torch

AT_WORK = timedelta(minutes=30)  # how long one waits for another that does the same as itself
AT_EASE = timedelta(days=30)  # and for the leader, which may tokenize or save: if it ends, its socket closes
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Gone(SgnsError):
    """Another process of the run has ended, or cannot be reached any more."""


@dataclass(frozen=True)
class Place:
    """Which of the processes of a run this is. `local` are those of them on the same machine."""

    rank: int
    processes: int
    local_rank: int
    local_processes: int

    def device(self, wanted: str) -> str:
        """As choose_device, but each process of a machine has a CUDA device of its own."""
        device = choose_device(wanted)
        if self.processes == 1:
            return device
        if device == "mps" or (device.startswith("cuda:") and self.local_processes > 1):
            raise UsageError(
                f"--device {wanted} is one device, and several processes train here",
                "name none, or --device cuda: each process takes one of its own",
            )
        return choose_device(f"cuda:{self.local_rank}") if device == "cuda" else device


ALONE = Place(rank=0, processes=1, local_rank=0, local_processes=1)


def find_place(environment: Mapping[str, str] = os.environ) -> Place:
    """Where torchrun has put this process among others, if it has."""
    if any(not environment.get(name) for name in VARIABLES):
        return ALONE
    return Place(*(int(environment[name]) for name in VARIABLES[:4]))


@contextmanager
def joined(place: Place, device: str, threads: int) -> "Iterator[Group | None]":
    """The group of this process, if it is not alone. The leader lets the others go at the end, however it ends."""
    if place.processes == 1:
        yield None
        return
    try:
        group = Group(place, device, threads)
        try:
            yield group
        except Gone:  # nothing more can be said, and to take leave would be to wait
            raise
        except SgnsError as error:
            with suppress(Gone):
                group.leave(error.exit_code)
            raise
        except BaseException as error:
            group.leave(_exit_code(error))
            raise
        group.leave(0)
    finally:
        _end_alone()


def _end_alone() -> None:
    """Let no SIGTERM change the exit code any more: where one process has ended, torchrun sends it to the others."""
    ignore = (signal.SIGTERM, signal.SIG_IGN)
    with suppress(ValueError):  # not in the main thread, which alone hears signals
        signal.signal(*ignore)
        atexit.register(signal.signal, *ignore)  # until then it may be heard once more (cli/__init__.py)


@dataclass(frozen=True)
class End:
    """The last that is said: the run is over, and this is the exit code of every process."""

    code: int


class Group:
    """The processes of a run, connected."""

    def __init__(self, place: Place, device: str, threads: int) -> None:
        """Meet the others. Raises Gone if they do not come."""
        import torch
        import torch.distributed as dist

        self.place, self._dist, self._heard = place, dist, True
        torch.set_num_threads(threads)
        if device.startswith("cuda"):
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")  # an error that ends a wait, not the process
        with self._reached():
            dist.init_process_group(backend, timeout=AT_WORK)
            self._listening = dist.new_group(backend="gloo", timeout=AT_EASE)

    @property
    def leads(self) -> bool:
        return self.place.rank == 0

    def say(self, what: object) -> None:
        """Tell all others, as the leader."""
        with self._reached():
            self._dist.broadcast_object_list([what], src=0, group=self._listening)

    def hear(self) -> Any:  # noqa: ANN401
        """Wait for what the leader says next."""
        heard: list[Any] = [None]
        with self._reached():
            self._dist.broadcast_object_list(heard, src=0, group=self._listening)
        return heard[0]

    def agree(self, failure: SgnsError | None) -> bool:
        """Whether all processes can go on. Raises a failure where it happened, and for the leader, who ends the run."""
        failures: list[Any] = [None] * self.place.processes
        told = failure and (failure.message, failure.hint)
        with self._reached():
            self._dist.all_gather_object(failures, told, group=self._listening)
        if failure:
            with suppress(Gone):
                self.hear()  # the end: the leader could not tell it to the others if this process went before
            raise failure
        if self.leads and any(failures):
            rank, (message, hint) = next((rank, told) for rank, told in enumerate(failures) if told)
            raise SgnsError(f"process {rank} of {self.place.processes} cannot take part: {message}", hint)
        return not any(failures)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What all processes do at the same time. Where it fails nobody listens, so nobody can be told the end."""
        self._heard = False
        yield
        self._heard = True

    def total(self, tensor: "torch.Tensor") -> None:
        """Replace a tensor by its sum over the processes, the same bytes in each of them."""
        with self._reached():
            self._dist.all_reduce(tensor)

    def share(self, tensor: "torch.Tensor") -> None:
        """Replace a tensor by the leader's."""
        with self._reached():
            self._dist.broadcast(tensor, src=0)

    def leave(self, code: int) -> None:
        """Part, after the leader has told the others so, and the exit code of all."""
        if not self._heard:
            return  # when this process has ended, its sockets are closed, and all others see that
        if self.leads:
            self.say(End(code))
        self._dist.destroy_process_group()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # of gloo and the store, also where time is over; NCCL's has not been seen
            if type(error).__name__ == "OutOfMemoryError":
                raise
            this = f"process {self.place.rank} of {self.place.processes}"
            raise Gone(
                f"another process of this run has ended ({this} sees: {_first(error)})",
                "it may have said why; once that is mended, the same command with --resume goes on from the last "
                "checkpoint",
            ) from error


def _first(error: RuntimeError) -> str:
    """The first sentence of what a library says, without its source file."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return re.sub(r"^\[[^]]*\] *", "", line).split(". ")[0]


def _exit_code(error: BaseException) -> int:
    """That of the process that ends with an error: 130 for Ctrl-C, what the command line asks for, or 1."""
    return 130 if isinstance(error, KeyboardInterrupt) else int(getattr(error, "exit_code", 1))
