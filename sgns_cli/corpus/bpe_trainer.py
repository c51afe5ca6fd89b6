"""A BPE trained on the corpus itself, by rustbpe, as a tokenizer that plain tiktoken can load.

rustbpe keeps its merges as pairs and tiktoken as byte strings with a rank. The two cut every text alike as
long as no byte string is made by two merges; see `_ranks`. Knows nothing of where texts come from.
"""

from collections.abc import Iterable
from contextlib import suppress

from sgns_cli.corpus.tokenizer import BpeTokenizer
from sgns_cli.errors import SgnsError, UsageError

TEXTS_AT_ONCE = 256  # texts that wait in memory to be counted in parallel


def train_bpe(texts: Iterable[str], *, vocab_size: int, pattern: str) -> BpeTokenizer:
    """Train a BPE of at most `vocab_size` tokens, the 256 bytes among them, without special tokens.

    `pattern` is the regular expression that cuts texts into pieces; merges never cross a piece. A corpus with
    fewer merges gives a smaller n_vocab. Raises UsageError for a pattern that is no regular expression.
    """
    check_pattern(pattern)
    import rustbpe  # type: ignore[import-untyped]

    trainer = rustbpe.Tokenizer()
    try:
        trainer.train_from_iterator(iter(texts), vocab_size, buffer_size=TEXTS_AT_ONCE, pattern=pattern)
    except UnicodeEncodeError as error:
        raise SgnsError(f"a text cannot be written as UTF-8: {error}", "clean the text") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a panic of the Rust side is no Exception
            raise
        raise SgnsError(f"the BPE trainer gave up: {error}", "use a simpler tokenizer.train.pattern") from error
    return BpeTokenizer("trained", pattern, _ranks(trainer.get_mergeable_ranks()), {})


def check_pattern(pattern: str) -> None:
    """Raise UsageError unless `pattern` is a regular expression whose matches have at least one character."""
    import regex  # type: ignore[import-untyped]  # comes with tiktoken

    hint = "give `lines`, `words`, or a regular expression that cuts text into pieces"
    if not pattern:
        raise UsageError("tokenizer.train.pattern is empty", hint)
    tokenizer = BpeTokenizer("pattern", pattern, {bytes([byte]): byte for byte in range(256)}, {})
    try:
        tokenizer.check_pattern()
    except SgnsError as error:
        reason = error.__cause__
        raise UsageError(f"tokenizer.train.pattern is no regular expression: {reason}", hint) from error
    with suppress(regex.error):  # its syntax is not quite that of the engine above
        if regex.match(pattern, ""):
            raise UsageError("tokenizer.train.pattern matches nothing at all, so it cuts no pieces", hint)


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
