"""plot, as people run it; and its pictures."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import WORDS, Result, Written
from maps import REPORT, hostile, later, words, write_metrics

from sgns_cli.vectors.plot.token_map import make_map
from sgns_cli.vectors.query import resolve_query

Sgns = Callable[..., Result]
PNG = b"\x89PNG\r\n\x1a\n"


def test_a_page_of_the_most_frequent_tokens(sgns: Sgns, word_run: Written) -> None:
    result = sgns("plot", "-o", "map.html")
    assert (result.code, result.out) == (0, "")
    assert "note: using runs/words/step-00000010" in result.err
    assert "note: wrote map.html: 8 tokens, PCA (" in result.err
    assert "The 8 most frequent tokens" in Path("map.html").read_text(encoding="utf-8")
    assert sgns("plot", "-o", "map.html", "-q").err == ""


def test_the_fields_of_json(sgns: Sgns, bpe_run: Written) -> None:
    result = sgns("plot", "silver", "abc", "--json", "-k", 2, "--top", 3, "--model", bpe_run.path)
    assert result.code == 0
    records = [json.loads(line) for line in result.out.splitlines()]
    assert list(records[0]) == ["token", "id", "bytes", "count", "x", "y"]
    assert records[0]["token"] == "␣silver"
    assert records[0]["bytes"] == b" silver".hex()
    assert (records[1]["token"], records[1]["id"], records[1]["bytes"], records[1]["count"]) == ("abc", None, "", None)
    assert len({record["token"] for record in records}) == len(records)
    assert {"the␣", "␣silver", "␣gold"} <= {record["token"] for record in records}
    assert "asking for their mean" in result.err


def test_json_and_a_file_together(sgns: Sgns, word_run: Written) -> None:
    result = sgns("plot", "dog", "-k", 3, "--json", "-o", "map.html")
    assert len(result.out.splitlines()) == 4
    assert "wrote map.html: 4 tokens" in result.err
    assert Path("map.html").exists()


def test_the_same_numbers_each_time_and_for_other_matrices_others(sgns: Sgns, word_run: Written) -> None:
    pytest.importorskip("sklearn")
    for options in ([], ["--method", "tsne"], ["--centre"], ["--vectors", "sum"]):
        outputs = [sgns("plot", "--json", *options).out for _ in range(2)]
        assert outputs[0] == outputs[1]
        assert len(outputs[0].splitlines()) == 8
        if options:
            assert outputs[0] != sgns("plot", "--json").out


def test_a_token_that_fails_is_reported_and_the_others_are_drawn(sgns: Sgns, word_run: Written) -> None:
    result = sgns("plot", "dog", "silvr", "-k", 1, "-o", "map.html")
    assert result.code == 1
    assert "error: 'silvr' is no token of this model\nhint: nearest trained: silver" in result.err
    assert "wrote map.html: 2 tokens" in result.err
    Path("map.html").unlink()
    result = sgns("plot", "dgo", "silvr", "-o", "map.html")
    assert (result.code, result.err.count("error: ")) == (1, 2)
    assert not Path("map.html").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        ([], 2, "no file to draw into", "-o map.png or -o map.html, or --json"),
        (["--loss"], 2, "no file to draw into", "-o loss.png or -o loss.html, or --json"),
        (["-o", "map.svg"], 2, "map.svg is no .png and no .html", "choose one of these endings"),
        (["-o", "map"], 2, "map is no .png and no .html", "choose one of these endings"),
        (["--loss", "dog", "-o", "l.html"], 2, "--loss takes no TOKEN", "leave them out, or --loss"),
        (["--loss", "--top", "5", "--json"], 2, "--loss takes no --top", "leave them out, or --loss"),
        (["--loss", "-k", "8", "--json", "--method", "pca"], 2, "--loss takes no -k and no --method", "leave them out"),
        (["--loss", "--vectors", "input", "--json", "--centre"], 2, "--loss takes no --vectors and no --centre", ""),
        (["--loss", "--tensor", "x", "--json", "--encoding", "y"], 2, "--loss takes no --tensor and no --encoding", ""),
        (["--top", "0", "--json"], 2, "Invalid value for '--top'", "sgns plot --help"),
        (["-k", "-1", "--json"], 2, "Invalid value for '-k'", "sgns plot --help"),
        (["--method", "umap", "--json"], 2, "Invalid value for '--method'", "sgns plot --help"),
        (["", "--json"], 2, "the query is empty", "give a word"),
        (["xyz", "--json"], 1, "'xyz' is no token of this model", ""),
        (["dog", "-k", "2", "--method", "tsne", "--json"], 1, "t-SNE needs 4 points or more, and here are 3", "pca"),
        (["--loss", "--json"], 1, "has no losses: it is no run of sgns", "--model"),
        (["-o", "nowhere/map.html"], 1, "cannot write nowhere/map.html", ""),
        (["--json", "--model", "nowhere"], 1, "there is no run at nowhere", ""),
    ],
)
def test_what_fails(sgns: Sgns, word_run: Written, arguments: list[str], code: int, message: str, hint: str) -> None:
    result = sgns("plot", *arguments)
    assert (result.code, result.out) == (code, "")
    assert f"error: {message}" in result.err or message in result.err.splitlines()[-2]
    assert hint in result.err.splitlines()[-1]


def test_tokens_from_stdin(sgns_process, word_run: Written) -> None:
    done = sgns_process("plot", "-", "-k", 0, "--json", "-q", stdin="dog\ncat\n")
    assert [json.loads(line)["token"] for line in done.stdout.splitlines()] == ["dog", "cat"]
    done = sgns_process("plot", "-", "--json", stdin="")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: no query came on standard input" in done.stderr


def test_a_map_on_a_page_loads_neither_matplotlib_nor_scikit_learn(word_run: Written) -> None:
    code = (
        "import sys; from sgns_cli.cli import main; assert main(['plot', 'dog', '-o', 'map.html', '-q']) == 0; "
        "assert not {'matplotlib', 'sklearn', 'scipy', 'torch', 'tiktoken', 'yaml', 'rich'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], cwd=word_run.path.parents[1], env=environment, timeout=60, check=True)


@pytest.mark.parametrize(
    ("package", "arguments", "message"),
    [
        ("matplotlib", ["-o", "map.png"], "drawing a PNG needs matplotlib"),
        ("matplotlib", ["--loss", "-o", "loss.png"], "drawing a PNG needs matplotlib"),
        ("sklearn", ["--method", "tsne", "--json"], "t-SNE needs scikit-learn"),
    ],
)
def test_without_the_extra(
    sgns: Sgns, word_run: Written, monkeypatch: pytest.MonkeyPatch, package: str, arguments: list[str], message: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = sgns("plot", *arguments)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {message}\nhint: pip install 'sgns-cli[plot]'")
    assert sgns("plot", "-o", "map.html").code == 0


def test_a_picture_is_the_same_bytes_each_time(sgns: Sgns, word_run: Written) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.png", "b.png"):
        result = sgns("plot", "dog", "silver gold", "-k", 3, "--top", 5, "-o", name)
        assert result.code == 0, result.err
    picture = Path("a.png").read_bytes()
    assert picture == Path("b.png").read_bytes()
    assert picture.startswith(PNG)
    assert [int.from_bytes(picture[start : start + 4], "big") for start in (16, 20)] == [1600, 1200]
    assert b"tEXt" not in picture


def test_pictures_of_hostile_of_single_and_of_many_tokens(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from sgns_cli.vectors.plot.map_picture import draw_map_picture

    model = hostile()
    query = resolve_query(model, "$x$")
    maps = [
        make_map(model, [query], k=3, top=50),
        make_map(model, [query], k=0, top=0),
        make_map(words(2500), [], k=0, top=2500),
    ]
    for shown in maps:  # warnings, as of missing characters, are errors here
        draw_map_picture(shown, tmp_path / "map.png")
        assert (tmp_path / "map.png").read_bytes().startswith(PNG)


def test_characters_that_no_font_has_are_escaped() -> None:
    pytest.importorskip("matplotlib")
    from sgns_cli.vectors.plot.fonts import Fonts, quiet_matplotlib

    with quiet_matplotlib():
        fonts = Fonts(["␣the⏎", "\ue123\U0010fffd"])
    assert fonts.drawable("␣the⏎") == "␣the⏎"
    assert fonts.drawable("a\ue123\U0010fffd") == r"a\ue123\U0010fffd"


SLOW_SEARCH_FOR_FONTS = """
import sys, threading
class Timer(threading.Timer):
    start = threading.Timer.run  # at once: matplotlib warns of its search for fonts if it takes seconds
    def __init__(self, interval, function): super().__init__(0, function)
