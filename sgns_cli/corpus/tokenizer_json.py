"""A tokenizer as Hugging Face's tokenizer.json, so that their library gives every text the same ids.

Every id has an entry in the vocabulary. Ids that no text becomes have names with a space in them, which no piece of
text has there: special tokens (their names are ordinary text in a corpus), holes, repeated names. They are no
`added_tokens`, which would be found in texts. Plain JSON: the library is not needed to write it.
"""

from itertools import pairwise
from typing import Any

from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.corpus.oniguruma import to_oniguruma
from sgns_cli.corpus.token_text import show, to_byte_alphabet
from sgns_cli.corpus.tokenizer import Tokenizer

WHITE_SPACE = r"\t-\r\x1c-\x20\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # what str.split() cuts at
# The lower case of Σ at the end of a word, as str.lower() has it; Rust's, a character at a time, has σ everywhere.
CASED = r"[\p{Cased}&&[^\p{Case_Ignorable}]]"
FINAL_SIGMA = rf"{CASED}\p{{Case_Ignorable}}*\KΣ(?!\p{{Case_Ignorable}}*{CASED})"


Part = dict[str, Any]


def tokenizer_json(tokenizer: Tokenizer, *, n_ids: int = 0, lowercase: bool = False) -> Part:
    """The contents of a tokenizer.json with an entry for each id, and for those up to `n_ids` if that is more.

    `lowercase` lower-cases texts first. A text's words that `whitespace` has no id for become one more entry, the
    last, which the model names as `unk_token`; a BPE needs none.
    """
    n_ids = max(n_ids, tokenizer.n_vocab)
    lower = _sequence("normalizers", _replace(FINAL_SIGMA, "ς"), {"type": "Lowercase"})
    of_kind = _bpe(tokenizer, n_ids) if isinstance(tokenizer, BpeTokenizer) else _words(tokenizer, n_ids)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": lower if lowercase else None,
        "post_processor": None,
        **of_kind,
    }


def _bpe(tokenizer: BpeTokenizer, n_ids: int) -> Part:
    special = tokenizer.special_ids
    tokens = {
        id: token for id in range(n_ids) if id not in special and (token := tokenizer.token_bytes(id)) is not None
    }
    names = {id: to_byte_alphabet(token) for id, token in tokens.items()}
    pairs = find_merges({token: id for id, token in tokens.items()})
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": True,  # a piece that is a token is one, whether merges lead to it or not
        "vocab": {names.get(id) or _unreachable(tokenizer, id): id for id in range(n_ids)},
        "merges": [[to_byte_alphabet(left), to_byte_alphabet(right)] for left, right in pairs],
    }
    # tiktoken leaves out what the pattern does not match, so everything but the matches is removed.
    split = _split(to_oniguruma(tokenizer.pattern), invert=True)
    pre_tokenizer = _sequence("pretokenizers", split, _byte_level())
    return {"pre_tokenizer": pre_tokenizer, "decoder": _byte_level(), "model": model}


def find_merges(ranks: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """The two parts that each token is merged from, by rising rank; tokens that no merges lead to are left out.

    A token is merged alone, without its own rank: in a longer text the same merges happen within its bytes as long
    as none crosses their ends, so its last two parts are the same wherever it occurs.
    """
    merges = []
    none = max(ranks.values(), default=0) + 1
    for token in sorted(ranks, key=ranks.__getitem__):
        parts = [token[index : index + 1] for index in range(len(token))]
        while len(parts) > 2:
            pairs = [ranks.get(left + right, none) for left, right in pairwise(parts)]
            lowest = min(pairs)
            if lowest == none:
                break
            at = pairs.index(lowest)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2 and all(part in ranks for part in parts):
            merges.append((parts[0], parts[1]))
    return merges


def _words(tokenizer: Tokenizer, n_ids: int) -> Part:
    unknown = f"{n_ids} <unknown>"
    vocabulary = {}
    for id in range(n_ids):
        token = tokenizer.token_bytes(id)
        word = None if token is None else token.decode("utf-8", "replace")
        reachable = word is not None and tokenizer.id_of(word.encode()) == id and word.split() == [word]
        vocabulary[word if word is not None and reachable else _unreachable(tokenizer, id)] = id
    model = {"type": "WordLevel", "vocab": {**vocabulary, unknown: n_ids}, "unk_token": unknown}
    return {"pre_tokenizer": _split(f"[{WHITE_SPACE}]+"), "decoder": None, "model": model}


def _unreachable(tokenizer: Tokenizer, id: int) -> str:
    """A name of its own that is no piece of any text."""
    token = tokenizer.token_bytes(id)
    return f"{id} " + ("<hole>" if token is None else show(token))


def _split(pattern: str, *, invert: bool = False) -> Part:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": invert}


def _replace(pattern: str, content: str) -> Part:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _byte_level() -> Part:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def _sequence(name: str, *parts: Part) -> Part:
    return {"type": "Sequence", name: list(parts)}
