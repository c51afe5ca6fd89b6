"""What a training takes, in memory and on disk, and whether there is room for it: refused before anything is touched.

Knows what the engine, the start and the checkpoints allocate, by their formulas; tests/test_room.py holds them against
real arrays, files and processes. What the machine has is machine.py's business.
"""

import math
import shutil
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sgns_cli import run_folder
from sgns_cli.config import RunConfig
from sgns_cli.errors import SgnsError
from sgns_cli.inventory import size
from sgns_cli.machine import available_memory
from sgns_cli.progress import amount
from sgns_cli.training.draws import BLOCK, PART_BLOCKS
from sgns_cli.training.engine import PIECE, matrix_bytes
from sgns_cli.training.engines import device_bytes
from sgns_cli.training.problem import ROUND_CENTRES, Problem

MIB = 2**20
# Resident size at its peak, less what the other terms say of it, of `train` on 500 words with everything compiled
# before, the first time in a fresh cache, and with torch (its build for the CPU; CUDA's libraries are not counted).
# getrusage on Linux, x86-64, Python 3.11, NumPy 2.4, Numba 0.68, torch 2.13; 97 MiB are pages of libraries.
PROGRAM, COMPILING, TORCH = 174 * MIB, 62 * MIB, 184 * MIB
TOKEN = 128  # an id in the tokenizer: a string or bytes, an int, their places in a dict and a list
COUNTED = 8 + 4 + 8  # an id in the vocabulary: count, row, chance to be kept
TRAINED = 8 + 8 + 4  # a row in the vocabulary: id, alias table
ADOPTED = 152  # a row while --init-from looks for it: a pair of Python ints, and the same pair as an array
AVERAGED = 100  # a row while its touches are counted and added up: some numbers of eight bytes
ENDED = 56  # a row when the run has ended: its id as a Python int, in two lists
MOST_BLOCKS = ROUND_CENTRES * 9 // 8 // BLOCK  # of a round, but in an uneven corpus

Fits = Callable[[Problem], bool]


@dataclass(frozen=True)
class Needs:
    """What decides how much memory a training takes beside its problem."""

    device: str
    threads: int
    adopts: bool = False  # --init-from
    compiles: bool = False  # the kernel, first
    processes: int = 1  # that train together on this machine

    def memory(self, problem: Problem) -> int:
        """Bytes that the process holds at its peak, and all that train with it here.

        Not counted are the mapped files, tokens above all, which the kernel drops where memory is short, and what
        tokenizing took before.
        """
        rows, n_vocab, dim = problem.vocabulary.rows, len(problem.vocabulary.counts), problem.model.dim
        matrices = matrix_bytes(problem)
        saving = 3 * min(PIECE, n_vocab) * dim * 4  # a piece as it is gathered, filled, and the one before
        if problem.positions_learned and dim % 16:
            saving += problem.model.context_length * dim * 4  # a copy without the padding
        if self.device == "cpu":
            training = work_bytes(problem, self.threads) + (COMPILING if self.compiles else 0)
        else:
            training = TORCH + matrices  # that come back from the device to be saved
        adopting = (ADOPTED + 4 * dim) * rows + TOKEN * n_vocab if self.adopts else 0
        tables = (TOKEN + COUNTED) * n_vocab + TRAINED * rows
        alone = PROGRAM + tables + matrices + max(adopting, training + max(saving, ENDED * rows))
        return alone if self.processes == 1 else self.processes * (alone + self._together(problem))

    def _together(self, problem: Problem) -> int:
        """What each of several processes holds besides: the matrices as last averaged, counts, a piece of each."""
        rows, width = problem.vocabulary.rows, matrix_bytes(problem) // max(problem.vocabulary.rows, 1) // 2
        torch = TORCH if self.device == "cpu" else 0
        bases = matrix_bytes(problem) if self.device == "cpu" else 0
        return torch + bases + AVERAGED * rows + 8 * min(PIECE, rows) * width


