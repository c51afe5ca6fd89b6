"""Bytes as a row of decisions, so that one input drives a target under any fuzzer; and damage to the files of a folder.

Decisions come from the front of the input, and a text or a file is what is left of it: a fuzzer that changes a byte
changes one of them, or the content.
"""

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Files = Mapping[str, bytes]  # by name in a folder

DEEP = "[" * 3000 + "]" * 3000
ODD = [  # in the place of any value of JSON
    *("null", "true", "false", "0", "1", "-1", "255", "256", "65536", "2147483648", "9223372036854775807"),
    *("18446744073709551616", "0.5", "1e400", "NaN", "-Infinity", "9" * 5000, "1" + "0" * 400, DEEP),
    *('""', '"x"', '"../../x"', '"/dev/zero"', '"\\u001b[31m"', '"\\ud800"', '"\\u0000"', '"' + "x" * 5000 + '"'),
    *("[]", "[1]", '["x"]', "{}", '{"x": 1}', "[0, 1152921504606846976]", "[1152921504606846976, 1152921504606846976]"),
]
DTYPES = ["<i8", ">i8", "<i4", "<f8", "|b1", "|O", "<U5", "|V8", "<M8[s]", [("x", "<i8")], "x", 3, None]
SHAPES = ["(6,)", "(0,)", "(-1,)", "()", "(1, 6)", "(10000000000,)", "(9223372036854775808,)", "6", "None", "(2.0,)"]


class Choices:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self, below: int) -> int:
        """From 0 on; of as many bytes as that takes, zero where there are none left."""
        return int.from_bytes(self.take(math.ceil(math.log(max(below, 2), 256))), "little") % max(below, 1)

    def pick(self, things: Sequence[T]) -> T:
        return things[self.number(len(things))]

    def take(self, length: int) -> bytes:
        taken, self._data = self._data[:length], self._data[length:]
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def text(self) -> str:
        """What is left, as the text that a command line or Python may have: half surrogates among it."""
        wide = self.number(2)
        rest = self.rest()
        if wide:
            return rest[: len(rest) // 2 * 2].decode("utf-16-le", "surrogatepass")
        return rest.decode("utf-8", "surrogateescape")


def damage(files: Files, choices: Choices) -> dict[str, bytes]:
    """The files with one or two changes; a file may be missing."""
    changed = dict(files)
    for _ in range(1 + choices.number(2)):
        name = choices.pick(sorted(files))
        old = changed.get(name, b"")
        at = choices.number(len(old) + 1)
        kind = choices.number(8)
        if kind == 0:
            new = choices.take(1 + choices.number(16))
            changed[name] = old[:at] + new + old[at + len(new) :]
        elif kind == 1:
            changed[name] = old[:at]
        elif kind == 2:
            changed[name] = old + choices.take(choices.number(64))
        elif kind == 3:
            changed[name] = old[:at] + old[at + choices.number(64) :]
        elif kind == 4:
            changed[name] = choices.rest()
        elif kind == 5:
            changed[name] = files[choices.pick(sorted(files))]
        elif kind == 6 and len(files) > 1:
            changed.pop(name, None)
        else:
            changed[name] = _restated(name, old, choices)
    return changed


def _restated(name: str, old: bytes, choices: Choices) -> bytes:
    """A file with another value in its JSON, or its header."""
    if name.endswith(".json"):
        return _other_value(old, choices)
    if name.endswith(".safetensors"):
        end = 8 + int.from_bytes(old[:8], "little")
        header = _other_value(old[8:end], choices)
        return len(header).to_bytes(8, "little") + header + old[end:]
    if name.endswith(".npy"):
        shape = choices.pick(SHAPES)
        order, dtype = bool(choices.number(2)), choices.pick(DTYPES)
        header = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape}}}\n".encode()
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + old[128:]
    lines = old.split(b"\n")
    lines.insert(choices.number(len(lines)), choices.take(1 + choices.number(64)))
    return b"\n".join(lines)


def _other_value(text: bytes, choices: Choices) -> bytes:
    """JSON with one of its values changed, or taken out."""
    try:
        places = len(list(_places(json.loads(text))))
    except (ValueError, RecursionError):
        return text
    if not places:
        return choices.pick(ODD).encode()
    return _with_value(text, choices.number(places), choices.pick([None, *ODD]))


def other_values(name: str, old: bytes) -> Iterator[Callable[[], bytes]]:
    """What makes a file of JSON, or with a header of it, with one of its values changed: each value in every way."""
    start = 8 if name.endswith(".safetensors") else 0
    end = 8 + int.from_bytes(old[:8], "little") if start else len(old)
    text = old[start:end]

    def make(place: int, odd: str | None) -> bytes:
        new = _with_value(text, place, odd)
        return len(new).to_bytes(8, "little") + new + old[end:] if start else new

    for place in range(len(list(_places(json.loads(text))))):
        yield from (partial(make, place, odd) for odd in (None, *ODD))


def _with_value(text: bytes, place: int, odd: str | None) -> bytes:
    """JSON with something else at its n-th place, or nothing."""
    value = json.loads(text)
    parent, key = list(_places(value))[place]
    if odd is None:
        del parent[key]
        return json.dumps(value).encode()
    parent[key] = "\0here"
    return json.dumps(value).replace(json.dumps("\0here"), odd).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (object, key) and (list, index) below a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def written(files: Files, parent: str = "") -> Iterator[Path]:
    """A folder that holds these files, for a moment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / parent
        for file, content in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        yield folder
