"""The GPU engine: parity with the reference, throughput, and quality beside the CPU engine. Needs a CUDA GPU.

    python bench/gpu.py                  everything, in less than ten minutes
    python bench/gpu.py --only parity    that the kernels compute what the reference does, in half a minute
    python bench/gpu.py --interpret      parity and throughput on a toy, by Triton's interpreter: to see that it works

Throughput is of made-up text: ids by Zipf's law, subsampled at 1e-3. Kept tokens a second are those trained as centres.
Quality needs the novels (--eltec) and gensim's test sets (--questions, found by themselves where gensim is installed).
"""

import argparse
import datetime
import importlib.util
import itertools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processes import ELTEC, HERE, Record, environment, run, sgns, worker

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sgns_cli.training.gpu_engine import GpuEngine
    from sgns_cli.training.problem import Problem

PARTS = ("parity", "throughput", "options", "quality")
ERRORS = {"ieee": 1e-4, "tf32": 1e-2}  # of the largest change, that a round's changes may differ by
WANTED = {(128, 50_000): 200e6, (300, 50_000): 80e6}  # kept tokens a second
QUESTIONS = {"analogies": "questions-words.txt", "wordsim": "wordsim353.tsv", "simlex": "simlex999.txt"}


@dataclass(frozen=True)
class Plan:
    device: str
    tokens: int
    rows: tuple[int, ...]
    dims: tuple[int, ...]
    part: int
    at_once: int = 32
    repetitions: int = 3
    seeds: int = 2
    epochs: int = 5

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


FULL = Plan("cuda", 40_000_000, (50_000, 200_000), (100, 128, 300), part=8192)
TOY = Plan("cpu", 1500, (300,), (128,), part=96, at_once=2, repetitions=1)


def made_up(plan: Plan, *, rows: int, dim: int, round_centres: int, **model: Any) -> "Problem":
    """A problem with `rows` types by Zipf's law, in documents of 1,000 tokens."""
    import numpy as np

    from sgns_cli.config import ModelConfig, TrainConfig
    from sgns_cli.training.problem import make_problem

    ids = zipf(plan.tokens, rows)
    counts = np.bincount(ids, minlength=rows)
    documents = np.append(np.arange(0, plan.tokens, 1000), plan.tokens)
    config = ModelConfig(**{"dim": dim, "min_count": 1, "subsample_threshold": 1e-3, **model})
    return make_problem(ids, documents, counts, config, TrainConfig(epochs=1), round_centres=round_centres)


@cache
def zipf(tokens: int, types: int) -> "NDArray[np.uint32]":
    import numpy as np

    cumulated = np.cumsum(1 / np.arange(1, types + 1))
    return np.searchsorted(cumulated, np.random.default_rng(0).random(tokens) * cumulated[-1]).astype(np.uint32)


def engine_of(plan: Plan, problem: "Problem", **options: Any) -> "GpuEngine":
    from sgns_cli.training.engine import initial_matrices
    from sgns_cli.training.gpu_engine import GpuEngine
    from sgns_cli.training.kernels.gpu import Options

    matrices = initial_matrices(problem)
    made = Options(**options)
    return GpuEngine(problem, matrices, device=plan.device, part=plan.part, at_once=plan.at_once, options=made)


