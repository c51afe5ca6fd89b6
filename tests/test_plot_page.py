"""The pages: data that cannot break out of them, and what a browser makes of them, where there is one."""

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Written
from hypothesis import given
from hypothesis import strategies as st
from maps import HOSTILE, REPORT, hostile, later, words, write_metrics

from sgns_cli.vectors.opening import open_model
from sgns_cli.vectors.plot.loss_page import draw_loss_page
from sgns_cli.vectors.plot.losses import Losses, Report, read_losses
from sgns_cli.vectors.plot.map_page import draw_map_page
from sgns_cli.vectors.plot.page import embed_json
from sgns_cli.vectors.plot.token_map import make_map
from sgns_cli.vectors.query import resolve_query

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium and no Chrome is installed")
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
SWITCHES += ["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=3000"]


class Found(html.parser.HTMLParser):
    """Texts of a page by the id of the element that they are in, and the labels of its map."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.labels: list[str] = []
        self.texts: dict[str, str] = {}
        self.body: dict[str, str | None] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "body":
            self.body = dict(attributes)
        if tag not in ("meta", "link", "input", "br"):
            self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, attributes in self.open:
            if name := attributes.get("id"):
                self.texts[name] = self.texts.get(name, "") + data
        if self.open and "data-index" in self.open[-1][1]:
            self.labels.append(data)


def browse(page: Path, address: str = "", script: str = "", size: str = "1000,800") -> Found:
    """Open a page, with a script of the test behind its own, and read what it has become."""
    assert BROWSER is not None
    frames = "<script>window.requestAnimationFrame = (draw) => setTimeout(draw, 10);</script></head>"  # in virtual time
    text = page.read_text(encoding="utf-8").replace("</head>", frames)
    text = text.replace("</body>", f"<script>{{{script}}}</script></body>")
    tried = page.with_name("tried.html")
    tried.write_text(text, encoding="utf-8")
    profile = page.with_name("profile")
    command = [BROWSER, *SWITCHES, f"--window-size={size}", f"--user-data-dir={profile}", "--dump-dom"]
    done = subprocess.run([*command, tried.as_uri() + address], capture_output=True, timeout=60, check=True)
    return Found(done.stdout.decode())


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda values: st.lists(values) | st.dictionaries(st.text(), values)
    )
)
def test_embedded_data_reads_back_and_cannot_end_its_element(value: object) -> None:
    text = embed_json(value)
    assert json.loads(text) == value
    assert "<" not in text
    assert text.isascii()


def test_a_page_holds_hostile_tokens_and_names_no_other_file(tmp_path: Path) -> None:
    model = hostile()
    draw_map_page(make_map(model, [resolve_query(model, "</script>")], k=2, top=50), tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert set(data["token"]) == {token.replace("\u2028", "<0xE2><0x80><0xA8>") for token in HOSTILE}
    assert data["label"] == {str(data["token"].index("a" * 90)): "a" * 39 + "…"}
    assert page.count("</script>") == 2
    assert f"<title>&lt;/script&gt;, its nearest tokens and the first {len(HOSTILE)} tokens</title>" in page
    assert "Content-Security-Policy\" content=\"default-src 'none'" in page
    assert not re.search(r"""(src|href)\s*=\s*(?!["']?data:)|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", page)
    assert "{{" not in page.replace("{{title}}", "")


def test_the_same_map_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        draw_map_page(make_map(words(30), [], k=0, top=20), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


@in_browser
def test_a_browser_shows_labels_and_hostile_ones_as_they_are(tmp_path: Path) -> None:
    model = hostile()
    draw_map_page(make_map(model, [resolve_query(model, "</script>")], k=3, top=50), tmp_path / "map.html")
    found = browse(tmp_path / "map.html")
    shown = {token.replace("\u2028", "<0xE2><0x80><0xA8>") for token in HOSTILE if len(token) < 40} | {"a" * 39 + "…"}
    assert "</script>" in found.labels
    assert set(found.labels) <= shown
    assert len(found.labels) > 6
    assert found.texts["meaning"] == "rank in the file"
    assert found.texts["queries"] == "</script>"
    assert found.texts["across"].startswith("first principal component, ")


@in_browser
def test_the_address_searches_and_the_tip_tells(tmp_path: Path, word_run: Written) -> None:
    model = open_model(word_run.path)
    shown = make_map(model, [resolve_query(model, "gold")], k=8, top=0)
    draw_map_page(shown, tmp_path / "map.html")
    found = browse(tmp_path / "map.html", "#search=silver")
    assert found.texts["found"] == "1 found"
    (score,) = [score for point in shown.points if point.label == "silver" for _, score in point.near]
    assert re.sub(r"\s+", " ", found.texts["tip"]) == (
        f"silverid 540 times in the corpusfrequency rank 6cosine {score:.3f} to gold"
    )
    assert "silver" in found.labels


HOVER_AND_ZOOM = """
const count = () => document.querySelectorAll("#labels li").length;
const box = document.getElementById("map").getBoundingClientRect();
const label = document.querySelector("#labels li");
const here = label.getBoundingClientRect();
const inside = { clientX: (here.left + here.right) / 2, clientY: (here.top + here.bottom) / 2, bubbles: true };
label.dispatchEvent(new PointerEvent("pointermove", inside));
setTimeout(() => {
  document.body.dataset.hovered = label.textContent;
  document.body.dataset.tip = document.querySelector("#tip b").textContent;
  document.body.dataset.before = count();
  const middle = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
  document.getElementById("map").dispatchEvent(new WheelEvent("wheel", { deltaY: -1200, cancelable: true, ...middle }));
  setTimeout(() => {
    document.body.dataset.zoomed = [...document.querySelectorAll("#labels li")].map((one) => one.textContent).join(" ");
    const boxes = [...document.querySelectorAll("#labels li")].map((one) => one.getBoundingClientRect());
    document.body.dataset.overlaps = boxes.filter((a, i) => boxes.some((b, j) =>
      j < i && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
    document.getElementById("reset").click();
    setTimeout(() => { document.body.dataset.after = count(); }, 200);
  }, 200);
}, 200);
"""


@in_browser
def test_hovering_tells_and_zooming_shows_other_labels(tmp_path: Path) -> None:
    draw_map_page(make_map(words(3000), [], k=0, top=3000), tmp_path / "map.html")
    found = browse(tmp_path / "map.html", script=HOVER_AND_ZOOM)
    first = set(found.labels)  # at the end all is shown again, as at the beginning
    assert found.body["data-tip"] == found.body["data-hovered"]
    assert 20 < int(found.body["data-before"]) < 3000
    zoomed = set(found.body["data-zoomed"].split())
    assert len(zoomed) > 20
    assert len(zoomed - first) > len(zoomed) / 2, "tokens that had no room before"
    assert found.body["data-overlaps"] == "0"
    assert abs(int(found.body["data-after"]) - int(found.body["data-before"])) <= 2  # the one pointed at comes first


@in_browser
def test_a_browser_draws_the_losses(tmp_path: Path, word_run: Written) -> None:
    write_metrics(word_run.path, REPORT, later(9, loss=None), later(20, held_out_loss=2.25))
    draw_loss_page(read_losses(word_run.path), tmp_path / "loss.html")
    script = """
    const chart = document.getElementById("chart");
    chart.dispatchEvent(new PointerEvent("pointermove", { clientX: chart.getBoundingClientRect().right - 5 }));
    """
    found = browse(tmp_path / "loss.html", script=script)
    assert "held-out loss" in found.texts["chart"]
    assert "epoch 1" in found.texts["chart"]
    assert re.sub(r"\s+", " ", found.texts["tip"]).strip() == (
        "2,000 tokenstraining loss 2.5000held-out loss 2.2500learning rate 0.02epoch 1, step 20"
    )


MOVES = """
const chart = document.getElementById("chart");
const drawn = chart.querySelector("svg");
const point = (part) => {
  const { left, width } = chart.getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent("pointermove", { clientX: left + part * width }));
  return Number(chart.querySelector(".cross").getAttribute("x1"));
};
const places = [0.25, 0.5, 0.75].map(point);
const lines = chart.querySelectorAll("polyline");
document.body.dataset.moved = places.every((place, i) => Math.abs(place - (i + 1) * 0.25 * chart.clientWidth) < 1);
document.body.dataset.same = drawn === chart.querySelector("svg") && chart.querySelectorAll(".cross").length === 1;
document.body.dataset.points = [...lines].map((line) => line.points.numberOfItems).join(" ");
document.body.dataset.tip = document.getElementById("tip").hidden;
chart.dispatchEvent(new PointerEvent("pointerleave"));
document.body.dataset.left = `${chart.querySelector(".cross").style.display} ${document.getElementById("tip").hidden}`;
"""


@in_browser
def test_very_many_losses_are_drawn_once_and_a_line_moves_over_them(tmp_path: Path) -> None:
    number = 150_000  # more than a call has arguments
    reports = [Report(n, 1, n, 2.0 + 1 / n, 3.0 if n % 1000 == 0 else None, 0.02) for n in range(1, number + 1)]
    draw_loss_page(Losses(Path("long"), reports, []), tmp_path / "loss.html")
    found = browse(tmp_path / "loss.html", script=MOVES)
    assert found.body["data-points"] == "150000 150 150000"
    assert (found.body["data-moved"], found.body["data-same"], found.body["data-tip"]) == ("true", "true", "false")
    assert found.body["data-left"] == "none true"
