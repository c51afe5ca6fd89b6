"""Patterns in another syntax; that they match the same is tested with tokenizers, in test_tokenizer_json.py."""

import pytest

from sgns_cli.config import PATTERNS
from sgns_cli.corpus.oniguruma import to_oniguruma

WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]"


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"\p{N}{1,3}+|\s++$", r"(?>\p{N}{1,3})|\s++\z"),
        (r"(?:ab|[cd]){2}+e{3}?f{2,}?g?+", r"(?>(?:ab|[cd]){2})e{3}f{2,}?g?+"),
        (r"^a$|[$^]|\$\^", r"\Aa\z|[$^]|\$\^"),
        (r"\w+|[\w-]|\W|\\w", rf"{WORD}+|[{WORD}-]|{WORD.replace('[', '[^')}|\\w"),
        (r"\pL\PN[\pL]\p{L}", r"\p{L}\P{N}[\p{L}]\p{L}"),
        (r"(?s:.)(?s).", r"(?m:.)(?m)."),
        (r"(?m)^a$(?-m:^$)|(?m-i:$)$", r"^a$(?:\A\z)|(?-i:$)$"),
        (r"(?P<a>b)(?<=c)(?<!d)(?=e)(?!f)(?>g)", r"(?<a>b)(?<=c)(?<!d)(?=e)(?!f)(?>g)"),
        (r"[]a]{2}+[^]b]", r"(?>[\]a]{2})[^\]b]"),
        (r"[a[^b]&&[$]]{1,2}+$", r"(?>[a[^b]&&[$]]{1,2})\z"),
        (r"x{y}\x{41}{2}+", r"x{y}(?>\x{41}{2})"),
    ],
)
def test_rewritten(pattern: str, written: str) -> None:
    assert to_oniguruma(pattern) == written


def test_most_patterns_stay() -> None:
    assert [to_oniguruma(pattern) for pattern in PATTERNS.values()] == [
        PATTERNS["lines"],
        PATTERNS["words"],
    ]