def parity(plan: Plan) -> Iterator[Record]:
    """Two rounds by the kernels and by the reference, both on the device, from matrices as in mid-training."""
    import numpy as np

    from sgns_cli.training.engine import initial_matrices
    from sgns_cli.training.gpu_engine import GpuEngine
    from sgns_cli.training.kernels.gpu import Options
    from sgns_cli.training.reference_engine import ReferenceEngine

    cases: list[tuple[int, str, Record]] = [
        (128, "ieee", {}),
        (128, "tf32", {}),
        (100, "ieee", {"positions": "learned"}),
        (300, "tf32", {"window": 8, "negatives": 8}),
        (33, "ieee", {"window": 40, "negatives": 20}),
    ]
    for dim, precision, model in cases:
        problem = made_up(plan, rows=plan.rows[0], dim=dim, round_centres=plan.part // 2, **model)
        random = np.random.default_rng(1)
        start = initial_matrices(problem)
        for matrix in start.values():
            matrix[:, :dim] = random.normal(scale=0.8 / dim**0.5, size=(len(matrix), dim))
        copies = [{name: matrix.copy() for name, matrix in start.items()} for _ in range(2)]
        made = Options(precision=precision)
        fast = GpuEngine(problem, copies[0], device=plan.device, part=plan.part, at_once=plan.at_once, options=made)
        slow = ReferenceEngine(problem, copies[1], device=plan.device, part=plan.part)
        stop = min(2 * problem.span, problem.epoch_tokens)
        sums = [engine.train(0, 0, stop) for engine in (fast, slow)]
        ours, theirs = fast.matrices(), slow.matrices()
        error = max(
            float(np.abs(ours[name] - theirs[name]).max() / np.abs(theirs[name] - start[name]).max()) for name in start
        )
        loss_error = abs(sums[0][0] - sums[1][0]) / sums[1][0]
        if not (error < ERRORS[precision] and loss_error < ERRORS[precision] and sums[0][1] == sums[1][1]):
            raise SystemExit(
                f"parity: {model} dim {dim} {precision}: changes differ by {error}, losses by {loss_error}"
            )
        yield {"dim": dim, **model, "precision": precision, "error": error, "loss_error": loss_error}


def throughput(plan: Plan) -> Iterator[Record]:
    """Kept tokens a second of whole epochs, and what their parts take."""
    import torch

    bandwidth = copy_bandwidth() if plan.on_gpu else float("nan")
    for rows, dim in itertools.product(plan.rows, plan.dims):
        problem = made_up(plan, rows=rows, dim=dim, round_centres=plan.part // 2)
        if plan.on_gpu:
            torch.cuda.reset_peak_memory_stats()
        row = rates(plan, problem, engine_of(plan, problem))
        bytes_a_centre = 8 * dim * (2 + problem.shared_negatives / 32)
        limit = bandwidth / bytes_a_centre
        yield {
            "rows": rows,
            "dim": dim,
            **row,
            "copy_bytes_per_second": bandwidth,
            "share_of_limit": row["kept_per_second"] / limit,
            "wanted": WANTED.get((dim, rows)),
            **memory(problem),
        }


def options(plan: Plan) -> Iterator[Record]:
    """The same epoch with other tiles, warps and rounds."""
    tried = itertools.product((32, 64), (4, 8), (plan.part // 2, plan.part))
    for columns, warps, centres in tried if plan.on_gpu else [(32, 4, plan.part // 2)]:
        problem = made_up(plan, rows=plan.rows[0], dim=128, round_centres=centres)
        engine = engine_of(plan, problem, columns=columns, warps=warps)
        yield {"columns": columns, "warps": warps, "round": centres} | rates(plan, problem, engine)


def rates(plan: Plan, problem: "Problem", engine: "GpuEngine") -> Record:
    """Medians of epochs, and of their first stretch alone: drawn, and trained."""
    began = time.perf_counter()
    engine.train(0, 0, min(problem.span, problem.epoch_tokens))
    compile_seconds = time.perf_counter() - began
    corpus, stop = problem.corpus, min(engine._rounds * problem.span, problem.epoch_tokens)
    learning_rates = problem.learning_rates(0, 0, stop)
    epochs, draws, kernels = [], [], []
    for _ in range(plan.repetitions):
        began = time.perf_counter()
        engine.train(0, 0, problem.epoch_tokens)
        epochs.append(time.perf_counter() - began)
        began = time.perf_counter()
        drawn = engine._draw(corpus, 1, 0, 0, stop, learning_rates)
        wait(plan)
        draws.append(time.perf_counter() - began)
        engine._take(drawn)
        wait(plan)
        began = time.perf_counter()
        engine._run_parts(len(drawn.first), moves=True)
        wait(plan)
        kernels.append(time.perf_counter() - began)
    seconds = statistics.median(epochs)
    return {
        "kept_per_second": problem.epoch_tokens * problem.vocabulary.kept_fraction / seconds,
        "tokens_per_second": problem.epoch_tokens / seconds,
        "stretch_tokens": stop,
        "draw_seconds": statistics.median(draws),
        "kernel_seconds": statistics.median(kernels),
        "parts": len(drawn.first),
        "compile_seconds": compile_seconds,
    }


def wait(plan: Plan) -> None:
    import torch

    if plan.on_gpu:
        torch.cuda.synchronize()


def copy_bandwidth() -> float:
    """Bytes a second that the device reads and writes when it copies a gibibyte."""
    import torch

    source = torch.empty(2**28, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(10):
        torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return 2 * 4 * 2**28 / statistics.median(times)


def memory(problem: "Problem") -> Record:
    """What the device came to hold, and what a preflight says that it will."""
    import torch

    from sgns_cli.training.engines import device_bytes

    if not torch.cuda.is_available():
        return {}
    return {"device_bytes": torch.cuda.max_memory_allocated(), "expected_device_bytes": device_bytes(problem, "cuda")}


def quality(plan: Plan, eltec: Path, questions: Path | None, work: Path) -> Iterator[Record]:
    """Five epochs of the novels' words on both engines, scored among 30,000 candidates."""
    if not eltec.exists() or questions is None:
        print("quality needs the novels, and gensim's test sets: left out")
        return
    lines, vocabulary = work / "words.txt", work / "words.vocabulary"
    run(worker("words", source=eltec, output=lines, vocabulary=vocabulary, limit=10**12, min_count=5))
    config = work / "words.yaml"
    config.write_text(
        f"data: {{sources: [{lines}], document: line}}\ntokenizer: {{encoding: whitespace}}\n"
        f"model: {{dim: 100, subsample_threshold: 1e-4}}\ntrain: {{epochs: {plan.epochs}}}\n",
        encoding="utf-8",
    )
    for seed, device in itertools.product(range(1, plan.seeds + 1), ("cuda", "cpu")):
        folder = work / "runs" / f"{device}-{seed}"
        train = ("train", config, "-o", folder, "--device", device, "--set", f"train.seed={seed}", "--json", "-q")
        record = run(sgns(*train)).record
        kinds = ("--analogies", "--similarity", "--similarity")
        asked = [
            part for kind, file in zip(kinds, QUESTIONS.values(), strict=True) for part in (kind, questions / file)
        ]
        evaluate = sgns("evaluate", "--model", folder, *asked, "--json", "--quiet")
        printed = subprocess.run(evaluate, stdout=subprocess.PIPE, text=True, check=True).stdout
        totals = [json.loads(line) for line in printed.splitlines()]
        scores = [total["score"] for total in totals if total["section"] == "total"]
        names = ("held_out_loss", "tokens_per_second", "train_seconds", "total_seconds")
        yield {
            "device": device,
            "seed": seed,
            **dict(zip(QUESTIONS, scores, strict=True)),
            **{n: record[n] for n in names},
        }


def gensims_questions() -> Path | None:
    """Where gensim has its test sets, if it is installed."""
    found = importlib.util.find_spec("gensim")
    return Path(found.origin).parent / "test" / "test_data" if found and found.origin else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", choices=PARTS, help="this part only; may be given again")
    parser.add_argument("--interpret", action="store_true", help="a toy, on the CPU")
    parser.add_argument("--eltec", type=Path, default=ELTEC, metavar="FILE", help="the novels, .txt.xz [%(default)s]")
    parser.add_argument("--questions", type=Path, metavar="DIR", help="gensim's test sets [where gensim has them]")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="[bench/results/gpu-DATE.json]")
    arguments = parser.parse_args()
    if arguments.interpret:
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    plan = TOY if arguments.interpret else FULL
    import torch

    if plan.on_gpu and not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here; --interpret shows that the bench works")
    began = time.perf_counter()
    results: Record = {"environment": environment([])}
    if plan.on_gpu:
        results["device"] = torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory(prefix="sgns-bench-") as folder:
        parts = {
            "parity": lambda: parity(plan),
            "throughput": lambda: throughput(plan),
            "options": lambda: options(plan),
            "quality": lambda: quality(plan, arguments.eltec, arguments.questions or gensims_questions(), Path(folder)),
        }
        for name in arguments.only or (PARTS[:3] if arguments.interpret else PARTS):
            print(f"\n{name}", flush=True)
            results[name] = []
            for row in parts[name]():
                results[name].append(row)
                print(json.dumps(row), flush=True)
    for row in results.get("throughput", []):
        if plan.on_gpu and row["wanted"]:
            print(f"dim {row['dim']}: {row['kept_per_second']:,.0f} kept tokens/s, wanted {row['wanted']:,.0f}")
    results["seconds"] = time.perf_counter() - began
    if plan.on_gpu:
        output = arguments.output or HERE / "results" / f"gpu-{datetime.date.today()}.json"
        output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"{results['seconds']:.0f} s; {output}")


if __name__ == "__main__":
    main()
