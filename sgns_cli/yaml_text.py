"""YAML text as plain values, with the place of every key; the careful half of reading a config.

Refuses what a config has no use for and a hostile file has: duplicate keys, anchors and aliases, custom tags,
deep nesting, a great many values, endless numbers. Knows nothing of which keys exist (config_file.py does).
"""

from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from sgns_cli.errors import UsageError

MAX_DEPTH = 20
MAX_VALUES = 50_000  # keys among them: PyYAML takes some seconds for so many
LONGEST_NUMBER = 400  # characters; PyYAML multiplies 1:1:1:... out by sixties, which takes the square of their number
QUOTED = 200  # characters of a text that an error quotes

NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

Origins = dict[str, str]  # dotted key -> where it was written: "config.yaml, line 8" or "--set model.dim=0"


def read_yaml(text: str, place: str, origins: Origins, *, name: str = "", lines: bool = True) -> Any:  # noqa: ANN401
    """The value that `text` holds; `origins` receives the place of every key, under its dotted name.

    `place` names the text in errors, with the line unless `lines` is false; `name` is where it belongs.
    Raises UsageError for all that is refused.
    """
    node = _parse(text, place)
    return None if node is None else _value(node, name, origins, place, lines)


def cut(text: str) -> str:
    """A text as an error quotes it: of a long one the beginning."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


class _Loader(yaml.SafeLoader):
    """Text to a tree of nodes, refusing what could grow without bound."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text)
        self._place = place
        self._depth = 0
        self._values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 - PyYAML's
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self._values += 1
        if self._values > MAX_VALUES:
            hint = "name many files by their folder, or by a pattern"
            raise UsageError(f"{self._place} has more than {MAX_VALUES} values", hint)
        if self._depth >= MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent):
            raise UsageError(f"{self._place} is nested too deeply", "a config has sections and keys, no more")
        if event.anchor:
            where = f"{self._place}, line {event.start_mark.line + 1}"
            raise UsageError(f"{where}: & and * are not used in a config", "write the value out")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _parse(text: str, place: str) -> yaml.Node | None:
    """Text to a tree of nodes. `place` names the text in errors."""
    try:
        return _Loader(text, place).get_single_node()
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two of escapes that are no characters
        mark = getattr(error, "problem_mark", None)
        where = f"{place}, line {mark.line + 1}" if mark is not None else place
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise UsageError(f"{where}: not valid YAML: {cut(problem)}", "check the indentation and the quotes") from error


def _value(node: yaml.Node, name: str, origins: Origins, place: str, line: bool) -> Any:  # noqa: ANN401
    """A node as plain dicts, lists and scalars; the place of every key goes into `origins`."""
    where = f"{place}, line {node.start_mark.line + 1}" if line else place
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, where)
    if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
        raise UsageError(f"{where}: the tag {cut(node.tag)} is not used in a config", "remove the tag")
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, f"{name}[{index}]", origins, place, line) for index, item in enumerate(node.value)]
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        where = f"{place}, line {key_node.start_mark.line + 1}" if line else place
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        dotted = f"{name}.{key}" if name else key
        if key in mapping:
            raise UsageError(f"{cut(dotted)} appears twice ({where}; first {origins[dotted]})", "keep one of them")
        origins[dotted] = where
        mapping[key] = _value(value_node, dotted, origins, place, line)
    return mapping


def _scalar(node: yaml.ScalarNode, where: str) -> Any:  # noqa: ANN401 - any YAML scalar
    try:
        if node.tag in NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise ValueError("a number without end")
        value = SafeConstructor().construct_object(node)
        if isinstance(value, str):
            value.encode("utf-8", "surrogateescape")  # which names of files may have in them, and no other surrogates
        return value
    except (yaml.YAMLError, ValueError, LookupError, OverflowError, AttributeError) as error:  # what PyYAML raises
        raise UsageError(f"{where}: {str(node.value)[:60]!r} is no value for a config", "quote it") from error
