"""A config file into a Config, and back: file, `--set`, and the words of every refusal.

The keys, types, ranges and defaults stand in config.py; here is how they reach the reader who mistyped one.
The YAML itself is read by yaml_text.py.
"""

import difflib
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sgns_cli.config import Config
from sgns_cli.errors import SgnsError, UsageError
from sgns_cli.files import read_whole
from sgns_cli.yaml_text import Origins, cut, read_yaml

MAX_BYTES = 1 << 20
NOT_CONFIG = {"device": "--device", "threads": "--threads", "resume": "--resume", "overwrite": "--overwrite"}


def load_config(path: Path, overrides: list[str]) -> Config:
    """Read the YAML file at `path`, apply `section.key=value` overrides in order, and check everything.

    `run.directory` is filled in from the file's name. Raises UsageError for anything that the text decides,
    SgnsError if the file cannot be read.
    """
    origins: Origins = {}
    values = _sections(path, origins)
    for override in overrides:
        _override(values, override, origins)
    _check_keys(values, origins)
    config = _validate(values, origins)
    if config.run.directory is None:
        run = config.run.model_copy(update={"directory": str(Path("runs") / path.stem)})
        config = config.model_copy(update={"run": run})
    return config


def dump_config(config: Config) -> str:
    """The resolved config as YAML; load_config reads it back to an equal Config."""
    values = config.model_dump(exclude_none=True)
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    if text.replace("\n", "").isprintable():
        return text
    return yaml.safe_dump(values, sort_keys=False)  # PyYAML writes some line separators so that they are lost


def _text(path: Path) -> str:
    try:
        data = read_whole(path, at_most=MAX_BYTES, pipes=True)
    except SgnsError as error:
        raise UsageError(f"{path} is too large to be a config", "give the YAML file that `sgns init` writes") from error
    except OSError as error:
        hint = "`sgns init` writes a config to start from" if isinstance(error, FileNotFoundError) else "check the path"
        raise SgnsError(f"cannot read {path}: {error.strerror}", hint) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid UTF-8 at byte {error.start}", "save it as UTF-8") from error


def _sections(path: Path, origins: Origins) -> dict[str, Any]:
    value = read_yaml(_text(path), str(path), origins)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"{path} is no config: it has no sections", "`sgns init` writes a config to start from")
    return value


def _override(values: dict[str, Any], override: str, origins: Origins) -> None:
    """Put one `section.key=value` into `values`."""
    place = f"--set {cut(override)}"
    dotted, equals, text = override.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise UsageError(f"{place} is not of the form section.key=value", "for example --set model.dim=300")
    section = values
    for depth, key in enumerate(keys[:-1], start=1):
        inner = section.get(key)
        if inner is None:
            inner = section[key] = {}
            origins.setdefault(".".join(keys[:depth]), place)
        if not isinstance(inner, dict):
            name = cut(".".join(keys[:depth]))
            raise UsageError(f"{name} has no keys ({place})", "name a key of the config reference")
        section = inner
    name = ".".join(keys)
    for key in [key for key in origins if key == name or key.startswith((f"{name}.", f"{name}["))]:
        del origins[key]
    origins[name] = place
    section[keys[-1]] = read_yaml(text, place, origins, name=name, lines=False)
    if name == "tokenizer.train" and section[keys[-1]] is None:
        del section["train"]  # --set tokenizer.train=null takes the section back


def _check_keys(values: dict[str, Any], origins: Origins) -> None:
    """Refuse unknown keys, read empty sections as `{}`, and numbers written as text (1e-3) as numbers."""
    for name, parent, key in list(_walk(values)):
        field = REFERENCE.get(name)
        if field is None or "." in key:
            raise UsageError(f"unknown key {cut(name)} ({origins[name]})", _nearest(name))
        value = parent[key]
        if value == "" or (isinstance(value, list) and "" in value):
            raise UsageError(f"{name} holds an empty text ({origins[name]})", _way_out(field, None, ""))
        if _section(field) is not None:
            if value is None and name == "tokenizer.train" and parent.get("encoding") is not None:
                del parent[key]
            elif value is None:
                parent[key] = {}
            elif not isinstance(value, dict):
                raise UsageError(f"{name} is a section of keys, not {_shown(value)} ({origins[name]})", _keys_of(name))
        elif field.annotation is float and isinstance(value, str):
            try:
                parent[key] = float(value)
            except ValueError:
                continue  # refused below, with the range


