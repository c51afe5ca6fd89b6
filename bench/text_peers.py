"""What bench/tokenizing.py runs in processes of their own: `python bench/text_peers.py NAME '{"option": value}'`.

The peers get their text as lines in memory; their seconds are those of encoding alone.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
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
    """cl100k_base as they write a BPE: names of tokens, and merges as pairs, found by merging each token without it."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    from sgns_cli.corpus.token_text import to_byte_alphabet
    from sgns_cli.corpus.tokenizer import open_encoding

    bpe = open_encoding("cl100k_base")
    ranks = {token: id for id in range(bpe.n_vocab) if id not in bpe.special_ids and (token := bpe.token_bytes(id))}
    merges = []
    for token, rank in ranks.items():
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [ranks.get(left + right, rank) for left, right in pairwise(parts)]
            at = min(range(len(pairs)), key=pairs.__getitem__)
            if pairs[at] >= rank:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append((to_byte_alphabet(parts[0]), to_byte_alphabet(parts[1])))
    names = {to_byte_alphabet(token): rank for token, rank in ranks.items()}
    tokenizer = Tokenizer(models.BPE(vocab=names, merges=merges, ignore_merges=True))
    split = pre_tokenizers.Split(Regex(bpe.pattern), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    return tokenizer


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
