"""`sgns tokenize` beside tiktoken alone and Hugging Face tokenizers, side by side in one run: speed and memory.

    python bench/tokenizing.py             all of it, in a quarter of an hour
    python bench/tokenizing.py --quick     small files, once, in a minute: to see that it works, not to claim a number

The peers (text_peers.py) encode lines that lie in memory already, and nothing else; sgns is the whole command, from its
start over reading to a token folder on the disk. All in turn within each repetition; ratios are medians of those within
a repetition. (Not called tokenize.py: Python itself has a module of that name, which it would hide.)
"""

import argparse
import datetime
import importlib.util
import json
import lzma
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from processes import ELTEC, HERE, KJV, Record, environment, run, sgns, worker

MB = 1_000_000
FILE = "text_peers.py"
PARTS = ("speed", "bpe", "long", "memory")
WANTED = "wanted: 1 thread 0.85 x tiktoken alone, 2 threads 1.7 x; bpe 1.0 x rustbpe"


class Bench:
    """The parts, each a method that yields the rows it adds to the results."""

    def __init__(self, text: Path, work: Path, *, quick: bool) -> None:
        self.text, self.work, self.quick = text, work, quick
        self.repetitions = 1 if quick else 5

    def _tokenize(self, *arguments: str | Path) -> Record:
        """One `sgns tokenize` to its end: bytes a second of the whole command, and its peak memory."""
        folder = self.work / "tokens"
        process = run(sgns("tokenize", *arguments, "-o", folder, "--json", "--quiet"))
        shutil.rmtree(folder)
        return {**process.record, "seconds": process.seconds, "peak_mb": process.peak_mb}

    def speed(self) -> Iterator[Record]:
        """cl100k_base, a document a line."""
        peers = ["tiktoken"] + ["tokenizers"] * bool(importlib.util.find_spec("tokenizers"))
        rows: dict[str, list[Record]] = {}
        for _ in range(self.repetitions):
            for peer in peers:
                record = run(worker(peer, file=FILE, text=self.text)).record
                rows.setdefault(f"{peer} alone, 1 thread", []).append(record)
            for threads in (1, 2):
                record = self._tokenize(self.text, "--threads", str(threads))
                rows.setdefault(f"sgns tokenize, {threads} thread{'s' * (threads > 1)}", []).append(record)
        first = rows["tiktoken alone, 1 thread"]
        for name, records in rows.items():
            times = [one["seconds"] / other["seconds"] for one, other in zip(first, records, strict=True)]
            if len({record["tokens"] for record in [*first, *records]}) > 1:
                raise SystemExit(f"{name} gives other tokens than tiktoken")
            yield {"what": name, "bytes": self.text.stat().st_size, **_medians(records), "times": _median(times)}

    def bpe(self) -> Iterator[Record]:
        """Training a BPE of 8,192 tokens: rustbpe on lines in memory, and `train_bpe`, which has a process for it."""
        for pattern, text in (("words", self.text), ("lines", KJV)):
            pairs = [
                [run(worker(name, file=FILE, text=text, pattern=pattern)).record for name in ("rustbpe", "train_bpe")]
                for _ in range(1 if self.quick else 3)
            ]
            times = [alone["seconds"] / ours["seconds"] for alone, ours in pairs]
            for index, name in enumerate(("rustbpe alone", "train_bpe")):
                row = {"what": f"{name}, {pattern}", "bytes": text.stat().st_size}
                yield {**row, **_medians([pair[index] for pair in pairs]), "times": _median(times) if index else 1.0}

    def long(self) -> Iterator[Record]:
        """Documents that are one piece: seconds should grow as their size. `times` is per byte, against the smaller."""
        sizes = (MB // 4, MB) if self.quick else (MB, 4 * MB)
        for character in ("a", " ", "=", "é"):
            yield from self._growing(f"one character {character!r}", sizes, [character.encode()])
        letters = [bytes([97 + n * n * 7919 % 26]) for n in range(1009)]  # no word has these
        yield from self._growing("letters without a space", [5 * size for size in sizes], letters)

    def _growing(self, name: str, sizes: tuple[int, ...] | list[int], characters: list[bytes]) -> Iterator[Record]:
        unit = b"".join(characters)
        first = 0.0
        for size in sizes:
            path = self.work / "long.txt"
            path.write_bytes(unit * (size // len(unit)))
            rows = [self._tokenize(path, "--threads", "1") for _ in range(1 if self.quick else 3)]
            row = _medians(rows)
            first = first or row["seconds"] / size
            yield {"what": f"{name}, {size / MB:g} MB", "bytes": size, **row, "times": first / (row["seconds"] / size)}

    def memory(self) -> Iterator[Record]:
        """The same text once, ten and thirty-two times over."""
        for copies in (1, 2) if self.quick else (1, 10, 32):
            path = self.work / "repeated.txt"
            with path.open("wb") as repeated:
                for _ in range(copies):
                    with self.text.open("rb") as text:
                        shutil.copyfileobj(text, repeated)
            for encoding in ("cl100k_base", "whitespace"):
                row = self._tokenize(path, "--encoding", encoding)
                yield {"what": f"{encoding}, {copies} x", "bytes": path.stat().st_size, **row, "times": None}


def _median(numbers: list[float]) -> float:
    return statistics.median(numbers)


def _medians(records: list[Record]) -> Record:
    keys = [key for key in ("seconds", "tokens", "peak_mb") if key in records[0]]
    return {key: _median([record[key] for record in records]) for key in keys}


def show(row: Record) -> None:
    peak = f"{row['peak_mb']:8.0f}" if row.get("peak_mb") else " " * 8
    times = f"{row['times']:7.2f}" if row["times"] else " " * 7
    seconds = row["seconds"]
    print(f"{row['what']:<36} {row['bytes'] / MB:8.1f} {seconds:8.2f} {row['bytes'] / MB / seconds:8.2f}{times}{peak}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--eltec", type=Path, default=ELTEC, metavar="FILE", help="the novels, .txt.xz [%(default)s]")
    parser.add_argument("--quick", action="store_true", help="small files, once")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part only; may be given again")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="[bench/results/tokenizing-DATE.json]")
    arguments = parser.parse_args()
    quick = "-quick" if arguments.quick else ""
    output = arguments.output or HERE / "results" / f"tokenizing-{datetime.date.today()}{quick}.json"
    began = time.perf_counter()
    results: Record = {"quick": arguments.quick, "environment": environment([1, 2])}
    print(json.dumps(results["environment"], indent=1))
    with tempfile.TemporaryDirectory(prefix="sgns-bench-") as folder:
        work = Path(folder)
        text = work / "text.txt"
        if arguments.eltec.exists():
            with lzma.open(arguments.eltec) as novels, text.open("wb") as file:
                if arguments.quick:
                    file.write(novels.read(3 * MB))
                else:
                    shutil.copyfileobj(novels, file)
        else:
            print(f"no novels at {arguments.eltec}: the King James Bible alone")
            text.write_bytes(KJV.read_bytes())
        bench = Bench(text, work, quick=arguments.quick)
        for part in arguments.only or PARTS:
            print(f"\n{part}: {(getattr(Bench, part).__doc__ or '').strip()}")
            print(f"{'':<36} {'MB':>8} {'seconds':>8} {'MB/s':>8} {'x':>6} {'peak MB':>7}")
            results[part] = []
            for row in getattr(bench, part)():
                results[part].append(row)
                show(row)
                output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"\n{WANTED}\n{(time.perf_counter() - began) / 60:.1f} minutes; all of it in {output}")


if __name__ == "__main__":
    main()
