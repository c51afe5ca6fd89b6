"""Rounds of training on a GPU, the equations of reference.py in Triton: two kernels for each part of a round.

`add_deltas` computes the blocks, a program each, from the parameters as they stand, and adds what they ask for to a
table of deltas and one of curvatures, by relaxed atomics. `move_rows` then moves each row by the sum of its deltas
times a step that its curvature limits, and leaves zeros there. Nothing is read that is written in the same kernel, so
a part of a round means what it means in reference.py; only the order in which float32 numbers are added is not fixed.

All rows lie in one table [2R + L, D]: vectors, then contexts, then positions. A row's number there is its key; -1 is an
empty slot. The letters are reference.py's; P outputs are handled at a time, and TILE columns of D.
"""

from typing import NamedTuple

from torch import Tensor

from sgns_cli.training.draws import BLOCK
from sgns_cli.training.kernels.gpu_block import add_deltas, move_rows


class Options(NamedTuple):
    """How the kernels compute, which changes no result but for rounding."""

    precision: str = "tf32"  # of the products' factors: tf32, or ieee for float32
    columns: int = 64  # of a row at a time, at most: factors of more of them do not fit into registers
    outputs: int = 64  # context rows, and negatives, at a time, at most
    warps: int = 8  # to a block


class Tables(NamedTuple):
    """What is learned, and what a part of a round asks of it: zero, but within a part."""

    rows: Tensor  # float32 [2R + L, D]
    deltas: Tensor  # float32 [2R + L, D]
    curvature: Tensor  # float32 [2R + L]


class Draws(NamedTuple):
    """Kept tokens, in their order, and negatives, block by block (gpu_draws.py makes them)."""

    rows: Tensor  # int32 [n] training rows
    places: Tensor  # int32 [n] rows of positions
    low: Tensor  # int32 [n] a centre's window is low..high-1 without the centre itself
    high: Tensor  # int32 [n]
    negatives: Tensor  # int32 [blocks * N] training rows


class Parts(NamedTuple):
    """Parts of rounds, trained one after another."""

    first: Tensor  # int32 [parts] the centres of a part are first..last-1 in the draws
    last: Tensor  # int32 [parts]
    block: Tensor  # int32 [parts] its first block
    rate: Tensor  # float32 [parts] its learning rate
    at: Tensor  # int32 [1] the first part of those that a kernel's `number` counts from


class Sums(NamedTuple):
    """What blocks report."""

    losses: Tensor  # float32 [blocks] sums of the losses of their pairs, before the step
    pairs: Tensor  # int32 [blocks]


class Shape(NamedTuple):
    """The numbers that the kernels are compiled for."""

    width: int  # D
    rows: int  # R
    context_length: int  # L, 0 where positions are not learned
    window: int
    negatives: int  # K
    shared: int  # N
    options: Options = Options()

    @property
    def tile(self) -> int:
        """Columns at a time."""
        return min(self.options.columns, max(16, _power_of_2(self.width)))

    @property
    def contexts(self) -> int:
        """Context rows at a time."""
        return min(self.options.outputs, _power_of_2(BLOCK + 2 * self.window))

    @property
    def outputs(self) -> int:
        """Negatives at a time."""
        return min(self.options.outputs, _power_of_2(self.shared))


def run_part(
    number: int, tables: Tables, draws: Draws, parts: Parts, sums: Sums, shape: Shape, blocks: int, *, moves: bool
) -> None:
    """The losses and pairs of part `parts.at + number`, of at most `blocks` blocks; where it `moves`, it is trained."""
    sizes = {
        "ROWS": shape.rows,
        "PLACES": shape.context_length,
        "WINDOW": shape.window,
        "SHARED": shape.shared,
        "NEGATIVES": shape.outputs,
        "WIDTH": shape.width,
        "TILE": shape.tile,
        "SIZE": BLOCK,
    }
    context_tiles = -(-(BLOCK + 2 * shape.window) // shape.contexts)
    add_deltas[(blocks,)](
        number,
        *tables,
        *draws,
        *parts,
        *sums,
        **sizes,
        WEIGHT=shape.negatives / shape.shared,
        CONTEXTS=shape.contexts,
        CONTEXT_TILES=context_tiles,
        OUTPUT_TILES=max(context_tiles, -(-shape.shared // shape.outputs)),
        MOVES=moves,
        PRECISION=shape.options.precision,
        num_warps=shape.options.warps,
    )
    if moves:
        groups, kinds = blocks + -(-2 * shape.window // BLOCK), 4 if shape.context_length else 3
        limit = 2 / (3 if shape.context_length else 2)
        move_rows[(groups, kinds)](number, *tables, *draws, *parts, **sizes, LIMIT=limit)


def _power_of_2(number: int) -> int:
    """The next one: tensors of Triton have no other sizes."""
    return 1 << (number - 1).bit_length()