def _walk(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
    """(dotted name, the dict that holds it, its key in there) of everything in `values`, sections first."""
    for key, value in values.items():
        name = prefix + key
        yield name, values, key
        if isinstance(value, dict) and (name not in REFERENCE or _section(REFERENCE[name]) is not None):
            yield from _walk(value, f"{name}.")


def _validate(values: dict[str, Any], origins: Origins) -> Config:
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise _refusal(error, values, origins) from error
    tokenizer, train = config.tokenizer, config.train
    if tokenizer.encoding is not None and tokenizer.train is not None:
        raise UsageError(
            f"tokenizer.encoding and tokenizer.train exclude each other ({origins['tokenizer.train']})",
            "remove one of them; --set tokenizer.train=null takes the section out",
        )
    if train.final_learning_rate > train.learning_rate:
        where = origins.get("train.final_learning_rate") or origins["train.learning_rate"]
        raise UsageError(
            f"train.final_learning_rate {train.final_learning_rate:g} is above train.learning_rate "
            f"{train.learning_rate:g} ({where})",
            "the learning rate falls from the second to the first: swap or lower them",
        )
    return config


def _refusal(error: ValidationError, values: dict[str, Any], origins: Origins) -> UsageError:
    """The first thing that pydantic refuses, in words: full name, what it must be, what it is, where."""
    first = error.errors(include_url=False)[0]
    location = [part for part in first["loc"] if isinstance(part, str)]
    name = ".".join(location)
    if first["type"] == "missing":
        return UsageError(
            "data.sources is missing",
            "add the lines `data:` and `  sources: [PATH]`; sources are what is read",
        )
    field = REFERENCE[name]
    value = values
    for part in location:
        value = value[part]
    index = next((part for part in first["loc"] if isinstance(part, int)), None)
    if index is not None and isinstance(value, list):
        value = value[index]
        message = f"{name}[{index}] must be text, not {_shown(value)}"
    else:
        message = f"{name} must be {_expected(field)}, not {_shown(value)}"
    where = origins.get(name, "")
    return UsageError(f"{message} ({where})" if where else message, _way_out(field, value, where))


def _way_out(field: FieldInfo, value: object, where: str) -> str:
    if value is None:
        return "give it a value, or remove the key to have its default"
    if field.annotation == list[str] and isinstance(value, str):
        listed = f"[{cut(value)}]"
        return (
            f"write a list: --set 'data.sources={listed}'" if where.startswith("--set") else f"write a list: {listed}"
        )
    if not isinstance(value, (str, list, dict)) and field.annotation in (str, str | None, list[str]):
        return f'put it in quotes: "{_shown(value)}"'
    close = difflib.get_close_matches(str(value), [str(choice) for choice in typing.get_args(field.annotation)], n=1)
    if close:
        return f"did you mean {close[0]}?"
    return "change the value, or remove the key to have its default"


def _expected(field: FieldInfo) -> str:
    """What a key takes, for a person: "a whole number from 1 to 65536"."""
    kind = field.annotation
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(str(choice) for choice in typing.get_args(kind))
    if kind is bool:
        return "true or false"
    if kind == list[str]:
        return "a list of one or more texts"
    if kind not in (int, float):
        return "text"
    bounds = {
        name: getattr(part, name) for part in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(part, name)
    }
    noun = "a whole number" if kind is int else "a number"
    low, high = bounds.get("ge"), bounds.get("le", bounds["lt"] - 1 if "lt" in bounds else None)
    if low is None:
        return f"{noun} above {bounds['gt']:g}"
    return f"{noun} of at least {low}" if high is None else f"{noun} from {low} to {high}"


def _shown(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _nearest(name: str) -> str:
    """The hint for an unknown key: the nearest right name, by full name or by its last part."""
    leaf = name.rpartition(".")[2]
    if name in REFERENCE:
        return f"write `{name.rpartition('.')[0]}:` and `  {leaf}: ...` on the next line"
    if leaf in NOT_CONFIG:
        return f"it is no config: give {NOT_CONFIG[leaf]} on the command line"
    same = [known for known in REFERENCE if known.rpartition(".")[2] == leaf]
    close = same or difflib.get_close_matches(name, REFERENCE, n=1, cutoff=0.75)
    if not close:
        leaves = {known.rpartition(".")[2]: known for known in REFERENCE}
        close = [leaves[match] for match in difflib.get_close_matches(leaf, leaves, n=1, cutoff=0.6)]
    return f"did you mean {close[0]}?" if close else _keys_of(name.rpartition(".")[0])


def _keys_of(section: str) -> str:
    """The hint that lists what a section may hold."""
    if section not in REFERENCE:
        return "the sections are " + ", ".join(Config.model_fields)
    keys = [name.rpartition(".")[2] for name in REFERENCE if name.rpartition(".")[0] == section]
    return f"the keys of {section} are {', '.join(keys)}"


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a section, or None for a key that holds a value."""
    kinds = typing.get_args(field.annotation) if isinstance(field.annotation, types.UnionType) else [field.annotation]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def _reference(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield prefix + name, field
        section = _section(field)
        if section is not None:
            yield from _reference(section, f"{prefix}{name}.")


REFERENCE: dict[str, FieldInfo] = dict(_reference(Config))  # every section and key by its full name
