"""Training by several processes: time an epoch of 1, 2 and 4 with one thread each, side by side in one run.

    python bench/ranks.py --source novels.txt    words of a text, a paragraph a line; some minutes
    python bench/ranks.py --quick                the King James Bible, one repetition: to see that it works

Each measurement is a torchrun of its own on this machine, over loopback; all in turn within each repetition. An epoch
that is not measured comes first. The time of averages is that of rank 0 and has its waiting for the others in it; what
a rank sends is what an all-reduce in a ring sends of what is averaged.
"""

import argparse
import datetime
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import HERE, KJV, Record, environment, run, sgns

NAMES = ("processes", "epoch seconds", "times one process", "M tokens/s", "averaging", "MB sent a rank", "MB/s a rank")


def work(*, tokens: str, dim: int, subsample: float, epochs: int) -> Record:
    """Train as one process of those that torchrun has started: seconds, seconds of averages and bytes of each epoch."""
    from sgns_cli.config import ModelConfig, TrainConfig
    from sgns_cli.corpus.token_store import open_token_store
    from sgns_cli.training.engine import initial_matrices
    from sgns_cli.training.engines import make_engine
    from sgns_cli.training.joint import Member, Stretch
    from sgns_cli.training.problem import make_problem
    from sgns_cli.training.ranks import find_place, joined
    from sgns_cli.training.shares import joint_problem, share_of

    store, place = open_token_store(Path(tokens)), find_place()
    model = ModelConfig(dim=dim, subsample_threshold=subsample)
    problem = make_problem(store.tokens, store.documents, store.counts, model, TrainConfig(epochs=epochs + 1))
    problem = joint_problem(problem, place.processes)
    share = share_of(problem, place.rank, place.processes)
    engine = make_engine(share, initial_matrices(problem), "cpu", 1)
    engine.train(0, 0, 0)
    measured: Record = {"tokens": problem.epoch_tokens, "rows": problem.vocabulary.rows, "seconds": []}
    measured |= {"averaging": [], "bytes": []}
    with joined(place, "cpu", 1) as group:
        member = Member(group, problem, engine) if group else None
        waited = timed(member.averaging) if member else [0.0]
        for epoch in range(epochs + 1):
            began, waited[0], sent = time.perf_counter(), 0.0, member.averaging.sent if member else 0
            if member:
                member.train(Stretch(epoch, 0, problem.epoch_tokens), lambda: False)
            else:
                engine.train(epoch, 0, problem.epoch_tokens)
            if epoch:
                measured["seconds"].append(time.perf_counter() - began)
                measured["averaging"].append(waited[0])
                measured["bytes"].append(member.averaging.sent - sent if member else 0)
        if group and not group.leads:
            group.hear()  # the end
    return measured if place.rank == 0 else {}


def timed(averaging: Any) -> list[float]:
    """Add the seconds of its averages, and of what prepares them, to the one number of the list from now on."""
    seconds = [0.0]

    def measured(work: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            began = time.perf_counter()
            work(*arguments)
            seconds[0] += time.perf_counter() - began

        return call

    averaging.prepare, averaging.average = measured(averaging.prepare), measured(averaging.average)
    return seconds


def command(processes: int, **options: object) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, *(launcher if processes > 1 else []), __file__, "--work", json.dumps(options)]


def measure(tokens: Path, *, numbers: list[int], repetitions: int, **options: object) -> list[Record]:
    """A row for each number of processes: medians over the repetitions, ratios within a repetition."""
    found = [{n: run(command(n, tokens=str(tokens), **options)).record for n in numbers} for _ in range(repetitions)]
    rows = []
    for number in numbers:
        seconds = [statistics.median(one[number]["seconds"]) for one in found]
        alone = [statistics.median(one[numbers[0]]["seconds"]) for one in found]
        shares = [sum(one[number]["averaging"]) / sum(one[number]["seconds"]) for one in found]
        here = found[0][number]
        sent = statistics.median(here["bytes"]) * 2 * (number - 1) / number
        epoch = statistics.median(seconds)
        rows.append(
            {
                **{name: here[name] for name in ("tokens", "rows")},
                **options,
                "processes": number,
                "epoch_seconds": epoch,
                "times": statistics.median(one / many for one, many in zip(alone, seconds, strict=True)),
                "tokens_per_second": here["tokens"] / epoch,
                "averaging_share": statistics.median(shares),
                "bytes_sent": sent,
                "bytes_per_second": sent / epoch,
            }
        )
    return rows


def table(rows: list[Record]) -> str:
    lines = ["| " + " | ".join(NAMES) + " |", "|" + "---|" * len(NAMES)]
    for row in rows:
        values = (
            str(row["processes"]),
            f"{row['epoch_seconds']:.2f}",
            f"{row['times']:.2f}",
            f"{row['tokens_per_second'] / 1e6:.2f}",
            f"{row['averaging_share']:.0%}",
            f"{row['bytes_sent'] / 1e6:,.0f}",
            f"{row['bytes_per_second'] / 1e6:,.0f}",
        )
        lines.append("| " + " | ".join(values) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=Path, default=KJV, metavar="FILE", help="a text, a document a line")
    parser.add_argument("--processes", default="1,2,4", metavar="N,N...", help="the first is what others are held to")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--subsample", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=3, help="measured in each repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one epoch, once")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="[bench/results/ranks-DATE.json]")
    parser.add_argument("--work", metavar="JSON", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        measured = work(**json.loads(arguments.work))
        if measured:
            print(json.dumps(measured))
        return
    quick = "-quick" if arguments.quick else ""
    output = arguments.output or HERE / "results" / f"ranks-{datetime.date.today()}{quick}.json"
    epochs, repetitions = (1, 1) if arguments.quick else (arguments.epochs, arguments.repetitions)
    numbers = [int(number) for number in arguments.processes.split(",")]
    options = {"dim": arguments.dim, "subsample": arguments.subsample, "epochs": epochs}
    with tempfile.TemporaryDirectory(prefix="sgns-bench-") as folder:
        tokens = Path(folder) / "tokens"
        run(sgns("tokenize", arguments.source, "-o", tokens, "--encoding", "whitespace", "--lowercase", "-q"))
        rows = measure(tokens, numbers=numbers, repetitions=repetitions, **options)
    results: Record = {"quick": arguments.quick, "source": arguments.source.name, "environment": environment([1])}
    output.write_text(json.dumps({**results, "ranks": rows}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results["environment"], indent=1))
    print(f"\n{rows[0]['tokens']:,} tokens, {rows[0]['rows']:,} rows, dim {arguments.dim}, one thread a process\n")
    print(f"{table(rows)}\n\nall of it in {output}")


if __name__ == "__main__":
    main()
