"""What a map shows and where: points, places, labels; and the losses of a run as they are read."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import WORD_COUNTS, WORDS, Written, write_run
from hypothesis import given
from hypothesis import strategies as st
from maps import REPORT, later, random_rows, write_metrics

from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.errors import SgnsError
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.plot.labels import CROWDED, GAP, place_labels
from sgns_cli.vectors.plot.layout import lay_out, pca
from sgns_cli.vectors.plot.losses import loss_records, read_losses
from sgns_cli.vectors.plot.points import LONGEST, Point, Scale, choose_points
from sgns_cli.vectors.plot.token_map import make_map, map_records, percent
from sgns_cli.vectors.query import resolve_query


def distances(places: np.ndarray) -> np.ndarray:
    return np.sqrt(((places[:, None] - places[None]) ** 2).sum(axis=-1))


@pytest.mark.parametrize(("points", "dim"), [(50, 8), (8, 50), (20, 20), (2, 5), (40_000, 3)])
def test_pca_is_that_of_numpy(points: int, dim: int) -> None:
    rows = random_rows(points, dim) * np.linspace(3, 1, dim, dtype=np.float32)
    layout = pca(rows)
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    known = np.flatnonzero(singular[:2] > 1e-6 * singular[0])
    expected = (left * singular)[:, known]
    assert np.allclose(np.abs(layout.places[:, known]), np.abs(expected), atol=1e-4)
    assert np.allclose(np.array(layout.shares)[known], (singular**2 / (singular**2).sum())[known], atol=1e-6)


def test_pca_keeps_the_distances_of_what_is_flat_already() -> None:
    flat = random_rows(30, 2)
    turn = np.linalg.qr(random_rows(7, 7, seed=1).astype(np.float64))[0][:2]
    layout = pca((flat @ turn).astype(np.float32))
    assert np.allclose(distances(layout.places), distances(flat), atol=1e-5)
    assert sum(layout.shares) == pytest.approx(1)


def test_places_repeat_and_do_not_hang_on_length() -> None:
    rows = random_rows(40, 6)
    longer = rows * np.linspace(1, 9, 40, dtype=np.float32)[:, None]
    assert (lay_out(rows, "pca").places == lay_out(rows.copy(), "pca").places).all()
    assert np.allclose(lay_out(rows, "pca").places, lay_out(longer, "pca").places, atol=1e-5)


@pytest.mark.parametrize(
    "rows", [np.ones((1, 4)), np.ones((5, 4)), np.zeros((3, 4)), np.ones((6, 1)), np.zeros((2, 1))]
)
def test_nothing_to_tell_apart_lies_in_one_place(rows: np.ndarray) -> None:
    layout = lay_out(rows.astype(np.float32), "pca")
    assert layout.places.shape == (len(rows), 2)
    assert not layout.places.any()
    assert layout.shares == (0, 0)


def test_two_points_lie_on_a_line() -> None:
    layout = lay_out(random_rows(2, 50), "pca")
    assert layout.shares == (pytest.approx(1), 0)
    assert not layout.places[:, 1].any()


def test_tsne_repeats_and_keeps_groups_together() -> None:
    pytest.importorskip("sklearn")
    groups = np.repeat(np.eye(3, 9, dtype=np.float32), 12, axis=0) + 0.05 * random_rows(36, 9)
    places = lay_out(groups, "tsne").places
    assert (places == lay_out(groups.copy(), "tsne").places).all()
    apart = distances(places)
    np.fill_diagonal(apart, np.inf)
    assert (apart.argmin(axis=1) // 12 == np.arange(36) // 12).all()
    assert lay_out(groups, "tsne").shares is None


def test_tsne_of_few_and_of_equal_points() -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(SgnsError, match="t-SNE needs 4 points or more, and here are 3") as raised:
        lay_out(random_rows(3, 5), "tsne")
    assert "--method pca" in raised.value.hint
    assert not lay_out(np.ones((9, 5), np.float32), "tsne").places.any()
    assert np.isfinite(lay_out(random_rows(4, 5), "tsne").places).all()
    assert np.isfinite(lay_out(np.ones((6, 1), np.float32) * [[1], [1], [1], [-1], [-1], [1]], "tsne").places).all()


@given(
    st.lists(st.tuples(st.floats(-20, 420), st.floats(-20, 320), st.floats(5, 120), st.floats(5, 30)), max_size=40),
    st.integers(0, 10),
)
def test_no_two_labels_overlap(points: list[tuple[float, float, float, float]], wanted: int) -> None:
    places = np.array([point[:2] for point in points]).reshape(-1, 2)
    sizes = np.array([point[2:] for point in points]).reshape(-1, 2)
    wanted = min(wanted, len(points))
    labels = place_labels(places, np.full(len(points), 4.0), sizes, width=400, height=300, wanted=wanted)
    boxes = np.array([(one.x, one.y, *(np.array((one.x, one.y)) + sizes[one.index])) for one in labels]).reshape(-1, 4)
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= [400, 300]).all()
    for number, box in enumerate(boxes):
        others = np.delete(boxes, number, axis=0)
        apart = (others[:, :2] - box[2:] >= GAP - 1e-9) | (box[:2] - others[:, 2:] >= GAP - 1e-9)
        assert apart.any(axis=1).all()
        inside = ((places[:wanted] > box[:2]) & (places[:wanted] < box[2:])).all(axis=1)
        assert not inside.any()


def test_a_label_alone_lies_to_the_right_and_a_crowded_one_goes_away() -> None:
    alone = place_labels(np.array([[50.0, 50.0]]), np.array([4.0]), np.array([[30.0, 10.0]]), width=200, height=100)
    assert [(one.index, one.x, one.y, one.line_to) for one in alone] == [(0, 58, 45, None)]
    crowd = np.concatenate([[[100.0, 100.0]], random_rows(400, 2) * 12 + 100])
    (far,) = place_labels(crowd, np.full(401, 3.0), np.array([[30.0, 10.0]]), width=200, height=200, wanted=1)
    assert far.line_to is not None
    assert not place_labels(crowd, np.full(401, 3.0), np.array([[30.0, 10.0]]), width=200, height=200)
    assert place_labels(crowd, np.full(401, 3.0), np.array([[30.0, 10.0]]), width=200, height=200, crowded=True)


def test_a_label_that_need_not_be_seen_covers_few_points() -> None:
    for others in (CROWDED, CROWDED + 1):
        points = np.array([[5.0, 5.0], *[[28.0, 5.0]] * others])  # only to the right is there room
        radii, sizes = np.full(len(points), 4.0), np.array([[30.0, 10.0]])
        options = [{}, {"crowded": True}, {"wanted": 1}]
        placed = [bool(place_labels(points, radii, sizes, width=50, height=11, **option)) for option in options]
        assert placed == [others == CROWDED, True, True]


def opened(run: Written) -> Model:
    return open_model(run.path)


def test_queries_come_first_then_their_neighbours_then_the_most_frequent(word_run: Written) -> None:
    model = opened(word_run)
    queries = [resolve_query(model, text) for text in ("gold", "dog cat", "gold")]
    points, vectors = choose_points(model, queries, k=2, top=3)
    assert [point.label for point in points[:2]] == ["gold", "dog cat"]
    assert [point.role for point in points[:2]] == ["query", "query"]
    assert points[1].ids == (1, 4)
    assert (points[1].count, points[1].rank) == (None, None)
    assert (points[0].count, points[0].rank) == (30, 7)
    neighbours = [point for point in points if point.near]
    assert {query for point in neighbours for query, _ in point.near} == {0, 1}
    assert sum(len(point.near) for point in neighbours) == 4
    assert {"the", "dog", "fetched"} <= {point.label for point in points}
    assert len({point.ids for point in points}) == len(points)
    assert np.allclose(vectors[1], word_run.embeddings[[1, 4]].mean(axis=0))
    assert np.array_equal(vectors[0], word_run.embeddings[6])
    for point, vector in zip(points[2:], vectors[2:], strict=True):
        assert np.array_equal(vector, word_run.embeddings[point.ids[0]])


def test_centred_vectors_and_no_neighbours(word_run: Written) -> None:
    model = opened(word_run)
    points, vectors = choose_points(model, [resolve_query(model, "gold")], k=0, top=0, centre=True)
    assert [point.label for point in points] == ["gold"]
    mean = word_run.embeddings[np.array(WORD_COUNTS) >= 5].mean(axis=0)
    assert np.allclose(vectors[0], word_run.embeddings[6] - mean, atol=1e-6)
    assert choose_points(model, [], k=8, top=1, kind="context")[1].tolist() == [word_run.contexts[0].tolist()]


def test_the_top_has_trained_tokens_only_and_none_is_an_error(tmp_path: Path, word_run: Written) -> None:
    points, _ = choose_points(opened(word_run), [], k=8, top=100)
    assert [point.label for point in points] == WORDS[:-1]
    assert [point.rank for point in points] == list(range(1, 9))
    untrained = write_run(tmp_path / "none", WhitespaceTokenizer(WORDS), np.ones(9, dtype=np.int64))
    with pytest.raises(SgnsError, match="was trained"):
        choose_points(opened(untrained), [], k=8, top=3)


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    rows = np.ones((9, 4))
    rows[2, 1] = np.nan
    run = write_run(tmp_path / "nan", WhitespaceTokenizer(WORDS), np.array(WORD_COUNTS), dim=4, embeddings=rows)
    with pytest.raises(SgnsError, match="not finite"):
        choose_points(opened(run), [], k=8, top=5)
    with pytest.raises(SgnsError, match="not finite"):
        choose_points(opened(run), [], k=8, top=1, centre=True)


def without_counts() -> Model:
    return Model(Path("words.vec"), random_rows(9, 4), load_tokenizer=lambda: WhitespaceTokenizer(WORDS))


def test_vectors_from_elsewhere_are_coloured_by_their_rank() -> None:
    shown = make_map(without_counts(), [], k=0, top=100)
    assert (shown.scale.counted, shown.scale.low, shown.scale.high) == (False, 1, 9)
    assert (shown.title, shown.scale.title) == ("The first 9 tokens", "rank in the file")
    shades = [shown.scale.shade(point) for point in shown.points]
    assert (shades[0], shades[-1]) == (1, 0)
    assert shades == sorted(shades, reverse=True)
    assert {record["count"] for record in map_records(without_counts(), shown)} == {None}


def test_shades_go_by_the_logarithm_of_counts() -> None:
    scale = Scale(counted=True, low=10, high=1000)
    shades = [scale.shade(Point("x", (0,), count, 1)) for count in (10, 100, 1000, None)]
    assert shades == [0, pytest.approx(0.5), 1, None]
    assert Scale(True, 7, 7).shade(Point("x", (0,), 7, 1)) == 0.5


@pytest.mark.parametrize("counted", [True, False])
def test_the_ends_of_a_scale_are_its_rarest_and_its_most_frequent_point(counted: bool) -> None:
    scale = Scale(counted, 1, 9)
    assert [scale.shade(Point("x", (0,), end, end)) for end in scale.ends] == [0, 1]


def test_long_labels_are_cut() -> None:
    assert Point("a" * LONGEST, (0,), 1, 1).short == "a" * LONGEST
    assert Point("a" * 90, (0,), 1, 1).short == "a" * (LONGEST - 1) + "…"


def test_the_words_of_a_map(word_run: Written) -> None:
    model = opened(word_run)
    one, two = resolve_query(model, "gold"), resolve_query(model, "dog cat")
    titles = [
        make_map(model, queries, k=k, top=top).title
        for queries, k, top in [([], 8, 3), ([], 8, 1), ([one], 2, 0), ([one, two], 2, 5), ([one], 0, 0)]
    ]
    assert titles == [
        "The 3 most frequent tokens",
        "The most frequent token",
        "gold and its nearest tokens",
        "gold, dog cat, their nearest tokens and the 5 most frequent tokens",
        "gold",
    ]
    assert [percent(share) for share in (0.234, 0.045, 0, 1)] == ["23 %", "4.5 %", "0 %", "100 %"]


def test_records_have_the_promised_fields(word_run: Written) -> None:
    model = opened(word_run)
    shown = make_map(model, [resolve_query(model, "dog cat")], k=1, top=0)
    mean, neighbour = map_records(model, shown)
    assert list(mean) == ["token", "id", "bytes", "count", "x", "y"]
    assert (mean["token"], mean["id"], mean["bytes"], mean["count"]) == ("dog cat", None, "", None)
    assert neighbour["bytes"] == str(neighbour["token"]).encode().hex()


def test_losses_are_read_in_order_with_the_ends_of_epochs(word_run: Written) -> None:
    write_metrics(word_run.path, REPORT, later(9, loss=None), later(15, held_out_loss=2.25))
    losses = read_losses(word_run.step)  # of a step, or of its run
    assert losses == read_losses(word_run.path)
    assert losses.epoch_marks == [(1, 500), (2, 1000), (3, 1500)]
    records = list(loss_records(losses))
    assert list(records[0]) == ["step", "epoch", "tokens_seen", "loss", "held_out_loss", "learning_rate"]
    assert [record["tokens_seen"] for record in records] == [500, 900, 1500]
    assert losses.subtitle == "3 reports, 1,500 tokens seen · held-out loss 2.250"


def test_of_many_epochs_some_are_marked(word_run: Written) -> None:
    write_metrics(word_run.path, later(20), epochs=50)
    assert [epoch for epoch, _ in read_losses(word_run.path).epoch_marks] == list(range(3, 51, 3))
    write_metrics(word_run.path, later(0), epochs=50)
    assert read_losses(word_run.path).epoch_marks == []


def test_a_line_that_is_being_written_is_left_out(word_run: Written) -> None:
    write_metrics(word_run.path, REPORT, '{"step": 6, "ep', end="")
    assert len(read_losses(word_run.path).reports) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "it is no report"),
        ("", "it is no report"),
        ("[1]", "it is no report"),
        (json.dumps(later(6, loss="2.5")), "it is no report"),
        (json.dumps(later(6, learning_rate=None)), "it is no report"),
        (json.dumps(later(6, tokens_seen=1.5)), "it is no report"),
        (json.dumps(REPORT | {"step": True}), "it is no report"),
        (json.dumps(later(6, loss=float("nan"))), "it is no report"),
        (json.dumps(later(4)), "step 4 after step 5"),
    ],
)
def test_a_damaged_line_is_named(word_run: Written, line: str, why: str) -> None:
    write_metrics(word_run.path, REPORT, line, later(9))
    with pytest.raises(SgnsError, match=f"metrics.jsonl, line 2 is damaged: {why}"):
        read_losses(word_run.path)


def test_no_reports_and_no_run(word_run: Written, tmp_path: Path) -> None:
    with pytest.raises(SgnsError, match="it is no run of sgns"):
        read_losses(word_run.path)
    write_metrics(word_run.path, end="")
    with pytest.raises(SgnsError, match="has no reports"):
        read_losses(word_run.path)
    file = tmp_path / "words.vec"
    file.write_text("1 1\na 1\n", encoding="utf-8")
    with pytest.raises(SgnsError, match=r"words\.vec has no losses: it is no run of sgns"):
        read_losses(file)
