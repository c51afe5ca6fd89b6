"""The draws of draws.py on a device of torch: the same kept tokens, windows and negatives, for many rounds at once.

64-bit integers of torch have a sign and wrap around, so products and sums are those of draws.py; only shifts to the
right have to be told to bring in zeros.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgns_cli.training.draws import (
    GOLDEN,
    MIX_1,
    MIX_2,
    NEGATIVES,
    TOKENS,
    Chances,
    Corpus,
)

_LOW = 0xFFFFFFFF


@dataclass(frozen=True)
class DeviceChances:
    """What the draws are made from (`Chances`), on a device."""

    rows: Tensor  # int32 [n_vocab]
    keep: Tensor  # int64 [n_vocab]
    accept: Tensor  # int64 [R]
    alias: Tensor  # int32 [R]

    @classmethod
    def of(cls, chances: Chances, device: str) -> "DeviceChances":
        arrays = (chances.rows, chances.keep.view(np.int64), chances.accept.view(np.int64), chances.alias)
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))


@dataclass(frozen=True)
class Stretch:
    """Kept tokens of a stretch of the corpus and of the windows that reach out of it, in order."""

    rows: Tensor  # int32 [n] training rows
    places: Tensor  # int64 [n] positions in the corpus
    offsets: Tensor  # int64 [n] positions in their documents, before anything is dropped
    low: Tensor  # int32 [n] a centre's window is low..high-1 without the centre itself
    high: Tensor  # int32 [n]
    bounds: list[int]  # [rounds + 1] where the centres of each round begin, and those of the last end


def draw_stretch(
    corpus: Corpus,
    tokens: Tensor,
    begin: int,
    chances: DeviceChances,
    seed: int,
    epoch: int,
    edges: list[int],
    window: int,
) -> Stretch:
    """Draw rounds whose spans lie between neighbours of `edges` [rounds + 1], places of the corpus.

    `tokens` [end - begin] are the ids of the corpus on the device from `begin` on, as far as windows reach
    (`reach_of`). Waits for the device.
    """
    device, end = tokens.device, begin + len(tokens)
    bits = _bits_at(_stream_key(seed, epoch, TOKENS), torch.arange(begin, end, device=device))
    kept = _shift_right(bits, 32) < chances.keep[tokens]
    before = torch.zeros(len(tokens) + 1, dtype=torch.int32, device=device)
    torch.cumsum(kept, 0, dtype=torch.int32, out=before[1:])
    bounds = before[torch.tensor([edge - begin for edge in edges], device=device)].tolist()

    chosen = kept.nonzero().squeeze(1)  # [n]
    first, last = np.searchsorted(corpus.documents, [begin, end], side="right")
    documents = torch.from_numpy(corpus.documents[first - 1 : last + 1].copy()).to(device)
    places = begin + chosen
    document = torch.searchsorted(documents, places, right=True) - 1
    opening, closing = documents[document], documents[document + 1]
    number = torch.arange(len(chosen), dtype=torch.int32, device=device)
    radius = (1 + _shift_right((bits[chosen] & _LOW) * window, 32)).int()
    return Stretch(
        rows=chances.rows[tokens[chosen]],
        places=places,
        offsets=places - opening,
        low=torch.maximum(number - radius, before[opening.clamp(min=begin) - begin]),
        high=torch.minimum(number + radius + 1, before[closing.clamp(max=end) - begin]),
        bounds=bounds,
    )


def draw_negatives(chances: DeviceChances, places: Tensor, seed: int, epoch: int, shared: int) -> Tensor:
    """For blocks whose first centres are at these places [blocks] of the corpus, rows of noise: int32 [blocks, N]."""
    keys = _bits_at(_stream_key(seed, epoch, NEGATIVES), places)[:, None]
    bits = _mix(keys + torch.arange(shared, device=places.device) * _signed(int(GOLDEN)))
    rows = _shift_right(_shift_right(bits, 32) * len(chances.accept), 32)
    return torch.where((bits & _LOW) < chances.accept[rows], rows.int(), chances.alias[rows])


def _stream_key(seed: int, epoch: int, stream: np.uint64) -> int:
    key = _mix(torch.tensor([_signed((seed * int(GOLDEN) + int(stream)) % 2**64)]))
    return int(_mix(key + _signed(epoch * int(GOLDEN) % 2**64)))


def _bits_at(key: int, counters: Tensor) -> Tensor:
    return _mix(counters * _signed(int(GOLDEN)) + key)


def _mix(number: Tensor) -> Tensor:
    number = (number ^ _shift_right(number, 30)) * _signed(int(MIX_1))
    number = (number ^ _shift_right(number, 27)) * _signed(int(MIX_2))
    return number ^ _shift_right(number, 31)


def _shift_right(number: Tensor, bits: int) -> Tensor:
    return (number >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """64 bits as torch counts them."""
    return number - (1 << 64) if number >> 63 else number
