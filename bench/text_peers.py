"""What bench/tokenizing.py runs in processes of their own: `python bench/text_peers.py NAME '{"option": value}'`.

The peers get their text as lines in memory; their seconds are those of encoding alone.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINES_AT_ONCE = 1000  # to Hugging Face tokenizers, which makes an object with offsets of each
Record = dict[str, Any]


def _lines(text: str) -> list[str]:
    return [line for line in Path(text).read_text(encoding="utf-8").split("\n") if line]


def encode_with_tiktoken(text: str) -> Record:
    """`encode_ordinary` of each line, on one core."""
    from sgns_cli.corpus.tokenizer import open_encoding

    encoding, lines, tokens = open_encoding("cl100k_base")._encoding, _lines(text), 0
    encoding.encode_ordinary("once, to be ready")
    began = time.perf_counter()
    for line in lines:
        tokens += len(encoding.encode_ordinary(line))
    return {"seconds": time.perf_counter() - began, "tokens": tokens}


def encode_with_tokenizers(text: str) -> Record:
    """`encode_batch_fast` of some lines at a time, on one core; the same ranks and the same pattern."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer, lines, tokens = _hugging_face(), _lines(text), 0
    tokenizer.encode_batch_fast(["once, to be ready"])
    began = time.perf_counter()
    for start in range(0, len(lines), LINES_AT_ONCE):
        tokens += sum(len(one.ids) for one in tokenizer.encode_batch_fast(lines[start : start + LINES_AT_ONCE]))
    return {"seconds": time.perf_counter() - began, "tokens": tokens}


def _hugging_face() -> Any:
    """cl100k_base as `sgns export --format model2vec` writes it."""
    from tokenizers import Tokenizer

    from sgns_cli.corpus.tokenizer import open_encoding
    from sgns_cli.corpus.tokenizer_json import tokenizer_json

    return Tokenizer.from_str(json.dumps(tokenizer_json(open_encoding("cl100k_base"))))


def train_rustbpe(text: str, pattern: str) -> Record:
    """rustbpe alone, on lines in memory."""
    import rustbpe

    from sgns_cli.config import PATTERNS

    lines = _lines(text)
    began = time.perf_counter()
    rustbpe.Tokenizer().train_from_iterator(iter(lines), 8192, pattern=PATTERNS[pattern])
    return {"seconds": time.perf_counter() - began}


def train_bpe(text: str, pattern: str) -> Record:
    """The same through `train_bpe`."""
    from sgns_cli.config import PATTERNS
    from sgns_cli.corpus.bpe_trainer import train_bpe

    lines = _lines(text)
    began = time.perf_counter()
    train_bpe(lines, vocab_size=8192, pattern=PATTERNS[pattern])
    return {"seconds": time.perf_counter() - began}


WORKERS: dict[str, Callable[..., Record]] = {
    "tiktoken": encode_with_tiktoken,
    "tokenizers": encode_with_tokenizers,
    "rustbpe": train_rustbpe,
    "train_bpe": train_bpe,
}

if __name__ == "__main__":
    print(json.dumps(WORKERS[sys.argv[1]](**json.loads(sys.argv[2]))))
