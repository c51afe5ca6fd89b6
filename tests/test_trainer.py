"""The loop: what it reports, when it saves, where it may stop, and that stopping changes nothing."""

import math

import numpy as np
import pytest
from problems import zipf_problem

from sgns_cli.errors import SgnsError
from sgns_cli.training.cpu_engine import CpuEngine
from sgns_cli.training.engine import initial_matrices
from sgns_cli.training.trainer import Pace, Saved, train

ALWAYS = Pace(log_seconds=1e-9, checkpoint_minutes=1e9)
AT_THE_END = Pace(log_seconds=1e9, checkpoint_minutes=1e9)


def problem_of(**train_options):
    return zipf_problem(tokens=20_000, documents=300, train={"epochs": 3, **train_options})


def run(problem, *, engine=None, step=0, pace=AT_THE_END, stopped=lambda: False):
    engine = engine or CpuEngine(problem, initial_matrices(problem))
    saved = []
    records = list(train(problem, engine, Saved(step), pace=pace, save=saved.append, stopped=stopped))
    return engine, records, saved


def test_reports_cover_every_token_of_every_epoch():
    problem = problem_of()
    _, records, saved = run(problem, pace=ALWAYS)
    last = records[-1]
    assert last.step == problem.total_rounds == 3 * problem.epoch_rounds
    assert last.tokens_seen == last.tokens_total == 3 * problem.epoch_tokens
    assert last.epoch == 3
    assert [record.step for record in records] == sorted({record.step for record in records})
    assert records[0].step == 0
    assert records[0].loss is None
    assert saved == [last]
    assert all(record.held_out_loss is None for record in records if record.epoch == 1)
    assert last.held_out_loss is not None


def test_the_learning_rate_falls_linearly_to_its_floor():
    problem = problem_of(learning_rate=0.02, final_learning_rate=0.004)
    _, records, _ = run(problem, pace=ALWAYS)
    for record in records:
        share = record.tokens_seen / record.tokens_total
        assert record.learning_rate == pytest.approx(max(0.004, 0.02 * (1 - share)))
    assert records[0].learning_rate == 0.02
    assert records[-1].learning_rate == 0.004


def test_the_kernel_uses_the_learning_rate_of_the_reports():
    """With a floor as high as the start every round has the same rate; the last round tells the two apart."""
    falling, floored = problem_of(final_learning_rate=0.0), problem_of(final_learning_rate=0.025)
    start = initial_matrices(falling)["vectors"].copy()
    moved = []
    for problem in (falling, floored):
        engine = CpuEngine(problem, initial_matrices(problem))
        engine.train(2, (problem.epoch_rounds - 1) * problem.span, problem.epoch_tokens)
        contexts = engine.matrices()["contexts"]
        moved.append(np.abs(contexts).max())
        assert (engine.matrices()["vectors"] == start).all()  # contexts are zero: no pull on vectors yet
    rate = falling.learning_rate(falling.total_rounds - 1)
    assert 0 < rate < 0.001
    assert moved[0] / moved[1] == pytest.approx(rate / 0.025, rel=1e-4)


@pytest.mark.parametrize("share", [0.1, 0.34, 0.9])
@pytest.mark.parametrize("positions", ["none", "learned"])
def test_stopping_and_going_on_gives_the_same_bytes(share, positions):
    problem = zipf_problem(
        tokens=20_000, documents=300, model={"positions": positions, "context_length": 30}, train={"epochs": 3}
    )
    whole, _, _ = run(problem)
    halt = int(problem.total_rounds * share)
    engine = CpuEngine(problem, initial_matrices(problem))
    epoch, rounds = divmod(halt, problem.epoch_rounds)
    for done in range(epoch):
        engine.train(done, 0, problem.epoch_tokens)
    engine.train(epoch, 0, rounds * problem.span)
    resumed, records, _ = run(problem, engine=engine, step=halt)
    assert records[-1].step == problem.total_rounds
    for name, matrix in whole.matrices().items():
        assert matrix.tobytes() == resumed.matrices()[name].tobytes()


def test_a_request_to_stop_is_saved_where_it_stands():
    problem = problem_of()
    asked = iter([False, False, True])
    _, records, saved = run(problem, stopped=lambda: next(asked))
    assert records == saved
    assert 0 < records[-1].step < problem.total_rounds
    assert records[-1].held_out_loss is not None


def test_checkpoints_come_at_their_interval():
    problem = problem_of()
    _, records, saved = run(problem, pace=Pace(log_seconds=1e9, checkpoint_minutes=1e-9))
    assert saved == records
    assert len(saved) > 2


def test_no_epochs_saves_the_untrained_matrices():
    problem = problem_of(epochs=0)
    engine, records, saved = run(problem)
    assert records == saved
    assert (records[0].step, records[0].epoch, records[0].loss) == (0, 0, None)
    assert records[0].held_out_loss == pytest.approx(6 * math.log(2), rel=0.2)
    assert (engine.matrices()["vectors"] == initial_matrices(problem)["vectors"]).all()


def test_a_loss_that_is_no_number_ends_training_and_is_not_saved():
    problem = problem_of()
    matrices = initial_matrices(problem)
    matrices["vectors"][0, 0] = np.nan
    saved = []
    engine = CpuEngine(problem, matrices)
    with pytest.raises(SgnsError, match=r"nan at step \d+ \(learning rate"):
        list(train(problem, engine, Saved(), pace=AT_THE_END, save=saved.append))
    assert saved == []
