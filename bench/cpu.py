"""sgns, gensim and fastText on the same ids of the same corpora, side by side in one run: speed, memory, quality.

    python bench/cpu.py             all of it, in under an hour
    python bench/cpu.py --quick     small slices, once, in five minutes: to see that it works, not to claim a number

Every measurement is a process of its own (`sgns train`, or peers.py), the trainers in turn within each repetition, so
that a machine whose speed drifts drifts for all of them. Ratios are taken within a repetition; what is printed are
medians. A trainer that is not installed is left out. This process imports nothing heavy: Linux counts the memory of
a parent as the first peak of its child.
"""

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import report
from processes import ELTEC, HERE, KJV, Record, environment, run, sgns, worker

PEERS = ("gensim", "fasttext")
PARTS = ("throughput", "busy", "arithmetic", "memory", "whole", "quality")
MIN_COUNT = 5


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    slice_tokens: int = 1_500_000  # of ELTeC, for the throughput cells
    whole_tokens: int = 0  # of ELTeC, for the rest; 0: all of it
    kjv_lines: int = 0  # 0: all of it
    dims: tuple[int, ...] = (100, 300)
    kjv_dims: tuple[int, ...] = (100, 300)
    subsamples: tuple[float, ...] = (1e-3, 1e-4)
    repetitions: int = 3
    seeds: int = 3
    epochs: int = 5


QUICK = Plan(300_000, 1_500_000, 8_000, kjv_dims=(100,), repetitions=1, seeds=1, epochs=2)


@dataclass(frozen=True)
class Corpus:
    """The same documents for everyone."""

    name: str
    lines: Path  # tokens with spaces between them, a document a line: for gensim and fastText
    store: Path  # a token folder of them
    source: Path  # what sgns trains on: the lines, where tokenizing is part of the command, or the token folder
    tokens: int
    vocabulary: Path | None = None  # the trained words, in the order of evaluations
    pairs_per_token: dict[float, float] = field(default_factory=dict)  # by subsample threshold


@dataclass(frozen=True)
class Settings:
    dim: int
    subsample: float
    threads: int
    epochs: int = 1
    seed: int = 1


def training_command(trainer: str, corpus: Corpus, settings: Settings, output: Path) -> list[str]:
    """The command that trains from the corpus's text to a saved model at `output`."""
    if trainer != "sgns":
        return worker(trainer, text=corpus.lines, output=output, **asdict(settings))
    config: Record = {
        "data": {"sources": [str(corpus.source)], "document": "line"},
        "model": {"dim": settings.dim, "subsample_threshold": settings.subsample, "min_count": MIN_COUNT},
        "train": {"epochs": settings.epochs, "seed": settings.seed},
    }
    if corpus.source == corpus.lines:
        config["tokenizer"] = {"encoding": "whitespace"}
    path = output.with_suffix(".yaml")
    path.write_text(json.dumps(config), encoding="utf-8")  # which is YAML too
    return sgns("train", path, "-o", output, "--threads", str(settings.threads), "--json", "--quiet")


def train(trainer: str, corpus: Corpus, settings: Settings, folder: Path) -> Record:
    """Train once, in an empty folder: rates of the loop and of the whole command, memory, held-out loss."""
    folder.mkdir(parents=True)  # sgns keeps token folders beside its runs: none is there yet
    process = run(training_command(trainer, corpus, settings, folder / "model"))
    record, tokens = process.record, corpus.tokens * settings.epochs
    loop = record["tokens_per_second"] if trainer == "sgns" else tokens / record["loop_seconds"]
    seconds = process.seconds - record.get("extra_seconds", 0.0)
    return {
        "trainer": trainer,
        "seed": settings.seed,
        "tokens_per_second": loop,
        "pairs_per_second": loop * corpus.pairs_per_token[settings.subsample],
        "whole_seconds": seconds,
        "whole_tokens_per_second": tokens / seconds,
        "peak_mb": process.peak_mb,
        "held_out_loss": record.get("held_out_loss"),
        **{name: record[name] for name in ("tokenize_seconds", "compile_seconds") if name in record},
    }


