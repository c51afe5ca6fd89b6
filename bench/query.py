"""Queries beside gensim and model2vec, side by side in one run: whole processes, from start to answers.

    python bench/query.py            100,256 rows of 300 numbers, in some minutes
    python bench/query.py --quick    2,000 rows, once: to see that it works, not to claim a number

One random matrix, cl100k_base's tokens: a run for sgns, its own file and a word2vec file for gensim, an exported folder
for model2vec (query_peers.py). The same one or 1,000 queries, ten neighbours each. All in turn within each repetition;
ratios are medians of those within a repetition.
"""

import argparse
import datetime
import json
import statistics
import tempfile
import time
from pathlib import Path

from processes import HERE, Record, environment, run, sgns, worker

FILE = "query_peers.py"
WANTED = "wanted: one query under 1 s, 1,000 under 3 s, and ahead of both peers"
OURS = "sgns neighbors"


def measure(work: Path, *, rows: int, dim: int, queries: int, repetitions: int) -> list[Record]:
    """A row for each number of queries and each peer: seconds of its whole process, and how many times ours."""
    made = run(worker("make", file=FILE, folder=work, rows=rows, dim=dim, queries=queries)).record
    exports = {"word2vec-bin": work / "vectors.bin", "model2vec": work / "model2vec"}
    for kind, path in exports.items():
        run(sgns("export", "--model", work / "run", "--format", kind, "-o", path, "-q"))
    asked = work / "queries.json"
    texts = json.loads(asked.read_text(encoding="utf-8"))
    results = []
    for number in (1, queries):
        commands = {
            OURS: sgns("neighbors", *texts[:number], "--model", work / "run", "--json", "-q"),
            "gensim, its file mapped": worker(
                "gensim", file=FILE, path=work / "gensim.kv", queries=asked, number=number
            ),
            "gensim, word2vec binary": worker(
                "gensim_word2vec", file=FILE, path=exports["word2vec-bin"], queries=asked, number=number
            ),
            "model2vec": worker("model2vec", file=FILE, path=exports["model2vec"], queries=asked, number=number),
        }
        processes = [{name: run(command) for name, command in commands.items()} for _ in range(repetitions)]
        for name in commands:
            times = [one[name].seconds / one[OURS].seconds for one in processes]
            results.append(
                {
                    **made,
                    "queries": number,
                    "what": name,
                    "seconds": statistics.median(one[name].seconds for one in processes),
                    "times": statistics.median(times),
                    "peak_mb": statistics.median(one[name].peak_mb for one in processes),
                }
            )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few rows, once")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="[bench/results/query-DATE.json]")
    arguments = parser.parse_args()
    quick = "-quick" if arguments.quick else ""
    output = arguments.output or HERE / "results" / f"query-{datetime.date.today()}{quick}.json"
    began = time.perf_counter()
    sizes = (2000, 50, 100, 1) if arguments.quick else (100_256, 300, 1000, 5)
    with tempfile.TemporaryDirectory(prefix="sgns-bench-") as folder:
        names = ("rows", "dim", "queries", "repetitions")
        rows = measure(Path(folder), **dict(zip(names, sizes, strict=True)))
    results: Record = {"quick": arguments.quick, "environment": environment([]), "query": rows}
    output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results["environment"], indent=1))
    print(f"\n{'':<26} {'rows':>8} {'dim':>5} {'queries':>8} {'seconds':>8} {'x':>6} {'peak MB':>8}")
    for row in rows:
        sizes_shown = f"{row['rows']:8d} {row['dim']:5d} {row['queries']:8d}"
        print(f"{row['what']:<26} {sizes_shown} {row['seconds']:8.2f} {row['times']:6.2f} {row['peak_mb']:8.0f}")
    print(f"\n{WANTED}\n{(time.perf_counter() - began) / 60:.1f} minutes; all of it in {output}")


if __name__ == "__main__":
    main()
