"""YAML text as plain values, with the place of every key; the careful half of reading a config.

Refuses what a config has no use for and a hostile file has: duplicate keys, anchors and aliases, custom tags,
deep nesting. Knows nothing of which keys exist (config_file.py does).
"""

from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from sgns_cli.errors import UsageError

MAX_DEPTH = 20

Origins = dict[str, str]  # dotted key -> where it was written: "config.yaml, line 8" or "--set model.dim=0"


def read_yaml(text: str, place: str, origins: Origins, *, name: str = "", lines: bool = True) -> Any:  # noqa: ANN401
    """The value that `text` holds; `origins` receives the place of every key, under its dotted name.

    `place` names the text in errors, with the line unless `lines` is false; `name` is where it belongs.
    Raises UsageError for all that is refused.
    """
    node = _parse(text, place)
    return None if node is None else _value(node, name, origins, place, lines)


def _parse(text: str, place: str) -> yaml.Node | None:
    """Text to a tree of nodes, refusing what could grow without bound. `place` names the text in errors."""
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise UsageError(f"{place} is nested too deeply", "a config has sections and keys, no more")
            if getattr(event, "anchor", None):
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise UsageError(f"{place}, line {line}: & and * are not used in a config", "write the value out")
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a number too long for Python to read
        mark = getattr(error, "problem_mark", None)
        where = f"{place}, line {mark.line + 1}" if mark is not None else place
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise UsageError(f"{where}: not valid YAML: {problem}", "check the indentation and the quotes") from error


def _value(node: yaml.Node, name: str, origins: Origins, place: str, line: bool) -> Any:  # noqa: ANN401
    """A node as plain dicts, lists and scalars; the place of every key goes into `origins`."""
    where = f"{place}, line {node.start_mark.line + 1}" if line else place
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, where)
    if node.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
        raise UsageError(f"{where}: the tag {node.tag} is not used in a config", "remove the tag")
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, f"{name}[{index}]", origins, place, line) for index, item in enumerate(node.value)]
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        where = f"{place}, line {key_node.start_mark.line + 1}" if line else place
        key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
        dotted = f"{name}.{key}" if name else key
        if key in mapping:
            raise UsageError(f"{dotted} appears twice ({where}; first {origins[dotted]})", "keep one of them")
        origins[dotted] = where
        mapping[key] = _value(value_node, dotted, origins, place, line)
    return mapping


def _scalar(node: yaml.ScalarNode, where: str) -> Any:  # noqa: ANN401 - any YAML scalar
    try:
        return SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, LookupError, OverflowError) as error:
        raise UsageError(f"{where}: {str(node.value)[:60]!r} is no value for a config", "quote it") from error