threading.Timer = Timer
from sgns_cli.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("arguments", [[], ["--loss"]])
@pytest.mark.parametrize("folder", ["new", "file"])
def test_matplotlib_says_nothing_where_it_never_ran(
    word_run: Written, tmp_path: Path, arguments: list[str], folder: str
) -> None:
    pytest.importorskip("matplotlib")
    write_metrics(word_run.path, REPORT)
    (tmp_path / "file").touch()  # a folder of its own that cannot be written to
    places = {"PYTHONPATH": str(Path(__file__).parents[1]), "MPLCONFIGDIR": str(tmp_path / folder)}
    command = [sys.executable, "-c", SLOW_SEARCH_FOR_FONTS, "plot", "-o", "x.png", "--model", word_run.path, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | places, timeout=60, check=True, capture_output=True)
    assert done.stdout == b""
    assert re.fullmatch(rb"note: wrote x\.png: [^\n]*\n", done.stderr)


def test_every_label_of_a_small_map_is_drawn_as_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    from sgns_cli.vectors.plot.map_picture import draw_map_picture

    written: list[tuple[str, object]] = []
    original = Axes.text

    def text(self, x: float, y: float, s: str, **options):
        written.append((s, options["parse_math"]))
        return original(self, x, y, s, **options)

    monkeypatch.setattr(Axes, "text", text)
    model = words(9)
    draw_map_picture(make_map(model, [resolve_query(model, "word3")], k=8, top=0), tmp_path / "map.png")
    assert sorted(written) == [(f"word{index}", False) for index in range(9)]


