"""Small models to draw, one of them with tokens that break pages, and reports of a training."""

import json
from pathlib import Path

import numpy as np

from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.run_folder import CONFIG, METRICS
from sgns_cli.vectors.model import Model

HOSTILE = ["</script>", "<!--", "\u2028x", "\"'`", "&amp;", "${x}", "{{title}}", "\\u003c", "<img/onerror=alert(1)>"]
HOSTILE += ["中文", "שלום", "🙂", "$x$", "a" * 90]
REPORT = {"step": 5, "epoch": 1, "tokens_seen": 500, "tokens_total": 2000, "loss": 2.5, "held_out_loss": None}
REPORT |= {"learning_rate": 0.02, "tokens_per_second": 1.0, "seconds": 1.0, "device": "cpu", "threads": 1}


def random_rows(points: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(points, dim)).astype(np.float32)


def words(number: int) -> Model:
    rows = np.random.default_rng(1).normal(size=(number, 6)).astype(np.float32)
    names = [f"word{index}" for index in range(number)]
    counts = np.arange(number, 0, -1, dtype=np.int64) * 10
    return Model(Path("many"), rows, load_tokenizer=lambda: WhitespaceTokenizer(names), counts=counts)


def hostile() -> Model:
    rows = np.random.default_rng(2).normal(size=(len(HOSTILE), 6)).astype(np.float32)
    return Model(Path("x</title>"), rows, load_tokenizer=lambda: WhitespaceTokenizer(HOSTILE))


def write_metrics(run: Path, *lines: object, end: str = "\n", epochs: int = 4) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (run / METRICS).write_text("\n".join(texts) + end, encoding="utf-8")
    config = f"data: {{sources: [x.txt]}}\ntokenizer: {{encoding: whitespace}}\ntrain: {{epochs: {epochs}}}\n"
    (run / CONFIG).write_text(config, encoding="utf-8")
    return run


def later(step: int, **fields: object) -> dict[str, object]:
    return REPORT | {"step": step, "tokens_seen": 100 * step} | fields
