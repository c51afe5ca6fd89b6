"""What the CPU bench prints: tables of its rows as they come, and at the end what was wanted beside what was found."""

import statistics
from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]
MEDIANS = ("tokens_per_second", "pairs_per_second", "whole_seconds", "whole_tokens_per_second", "peak_mb")
MEDIANS_OF_SGNS = ("held_out_loss", "tokenize_seconds")
SCORES = ("analogies", "wordsim", "simlex")

NOTES = {
    "throughput": (
        "One epoch. loop: corpus tokens a second of the training loop; of fastText, the time of the call less that\n"
        "of the same call with no epoch. whole: from start to saved model; of the KJV sgns reads a token folder, the\n"
        "others its ids as text. pairs: those that sgns draws, and that the others train in expectation. x: how many\n"
        "times as fast sgns's loop is, within a repetition. scaling: against the first number of threads. sgns holds\n"
        "1 % of the text out: its loop's rate is of what it trains, its whole command's of all."
    ),
    "busy": "As above, while as many processes as there are threads do nothing but count.",
    "arithmetic": (
        "executed: the three matrix products of the kernel's blocks. useful: 6 * dim * pairs * (1 + negatives).\n"
        "Shares are of the peak of fused multiply-adds, looked at between stretches of training."
    ),
    "memory": "Peak anonymous memory of `sgns train` on a token folder; beyond: less both matrices and the imports.",
    "whole": "One epoch of the whole text, from start to saved model. x: how many times as fast sgns is.",
    "quality": "Several epochs of the whole text. Analogies of 30,000 candidates; Spearman's rho for the others.",
}
TABLES = {
    "throughput": "corpus dim threads subsample trainer loop loop_times whole_rate pairs scaling peak held_out",
    "busy": "corpus dim threads subsample trainer loop loop_times",
    "arithmetic": "corpus dim threads gflops executed executed_share useful useful_share loop",
    "memory": "corpus dim threads anonymous matrices imports beyond",
    "whole": "corpus dim threads subsample trainer whole whole_times tokenize loop peak",
    "quality": "corpus dim threads subsample trainer seed analogies wordsim simlex held_out loop whole peak",
}
# Title, key of a row, format, unit that the value is divided by.
COLUMNS = {
    "corpus": ("corpus", "corpus", "<12", None),
    "dim": ("dim", "dim", ">4", None),
    "threads": ("threads", "threads", ">7", None),
    "subsample": ("subsample", "subsample", ">9g", None),
    "trainer": ("trainer", "trainer", "<8", None),
    "seed": ("seed", "seed", ">4", None),
    "loop": ("loop Mtok/s", "tokens_per_second", ">11.3f", 1e6),
    "loop_times": ("x", "sgns_loop_times", ">5.2f", 1),
    "whole_rate": ("whole Mtok/s", "whole_tokens_per_second", ">12.3f", 1e6),
    "whole": ("whole s", "whole_seconds", ">7.1f", 1),
    "whole_times": ("x", "sgns_whole_times", ">5.2f", 1),
    "tokenize": ("tokenize s", "tokenize_seconds", ">10.1f", 1),
    "pairs": ("Mpairs/s", "pairs_per_second", ">8.2f", 1e6),
    "scaling": ("scaling", "scaling", ">7.2f", 1),
    "peak": ("peak MB", "peak_mb", ">7.0f", 1),
    "held_out": ("held-out", "held_out_loss", ">8.4f", 1),
    "gflops": ("peak GFLOP/s", "peak_gflops", ">12.1f", 1),
    "executed": ("executed", "executed_gflops", ">8.1f", 1),
    "executed_share": ("share", "executed_share", ">6.1%", 1),
    "useful": ("useful", "useful_gflops", ">6.1f", 1),
    "useful_share": ("share", "useful_share", ">6.1%", 1),
    "anonymous": ("anonymous MB", "anonymous_mb", ">12.1f", 1),
    "matrices": ("matrices", "matrices_mb", ">8.1f", 1),
    "imports": ("imports", "imports_mb", ">7.1f", 1),
    "beyond": ("beyond", "beyond_mb", ">6.1f", 1),
    "analogies": ("analogies", "analogies", ">9.4f", 1),
    "wordsim": ("WordSim", "wordsim", ">7.4f", 1),
    "simlex": ("SimLex", "simlex", ">7.4f", 1),
}


