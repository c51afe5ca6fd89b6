"""The specification: one round of training in plain torch, on any device. Every faster kernel is tested against it.

For a centre token with input x (its vector, plus its position's row where positions are learned), the context rows o
of its window, and the N negatives n that its block shares, in place of K drawn for each pair:

    loss = sum_o -log sigmoid(x . o)  +  sum_n w_n * -log sigmoid(-x . n),    w_n = K * (contexts that are not n) / N

which has the expectation of word2vec's loss (Mikolov et al. 2013) with its rule that a negative equal to the positive
does not count. All deltas of a round are computed from the parameters as they stood when it began. Then each row r
moves by the sum of what its pairs ask for. Where many of them are the same few pairs, that sum overshoots, so steps are
limited by curvature: -log sigmoid(s) lies below a parabola that touches it at s and has curvature tanh(s/2) / (2 s)
(Jaakkola and Jordan 2000), so the loss as a function of row r alone lies below one of curvature

    h_r = sum over its pairs of weight * tanh(s/2) / (2 s) * |other row|^2,    s = x . o

and a step below 2 / h_r cannot raise it. A score is moved by T tables at once (vectors and contexts, and positions
where they are learned), so each row has a T-th of that: its step is min(learning rate, 2 / (T * h_r)).

Letters: R rows of a table, D dim, M blocks, B centres a block, C context rows a block, N negatives a block, K negatives
a pair. A row of -1 is an empty slot. Knows nothing of files, config or text.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import softplus


@dataclass(frozen=True)
class Parameters:
    """What is learned; changed in place. `positions` is None where they are not learned."""

    vectors: torch.Tensor  # [R, D] input rows, which are published
    contexts: torch.Tensor  # [R, D] output rows
    positions: torch.Tensor | None  # [context_length, D]


@dataclass(frozen=True)
class Round:
    """The draws of a round, as indices into the tables."""

    centres: torch.Tensor  # [M, B] rows, -1 where the last block has no centre
    places: torch.Tensor  # [M, B] position rows of the centres, -1 likewise
    contexts: torch.Tensor  # [M, C] rows of the tokens around the block, -1 where there is none
    in_window: torch.Tensor  # [M, B, C] true where a context row is one of the centre's contexts
    negatives: torch.Tensor  # [M, N] rows


def round_loss(parameters: Parameters, draws: Round, *, negatives: int) -> tuple[float, int]:
    """The sum of the losses of a round's pairs and their number; nothing is trained."""
    scores, weights, signs = _scores(_inputs(parameters, draws), _outputs(parameters, draws), draws, negatives)
    return _loss(scores, weights, signs), int(draws.in_window.sum())


def train_round(parameters: Parameters, draws: Round, *, negatives: int, learning_rate: float) -> tuple[float, int]:
    """Train one round: change the parameters in place. Returns what `round_loss` gave before."""
    x, o = _inputs(parameters, draws), _outputs(parameters, draws)  # [M, B, D], [M, C + N, D]
    scores, weights, signs = _scores(x, o, draws, negatives)  # [M, B, C + N] each
    gradient = signs * weights * torch.sigmoid(-signs * scores)  # downhill for each score
    bend = weights * _curvature(scores)

    x_delta, x_bend = gradient @ o, bend @ o.square().sum(dim=2, keepdim=True)
    o_delta, o_bend = gradient.mT @ x, bend.mT @ x.square().sum(dim=2, keepdim=True)
    limit = 2 / (2 if parameters.positions is None else 3)
    _step(parameters.vectors, draws.centres, x_delta, x_bend, learning_rate, limit)
    _step(parameters.contexts, _output_rows(draws), o_delta, o_bend, learning_rate, limit)
    if parameters.positions is not None:
        _step(parameters.positions, draws.places, x_delta, x_bend, learning_rate, limit)
    return _loss(scores, weights, signs), int(draws.in_window.sum())


def _inputs(parameters: Parameters, draws: Round) -> torch.Tensor:
    """Input rows of the centres: [M, B, D]."""
    x = _gather(parameters.vectors, draws.centres)
    return x if parameters.positions is None else x + _gather(parameters.positions, draws.places)


def _outputs(parameters: Parameters, draws: Round) -> torch.Tensor:
    """Output rows of the blocks, contexts first, then negatives: [M, C + N, D]."""
    return _gather(parameters.contexts, _output_rows(draws))


def _output_rows(draws: Round) -> torch.Tensor:
    return torch.cat([draws.contexts, draws.negatives], dim=1)


def _gather(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of a table, zeros for empty slots: [..., D]."""
    return table[rows.clamp(min=0)] * (rows >= 0)[..., None]


def _scores(
    x: torch.Tensor, o: torch.Tensor, draws: Round, negatives: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores x . o, the weights of their losses, and +1 for contexts, -1 for negatives: each [M, B, C + N]."""
    in_window = draws.in_window.to(x.dtype)  # [M, B, C]
    clash = (draws.contexts[:, :, None] == draws.negatives[:, None, :]).to(x.dtype)  # [M, C, N]
    others = in_window.sum(dim=2, keepdim=True) - in_window @ clash  # [M, B, N] contexts that are not the negative
    weights = torch.cat([in_window, others * (negatives / clash.shape[2])], dim=2)
    signs = torch.cat([torch.ones_like(in_window), -torch.ones_like(others)], dim=2)
    return x @ o.mT, weights, signs


def _loss(scores: torch.Tensor, weights: torch.Tensor, signs: torch.Tensor) -> float:
    """Weighted -log sigmoid, summed in float64 over the blocks' float32 sums."""
    return float((weights * softplus(-signs * scores)).sum(dim=(1, 2)).cpu().double().sum())


def _curvature(scores: torch.Tensor) -> torch.Tensor:
    """tanh(s/2) / (2 s): 1/4 at zero, falling on both sides."""
    near_zero = scores.abs() < 0.01
    return torch.where(near_zero, 0.25, torch.tanh(scores / 2) / (2 * scores))


def _step(
    table: torch.Tensor,
    rows: torch.Tensor,
    deltas: torch.Tensor,
    bends: torch.Tensor,
    learning_rate: float,
    limit: float,
) -> None:
    """Move each row by the sum of its deltas times min(learning rate, limit / the sum of its curvatures)."""
    filled = rows.flatten() >= 0
    touched, slots = torch.unique(rows.flatten()[filled], return_inverse=True)
    deltas, bends = deltas.flatten(0, 1)[filled], bends.flatten()[filled]
    change = deltas.new_zeros(len(touched), table.shape[1]).index_add_(0, slots, deltas)
    bend = bends.new_zeros(len(touched)).index_add_(0, slots, bends)
    step = torch.clamp(limit / bend, max=learning_rate)  # limit / 0 is infinite: no limit
    table[touched] += step[:, None] * change