class Bench:
    """The parts, each a method that yields the rows it adds to the results."""

    def __init__(self, plan: Plan, trainers: list[str], threads: tuple[int, ...], work: Path) -> None:
        self.plan, self.trainers, self.threads, self.work = plan, trainers, threads, work
        self.slice: Corpus | None = None
        self.whole_text: Corpus | None = None
        self.kjv = self._kjv()
        self._runs = 0

    def read_eltec(self, path: Path) -> None:
        self.slice = self._eltec(path, "eltec-slice", self.plan.slice_tokens)
        self.whole_text = self._eltec(path, "eltec", self.plan.whole_tokens)

    def _eltec(self, path: Path, name: str, limit: int) -> Corpus:
        lines, vocabulary, store = (self.work / f"{name}{end}" for end in (".txt", ".vocabulary", ".tokens"))
        options = {"source": path, "output": lines, "vocabulary": vocabulary, "limit": limit, "min_count": MIN_COUNT}
        tokens = run(worker("words", **options)).record["tokens"]
        run(sgns("tokenize", lines, "-o", store, "--encoding", "whitespace", "--quiet"))
        return self._counted(Corpus(name, lines, store, lines, tokens, vocabulary))

    def _kjv(self) -> Corpus:
        text, lines, store = (self.work / f"kjv.{end}" for end in ("text", "txt", "tokens"))
        verses = KJV.read_text(encoding="utf-8").splitlines(keepends=True)
        text.write_text("".join(verses[: self.plan.kjv_lines or None]), encoding="utf-8")
        run(sgns("tokenize", text, "-o", store, "--encoding", "cl100k_base", "--quiet"))
        tokens = run(worker("ids", store=store, output=lines)).record["tokens"]
        return self._counted(Corpus("kjv-cl100k", lines, store, store, tokens))

    def _counted(self, corpus: Corpus) -> Corpus:
        pairs = {}
        for subsample in self.plan.subsamples:
            record = run(worker("count", file="arithmetic.py", store=corpus.store, subsample=subsample)).record
            pairs[subsample] = record["pairs_per_token"]
        print(f"{corpus.name}: {corpus.tokens:,} tokens; trained pairs a token {pairs}")
        return replace(corpus, pairs_per_token=pairs)

    def warm(self) -> float:
        """Train a little, so that the kernel is compiled; returns the seconds that took."""
        return train("sgns", self.kjv, Settings(16, self.plan.subsamples[0], 1), self._folder())["compile_seconds"]

    def _folder(self) -> Path:
        self._runs += 1
        return self.work / "runs" / str(self._runs)

    def _round(
        self, corpus: Corpus, settings: Settings, trainers: Sequence[str] = (), *, scored: bool = False
    ) -> dict[str, Record]:
        """One repetition: every trainer once, one after the other. Models are not kept."""
        rows = {}
        for name in trainers or self.trainers:
            folder = self._folder()
            rows[name] = train(name, corpus, settings, folder)
            if scored:
                options = {"trainer": name, "model": folder / "model", "vocabulary": corpus.vocabulary}
                rows[name] |= run(worker("evaluate", **options)).record
            shutil.rmtree(folder)
        return rows

    def _trainers(self, repetition: int) -> list[str]:
        """fastText takes half of the time that all others take together, and nothing is asked of it: once is enough."""
        return [name for name in self.trainers if name != "fasttext" or repetition == 0]

    def throughput(self) -> Iterator[Record]:
        """One epoch in each cell; the numbers of threads in turn too, so that they can be compared."""
        cells = [(self.kjv, dim) for dim in self.plan.kjv_dims]
        if self.slice:
            cells = [(self.slice, dim) for dim in self.plan.dims] + cells
        for corpus, dim in cells:
            for subsample in self.plan.subsamples:
                repetitions = [
                    {
                        t: self._round(corpus, Settings(dim, subsample, t, seed=n + 1), self._trainers(n))
                        for t in self.threads
                    }
                    for n in range(self.plan.repetitions)
                ]
                yield from self._cells({"corpus": corpus.name, "dim": dim, "subsample": subsample}, repetitions)

    def _cells(self, cell: Record, repetitions: list[dict[int, dict[str, Record]]]) -> Iterator[Record]:
        """The rows of one cell: each number of threads, each trainer."""
        first = self.threads[0]
        for threads in self.threads:
            for trainer in self.trainers:
                runs = [
                    (each[threads][trainer], each[first][trainer]) for each in repetitions if trainer in each[first]
                ]
                scaling = statistics.median(more["tokens_per_second"] / one["tokens_per_second"] for more, one in runs)
                row = report.medians([each[threads] for each in repetitions], trainer)
                yield {**cell, "threads": threads, "scaling": scaling, **row}

    def busy(self) -> Iterator[Record]:
        """While other processes keep the processors busy: does training collapse where threads wait for each other?"""
        corpus, threads = self.slice or self.kjv, self.threads[-1]
        counting = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(threads)]
        try:
            for subsample in self.plan.subsamples:
                settings = Settings(100, subsample, threads)
                trainers = [name for name in self.trainers if name != "fasttext"]
                rounds = [self._round(corpus, settings, trainers) for _ in range(self.plan.repetitions)]
                for trainer in trainers:
                    yield {"corpus": corpus.name, **asdict(settings), **report.medians(rounds, trainer)}
        finally:
            for process in counting:
                process.kill()
                process.wait()

    def whole(self) -> Iterator[Record]:
        """From the text to a saved model, one epoch; more epochs are a by-product of the quality cells."""
        if self.whole_text:
            settings = Settings(100, self.plan.subsamples[-1], self.threads[-1])
            rounds = [self._round(self.whole_text, settings, self._trainers(n)) for n in range(self.plan.repetitions)]
            for trainer in self.trainers:
                yield {"corpus": self.whole_text.name, **asdict(settings), **report.medians(rounds, trainer)}

    def quality(self) -> Iterator[Record]:
        """All of the novels, several epochs, several seeds; scored with one list of candidates for all."""
        if not self.whole_text or not importlib.util.find_spec("gensim"):
            print("quality needs the novels, and gensim for its test sets: left out")
            return
        for seed in range(1, self.plan.seeds + 1):
            settings = Settings(100, self.plan.subsamples[-1], self.threads[-1], self.plan.epochs, seed)
            for row in self._round(self.whole_text, settings, scored=True).values():
                yield {"corpus": self.whole_text.name, **asdict(settings), **row}

    def arithmetic(self) -> Iterator[Record]:
        """What the kernel computes, as a share of what the processor can do at the same moment."""
        corpus = self.slice or self.kjv
        for dim in (128, 300):
            for threads in self.threads:
                options = {"store": corpus.store, "dim": dim, "threads": threads, "subsample": self.plan.subsamples[0]}
                yield {"corpus": corpus.name} | run(worker("measure", file="arithmetic.py", **options)).record

    def memory(self) -> Iterator[Record]:
        """Anonymous memory of training beyond the two matrices and the imports."""
        if not Path("/proc/self/status").exists():
            print("memory is read from /proc: left out on this system")
            return
        imports = run(worker("imports")).record["anonymous_mb"]
        for corpus in filter(None, (self.whole_text, self.kjv)):
            corpus = replace(corpus, source=corpus.store)
            settings, folder = Settings(100, self.plan.subsamples[-1], self.threads[-1]), self._folder()
            folder.mkdir(parents=True)
            command = training_command("sgns", corpus, settings, folder / "model")
            matrices = run([*command, "--dry-run"]).record["matrix_bytes"] / 2**20
            peak = run(command, watch=True).anonymous_mb
            row = {"corpus": corpus.name, "dim": settings.dim, "threads": settings.threads, "anonymous_mb": peak}
            yield row | {"matrices_mb": matrices, "imports_mb": imports, "beyond_mb": peak - matrices - imports}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--eltec", type=Path, default=ELTEC, metavar="FILE", help="the novels, .txt.xz [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="small slices, once, in five minutes")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part only; may be given again")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="rising [1 2]")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="whom to measure against [all]")
    parser.add_argument("--slice", type=int, metavar="TOKENS", help="of the novels, in throughput cells")
    parser.add_argument("--whole", type=int, metavar="TOKENS", help="of the novels, in all other cells [all]")
    parser.add_argument("--work", type=Path, metavar="DIR", help="where temporary files go")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="[bench/results/cpu-DATE.json]")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    plan = QUICK if arguments.quick else Plan()
    plan = replace(
        plan, slice_tokens=arguments.slice or plan.slice_tokens, whole_tokens=arguments.whole or plan.whole_tokens
    )
    output = (
        arguments.output or HERE / "results" / f"cpu-{datetime.date.today()}{'-quick' if arguments.quick else ''}.json"
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    trainers = ["sgns", *(name for name in arguments.peers if importlib.util.find_spec(name))]
    began = time.perf_counter()
    results: Record = {"quick": arguments.quick, "plan": asdict(plan), "environment": environment(arguments.threads)}
    report.say_what(results, missing=[name for name in arguments.peers if name not in trainers])
    with tempfile.TemporaryDirectory(prefix="sgns-bench-", dir=arguments.work) as work:
        bench = Bench(plan, trainers, tuple(arguments.threads), Path(work))
        if arguments.eltec.exists():
            bench.read_eltec(arguments.eltec)
        else:
            print(f"no novels at {arguments.eltec}: the King James Bible alone, without quality")
        results["compile_seconds"] = bench.warm()
        for part in arguments.only or PARTS:
            report.heading(part)
            results[part] = []
            for row in getattr(bench, part)():
                results[part].append(row)
                report.row(part, row)
            output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    results["quality_means"] = report.quality_means(results.get("quality", []))
    results["targets"] = report.targets(results)
    results["seconds"] = time.perf_counter() - began
    output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"\n{results['seconds'] / 60:.1f} minutes; all of it in {output}")


if __name__ == "__main__":
    main()