def say_what(results: Record, *, missing: Sequence[str]) -> None:
    """Versions and machine, before anything is measured."""
    machine = results["environment"]
    print(
        f"{machine['date']}  {machine['processor']}, {machine['cores']} cores; threads {machine['threads']}; "
        f"load before: {machine['load'][0]:.1f}"
    )
    print(", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
    if results["quick"]:
        print("QUICK: small slices, once. It shows that the bench works; its numbers claim nothing.")
    for name in missing:
        print(f"{name} is not installed: left out (pip install -e '.[bench]')")


def heading(part: str) -> None:
    columns = [COLUMNS[name] for name in TABLES[part].split()]
    titles = (f"{title:{_aligned(form)}}" for title, _, form, _ in columns)
    print(f"\n== {part}\n{NOTES[part]}\n\n{'  '.join(titles)}", flush=True)


def row(part: str, found: Record) -> None:
    """Print a row of a part; what it does not have is a dash."""
    cells = []
    for name in TABLES[part].split():
        _, key, form, unit = COLUMNS[name]
        value = found.get(key)
        if value is None:
            cells.append(f"{'-':{_aligned(form)}}")
        else:
            cells.append(format(value / unit if unit else value, form))
    print("  ".join(cells), flush=True)


def _aligned(form: str) -> str:
    """The direction and width of a format, for text."""
    return form.split(".")[0].rstrip("g")


def medians(rounds: Sequence[dict[str, Record]], trainer: str) -> Record:
    """Medians of a trainer over repetitions, and how many times as fast sgns was within a repetition."""
    rounds = [each for each in rounds if trainer in each]
    own = [each[trainer] for each in rounds]
    keys = (*MEDIANS, *MEDIANS_OF_SGNS) if trainer == "sgns" else MEDIANS
    found: Record = {key: statistics.median(one[key] for one in own) for key in keys}
    pairs = [(each["sgns"], each[trainer]) for each in rounds]
    found["sgns_loop_times"] = statistics.median(s["tokens_per_second"] / o["tokens_per_second"] for s, o in pairs)
    found["sgns_whole_times"] = statistics.median(o["whole_seconds"] / s["whole_seconds"] for s, o in pairs)
    return {"trainer": trainer, **found, "repetitions": own}


def quality_means(rows: Sequence[Record]) -> dict[str, Record]:
    """Print and return the means over the seeds of each trainer, side by side."""
    means = {}
    for name in dict.fromkeys(row["trainer"] for row in rows):
        own = [row for row in rows if row["trainer"] == name]
        means[name] = {key: statistics.mean(row[key] for row in own) for key in SCORES}
        shown = "  ".join(f"{key} {means[name][key]:.4f}" for key in SCORES)
        print(f"mean of {len(own)} seeds  {name:<8}  {shown}")
    return means


def targets(results: Record) -> list[Record]:
    """Print and return what was wanted, what was measured, and whether it is met."""
    found = [*_speed_targets(results), *_quality_targets(results), *_whole_targets(results), *_own_targets(results)]
    print(f"\n== targets\n\n{'':<64} {'wanted':>8} {'measured':>9}  met?")
    for one in found:
        wanted, measured = one["wanted"], one["measured"]
        one["met"] = measured >= wanted if one["at_least"] else measured <= wanted
        sign = ">=" if one["at_least"] else "<="
        print(f"{one['what']:<64} {f'{sign} {wanted:g}':>8} {measured:>9.3g}  {'yes' if one['met'] else 'NO'}")
    return found


def _target(what: str, wanted: float, measured: float, *, at_least: bool = True) -> Record:
    return {"what": what, "wanted": wanted, "measured": measured, "at_least": at_least}


def _speed_targets(results: Record) -> list[Record]:
    """The loop on the novels at the most threads."""
    most = max(results["environment"]["threads"])
    found = []
    for row in results.get("throughput", []):
        if row["corpus"] != "eltec-slice" or row["threads"] != most:
            continue
        cell = f"dim {row['dim']}, subsample {row['subsample']:g}, {most} threads"
        wanted, aim = (6, 8) if row["dim"] == 300 else (7, 10) if row["subsample"] == 1e-3 else (9, 12)
        if row["trainer"] == "gensim":
            found.append(_target(f"loop against gensim, {cell} (aim {aim})", wanted, row["sgns_loop_times"]))
        if row["trainer"] == "sgns" and most == 2:
            found.append(_target(f"against one thread, {cell}", 1.8, row["scaling"]))
    for row in results.get("busy", []):
        if row["trainer"] == "gensim":
            cell = f"dim {row['dim']}, subsample {row['subsample']:g}"
            found.append(_target(f"loop against gensim on a busy machine, {cell}", 5, row["sgns_loop_times"]))
    return found


def _quality_targets(results: Record) -> list[Record]:
    means = results.get("quality_means", {})
    if "gensim" not in means:
        return []
    less = {key: means["sgns"][key] - means["gensim"][key] for key in SCORES}
    found = [_target("analogies less those of gensim, in points", -1, 100 * less["analogies"])]
    return [*found, *(_target(f"{key} less that of gensim", -0.02, less[key]) for key in SCORES[1:])]


def _whole_targets(results: Record) -> list[Record]:
    found = []
    for row in results.get("whole", []):
        if row["trainer"] == "gensim":
            found.append(_target("whole command against gensim, one epoch", 5, row["sgns_whole_times"]))
    rows = results.get("quality", [])
    seconds = {name: [row["whole_seconds"] for row in rows if row["trainer"] == name] for name in ("sgns", "gensim")}
    if seconds["gensim"]:
        ratio = statistics.median(other / own for own, other in zip(*seconds.values(), strict=True))
        found.append(_target(f"whole command against gensim, {rows[0]['epochs']} epochs (quality cells)", 5, ratio))
    return found


def _own_targets(results: Record) -> list[Record]:
    shares = [
        _target(f"share of the FMA peak, dim {row['dim']}, {row['threads']} threads", 0.6, row["executed_share"])
        for row in results.get("arithmetic", [])
    ]
    memory = [
        _target(f"MB beyond matrices and imports, {row['corpus']}", 100, row["beyond_mb"], at_least=False)
        for row in results.get("memory", [])
    ]
    return shares + memory