def work_bytes(problem: Problem, threads: int) -> int:
    """What the CPU engine comes to use beside the matrices: it allocates more, for rounds that keep every token."""
    from sgns_cli.training.cpu_engine import objective_of
    from sgns_cli.training.kernels.cpu_memory import MOST_BITS, STRIP
    from sgns_cli.training.kernels.cpu_plan import AHEAD

    model, shared, objective = problem.model, problem.shared_negatives, objective_of(problem)
    longer = math.ceil(problem.span * problem.vocabulary.kept_fraction * 9 / 8 / BLOCK)  # rounds that a GPU began
    blocks = longer if longer > 2 * MOST_BLOCKS else MOST_BLOCKS
    outputs, slots = objective.contexts + shared, blocks * objective.slots
    plans = AHEAD * (28 * (blocks * BLOCK + 2 * model.window) + 4 * blocks * shared + 12 * slots)
    deltas = 4 * (objective.width + 1) * min(slots, PART_BLOCKS * objective.slots)
    strips = 4 * (BLOCK + outputs) * -(-objective.width // STRIP) * STRIP
    scratch = strips + 4 * BLOCK * (outputs + shared) + 16 * PART_BLOCKS * objective.slots + (8 << MOST_BITS)
    return plans + deltas + threads * scratch


def step_bytes(problem: Problem) -> int:
    """What a step takes on disk."""
    n_vocab, dim = len(problem.vocabulary.counts), problem.model.dim
    positions = problem.model.context_length if problem.positions_learned else 0
    return 4 * dim * (2 * n_vocab + positions) + 8 * n_vocab


def check_memory(problem: Problem, needs: Needs, *, fixed: Collection[str] = ()) -> None:
    """Refuse a training that does not fit into memory, or not on its CUDA device.

    Raises SgnsError with the values of keys that would fit.
    """
    needed, there = needs.memory(problem), available_memory()
    if needed > there:
        message = f"training needs {amount(needed, 'B')} of memory, and {amount(there, 'B')} are available"
        raise SgnsError(message, _way_out(problem, lambda smaller: needs.memory(smaller) <= there, fixed=fixed))
    check_device(problem, needs, fixed=fixed)


def check_device(problem: Problem, needs: Needs, *, fixed: Collection[str] = ()) -> None:
    """Refuse a training that does not fit on its CUDA device. Raises SgnsError with the values of keys that would."""
    if not needs.device.startswith("cuda"):
        return
    import torch

    def on_device(problem: Problem) -> int:
        averaged = matrix_bytes(problem) if needs.processes > 1 else 0  # the tables as they last were
        return device_bytes(problem, needs.device) + averaged

    needed, there = on_device(problem), torch.cuda.mem_get_info(needs.device)[0]
    if needed > there:
        message = f"training needs {amount(needed, 'B')} on {needs.device}, and {amount(there, 'B')} are free there"
        raise SgnsError(message, _way_out(problem, lambda smaller: on_device(smaller) <= there, fixed=fixed))


def check_disk(problem: Problem, run: RunConfig, folder: Path, *, fixed: Collection[str] = ()) -> None:
    """Refuse a training whose steps do not fit on the disk of its run folder.

    One more than run.keep_checkpoints is there for a moment; steps that are there already go as new ones come.
    Raises SgnsError with the values of keys that would fit.
    """
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    held = sum(map(size, run_folder.steps(folder)))

    def fit(smaller: Problem, keep: int) -> bool:
        step, most = step_bytes(smaller), keep + 1 if smaller.train.epochs else 1
        return step <= free and most * step <= free + held

    keep, step = run.keep_checkpoints, amount(step_bytes(problem), "B")
    if fit(problem, keep):
        return
    fewer = _largest(keep, lambda fewer: fit(problem, fewer))
    way_out = _way_out(problem, lambda smaller: fit(smaller, keep), fixed=fixed, what="disk")
    raise SgnsError(
        f"{folder} has no room for {keep} checkpoints and a new one: a step takes {step}, and "
        f"{amount(free, 'B')} are free",
        f"set run.keep_checkpoints to {fewer}, or {way_out}" if fewer else way_out,
    )


def _way_out(problem: Problem, fits: Fits, *, fixed: Collection[str], what: str = "memory") -> str:
    """What to do about a training that does not fit: the values of keys with which it would, but for `fixed` ones."""
    ways = []
    if "model.dim" not in fixed:
        dim = _largest(problem.model.dim, lambda dim: fits(_with_dim(problem, dim)))
        if dim:
            ways.append(f"set model.dim to {dim} or less")
    if "model.min_count" not in fixed:
        rows = _largest(problem.vocabulary.rows, lambda rows: fits(_with_rows(problem, rows)))
        if rows:
            counts = problem.vocabulary.counts[problem.vocabulary.ids]  # falling
            min_count = int(counts[rows]) + 1
            left = int(np.count_nonzero(counts >= min_count))
            if left:
                ways.append(f"set model.min_count to {min_count} or more ({left:,} rows)")
    return ", or ".join([*ways, f"free some {what}" if what == "disk" else "train where there is more memory"])


def _largest(end: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 on, below `end`, that fits, as all smaller ones do; 0 if none does."""
    return bisect_left(range(1, end), True, key=lambda number: not fits(number))


def _with_dim(problem: Problem, dim: int) -> Problem:
    return replace(problem, model=problem.model.model_copy(update={"dim": dim}))


def _with_rows(problem: Problem, rows: int) -> Problem:
    """The problem with its most frequent rows alone, as a larger min_count has it."""
    return replace(problem, vocabulary=replace(problem.vocabulary, ids=problem.vocabulary.ids[:rows]))