def test_losses(sgns: Sgns, word_run: Written) -> None:
    pytest.importorskip("matplotlib")
    write_metrics(word_run.path, REPORT, later(9, loss=None), later(20, held_out_loss=2.25))
    result = sgns("plot", "--loss", "--json")
    records = [json.loads(line) for line in result.out.splitlines()]
    assert [record["step"] for record in records] == [5, 9, 20]
    assert list(records[0]) == ["step", "epoch", "tokens_seen", "loss", "held_out_loss", "learning_rate"]
    for name in ("loss.png", "loss.html"):
        result = sgns("plot", "--loss", "-o", name, "--model", word_run.path)
        assert (result.code, result.err) == (0, f"note: wrote {name}: 3 reports, 2,000 tokens seen\n")
    assert Path("loss.png").read_bytes().startswith(PNG)
    write_metrics(word_run.path, later(1))
    assert sgns("plot", "--loss", "-o", "loss.png").code == 0
    write_metrics(word_run.path, later(1, loss=None, tokens_seen=0, tokens_total=0), epochs=0)
    assert sgns("plot", "--loss", "-o", "loss.png").code == 0


def test_the_losses_of_a_run_without_a_step_yet(sgns: Sgns, tmp_path: Path) -> None:
    run = tmp_path / "young"
    run.mkdir()
    write_metrics(run, REPORT)
    assert sgns("plot", "--loss", "--json", "--model", run).code == 0


def test_the_words_of_the_fixture_are_on_the_map(sgns: Sgns, learned_run: Written) -> None:
    records = [json.loads(line) for line in sgns("plot", "--json", "--top", 3).out.splitlines()]
    assert [record["token"] for record in records] == WORDS[:3]
    assert np.isfinite([[record["x"], record["y"]] for record in records]).all()
