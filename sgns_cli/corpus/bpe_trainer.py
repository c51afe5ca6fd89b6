"""A BPE trained on the corpus itself, by rustbpe, as a tokenizer that plain tiktoken can load.

rustbpe keeps its merges as pairs and tiktoken as byte strings with a rank. The two cut every text alike as
long as no byte string is made by two merges; see `_ranks`. Knows nothing of where texts come from.
"""

import marshal
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from sgns_cli.corpus import bpe
from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.errors import SgnsError, UsageError

WORKER = Path(__file__).with_name("bpe_worker.py")
TEXTS_AT_ONCE = 1000  # sent to the worker


def train_bpe(texts: Iterable[str], *, vocab_size: int, pattern: str, threads: int | None = None) -> BpeTokenizer:
    """Train a BPE of at most `vocab_size` tokens, the 256 bytes among them, without special tokens.

    `pattern` is the regular expression that cuts texts into pieces; merges never cross a piece. A corpus with
    fewer merges gives a smaller n_vocab; `threads` (None: all processors) change nothing in it. Raises UsageError
    for a pattern that is no regular expression, SgnsError if rustbpe gives up.
    """
    check_pattern(pattern)
    kind, value = _ask_worker(texts, vocab_size, pattern, threads)
    if kind == "text":
        raise SgnsError(f"a text cannot be written as UTF-8: {value}", "clean the text")
    if kind == "panic":
        raise SgnsError(f"the BPE trainer gave up: {value}", "use a simpler tokenizer.train.pattern")
    return BpeTokenizer("trained", pattern, _ranks(value), {})


def _ask_worker(texts: Iterable[str], vocab_size: int, pattern: str, threads: int | None) -> tuple[str, Any]:
    """Send all texts to a worker process, and return its answer; it ends with this call, however that ends."""
    command = [sys.executable, "-P", str(WORKER)]
    environment = os.environ if threads is None else {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as worker:
        assert worker.stdin and worker.stdout and worker.stderr
        try:
            with suppress(BrokenPipeError):  # it has ended early, and its answer says why
                marshal.dump((vocab_size, pattern), worker.stdin)
                each = iter(texts)
                while some := list(islice(each, TEXTS_AT_ONCE)):
                    marshal.dump(some, worker.stdin)
                marshal.dump([], worker.stdin)
            _close(worker.stdin)
            answer = worker.stdout.read()
            complaint = worker.stderr.read().decode(errors="replace").strip()
        except BaseException:
            worker.kill()
            worker.wait()
            _close(worker.stdin)
            raise
    if worker.returncode == 0:
        kind, value = marshal.loads(answer)
        return kind, value
    if worker.returncode < 0:
        raise SgnsError(
            f"the BPE trainer was killed by signal {-worker.returncode}, as happens where memory runs out",
            "train on less text, or with --set tokenizer.train.pattern=words, which needs less",
        )
    last = complaint.rsplit("\n", 1)[-1]
    if "Invalid regex pattern" in complaint:  # its syntax is not quite that of tiktoken
        raise UsageError(f"tokenizer.train.pattern is none for the BPE trainer: {last}", "write it in another way")
    raise SgnsError(f"the BPE trainer failed: {last}", "does `python -c 'import rustbpe'` work?")


def _close(pipe: IO[bytes]) -> None:
    with suppress(BrokenPipeError):  # what is left in its buffer nobody reads
        pipe.close()


def check_pattern(pattern: str) -> None:
    """Raise UsageError unless `pattern` is a regular expression whose matches have at least one character."""
    hint = "give `lines`, `words`, or a regular expression that cuts text into pieces"
    if not pattern:
        raise UsageError("tokenizer.train.pattern is empty", hint)
    try:
        bpe.check_pattern("tokenizer.train", pattern)
    except SgnsError as error:
        what = f"no regular expression: {error.__cause__}" if error.__cause__ else "one that matches nothing at all"
        raise UsageError(f"tokenizer.train.pattern is {what}", hint) from error


def _ranks(merges: list[tuple[bytes, int]]) -> dict[bytes, int]:
    """Token bytes to rank. Of two merges that make the same bytes the earlier counts, and ids close up behind
    it.

    Inside a token's own bytes the merges run the same way wherever the token stands, for a merge that crossed
    its border would have kept it from becoming that token. So a trainer whose merges all come from its own
    pieces makes each byte string once, and then a rank by bytes and a rank by pair mean the same.
    """
    ranks: dict[bytes, int] = {}
    for token, _ in merges:  # in the order of ids
        ranks.setdefault(bytes(token), len(ranks))
    return ranks
