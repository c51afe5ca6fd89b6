"""The process in which rustbpe trains: vocab_size and pattern, then lists of texts come on stdin,
an empty one ends them; merges go to stdout.

A process of its own, because rustbpe holds the interpreter while it merges, minutes for a large corpus: so Ctrl-C can
end it, `--threads` reaches it, and its memory is given back. bpe_trainer.py starts it and is the only one that talks
to it, in `marshal`, which both ends read with one and the same interpreter. Imports nothing of this package.
"""

import ctypes
import marshal
import signal
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

PR_SET_PDEATHSIG = 1


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process ends it
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # also where that one is killed itself
    import rustbpe  # type: ignore[import-untyped]

    vocab_size, pattern = marshal.load(sys.stdin.buffer)
    trainer = rustbpe.Tokenizer()
    answer: tuple[str, Any]
    try:
        trainer.train_from_iterator(_texts(sys.stdin.buffer), vocab_size, pattern=pattern)
        answer = ("merges", trainer.get_mergeable_ranks())
    except UnicodeEncodeError as error:
        answer = ("text", str(error))
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a panic of the Rust side is no Exception
            raise
        answer = ("panic", str(error))
    marshal.dump(answer, sys.stdout.buffer)


def _texts(stream: BinaryIO) -> Iterator[str]:
    while texts := marshal.load(stream):
        yield from texts


if __name__ == "__main__":
    main()
