r"""A BPE's pattern in the syntax of Oniguruma, the regular expressions of Hugging Face's tokenizers.

tiktoken's are Rust's. Both know the same classes of characters, but read some signs otherwise:

    Rust                        in Oniguruma            written as
    $  ^     ends of the text   ends of lines           \z  \A
    X{1,3}+  keeps what it has  any number of X{1,3}    (?>X{1,3})
    X{3}?    three X            none or three           X{3}
    (?s) (?m)                   the second has no sign  (?m), and $ and ^ as they are
    \w       as UTS #18 says    with ², ¼ and the like  [...]
    \pL      \p{L}              an error                \p{L}

Not rewritten: POSIX classes such as [:alpha:], which are ASCII in Rust, the differences -- and ~~ of classes, flags in
the middle of a branch, and that (?i:ss) matches ß here.
"""

import re
from dataclasses import dataclass

WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
WRITTEN = {r"\w": f"[{WORD}]", r"\W": f"[^{WORD}]"}
ESCAPE = r"\\[pPxu]\{[^}]*\}|\\[pP]\w|\\."
PIECE = re.compile(
    rf"(?P<escape>{ESCAPE})"
    r"|(?P<flags>\(\?[a-zA-Z]*(?:-[a-zA-Z]+)?[:)])"
    r"|(?P<open>\((?:\?(?:<?[=!]|>|P?<\w+>))?)"
    r"|(?P<times>[*+?]|\{\d+(?:,\d*)?\})(?P<greed>[+?]?)"
    r"|(?P<other>.)",
    re.DOTALL,
)
CLASS_PIECE = re.compile(rf"(?P<escape>{ESCAPE})|(?P<open>\[\^?)(?P<bracket>\]?)|(?P<other>.)", re.DOTALL)


@dataclass
class _Group:
    """What has been written since a parenthesis opened; the last part is what a quantifier would repeat."""

    parts: list[str]
    multi_line: bool


def to_oniguruma(pattern: str) -> str:
    r"""Rewrite a pattern so that Oniguruma matches with it what tiktoken does.

    >>> to_oniguruma(r"\p{N}{1,3}+|\s++$")
    '(?>\\p{N}{1,3})|\\s++\\z'
    """
    groups = [_Group([], False)]
    at = 0
    while match := PIECE.match(pattern, at):
        at = match.end()
        text, group = match.group(), groups[-1]
        if match["flags"]:
            _open_flags(text, groups)
        elif match["open"]:
            groups.append(_Group([text.replace("(?P<", "(?<")], group.multi_line))
        elif text == ")" and len(groups) > 1:
            closed = groups.pop()
            groups[-1].parts.append("".join(closed.parts) + text)
        elif match["times"] and group.parts:
            group.parts[-1] = _repeat(group.parts[-1], match["times"], match["greed"])
        elif text == "[":
            written, at = _class(pattern, match.start())
            group.parts.append(written)
        elif text in ("$", "^") and not group.multi_line:
            group.parts.append(r"\z" if text == "$" else r"\A")
        else:
            group.parts.append(_escape(text))
    return "".join(part for group in groups for part in group.parts)


def _open_flags(text: str, groups: list[_Group]) -> None:
    """(?flags) for the rest of a group, or (?flags: for a group of its own."""
    on, _, off = text[2:-1].partition("-")
    multi_line = ("m" in on) or (groups[-1].multi_line and "m" not in off)
    on, off = (flags.replace("m", "").replace("u", "").replace("s", "m") for flags in (on, off))
    written = f"(?{on}{'-' if off else ''}{off}{text[-1]}"
    if text[-1] == ":":
        groups.append(_Group([written], multi_line))
    else:
        groups[-1].multi_line = multi_line
        groups[-1].parts.append(written if on or off else "")


def _repeat(part: str, times: str, greed: str) -> str:
    counted = times.startswith("{")
    if counted and greed == "+":
        return f"(?>{part}{times})"
    return part + times + ("" if counted and "," not in times else greed)


def _class(pattern: str, start: int) -> tuple[str, int]:
    """A class, and where it ends; others may stand in it."""
    parts = []
    depth = 0
    at = start
    while match := CLASS_PIECE.match(pattern, at):
        at = match.end()
        if match["open"]:
            depth += 1
            parts.append(match["open"] + (r"\]" if match["bracket"] else ""))
            continue
        parts.append(_escape(match.group()))
        depth -= match.group() == "]"
        if depth == 0:
            break
    return "".join(parts), at


def _escape(text: str) -> str:
    if len(text) == 3 and text[:2] in (r"\p", r"\P"):
        return f"{text[:2]}{{{text[2]}}}"
    return WRITTEN.get(text, text)
