"""
Write a configuration as TOML: the commented sample, a file to be edited by people, or the configuration in force.

All are generated from ``definition``, so they always match what ``load`` accepts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from typing import Any, NamedTuple, get_type_hints

from integrity.config.copy_urls import hide_address
from integrity.config.definition import Config, ConfiguredCopy, ConfiguredRoot, RootSettings
from integrity.config.load import key_of
from integrity.config.parsers import Parsed

_COMMENT_COLUMN = 40
_EXAMPLES: dict[type, dict[str, str]] = {
    ConfiguredRoot: {"path": '"/srv/photos"', "policy": '"archive"'},
    ConfiguredCopy: {"name": '"nightly"', "of": '"/srv/photos"', "url": '"/mnt/backup/photos"'},
}


def sample() -> str:
    """Return a config file that sets every key to its default, with a comment for each."""
    config = Config()
    lines = ["# Configuration of integrity. Every line shows the default: remove or change what you like.", ""]
    lines += list(_assignments(config, commented=True))
    for each in fields(Config):
        value, key = getattr(config, each.name), key_of(Config, each.name)
        if is_dataclass(value) and not isinstance(value, type):
            lines += ["", _with_comment(f"[{key}]", each), *_assignments(value, commented=True)]
        elif each.name in ("roots", "copies"):
            kind = ConfiguredRoot if each.name == "roots" else ConfiguredCopy
            lines += ["", f"# [[{key}]]  # {each.metadata['description']}", *_example(kind)]
    return "\n".join(lines) + "\n"


def show_config(config: Config) -> str:
    """Return the configuration as a config file without comments. Each root lists all of its settings."""
    lines = list(_assignments(config, commented=False))
    for each in fields(Config):
        value, key = getattr(config, each.name), key_of(Config, each.name)
        if isinstance(value, tuple):
            for item in value:
                lines += ["", f"[[{key}]]", *_assignments(item, commented=False)]
        elif is_dataclass(value):
            lines += ["", f"[{key}]", *_assignments(value, commented=False)]
    return "\n".join(lines) + "\n"


def show_choices(config: Config) -> str:
    """Return what differs from the defaults as a config file without comments, which means the same; no secrets."""
    usual = Config()
    lines = list(_choices(config, usual))
    for each in fields(Config):
        value, key = getattr(config, each.name), key_of(Config, each.name)
        if isinstance(value, tuple):
            for item in value:
                usual_item = config.defaults if isinstance(item, RootSettings) else None
                lines += ["", f"[[{key}]]", *_choices(item, usual_item)]
        elif is_dataclass(value) and (chosen := list(_choices(value, getattr(usual, each.name)))):
            lines += ["", f"[{key}]", *chosen]
    return "\n".join(lines).strip("\n") + "\n" if lines else ""


def write_config(config: Config) -> str:
    """
    Return the configuration as a config file for people: with comments, and with defaults that are commented out.

    The file holds the real values of secrets.
    """
    usual = Config()
    lines = [
        '# Configuration of integrity. Lines that begin with "#" show defaults; remove the "#" to set such a key.',
        "",
    ]
    lines += _settings(config, usual)
    for each in fields(Config):
        value, key = getattr(config, each.name), key_of(Config, each.name)
        if isinstance(value, tuple):
            for item in value:
                lines += ["", f"[[{key}]]", *_entry(item, config.defaults)]
        elif is_dataclass(value):
            lines += ["", _with_comment(f"[{key}]", each), *_settings(value, getattr(usual, each.name))]
    return "\n".join(lines) + "\n"


class Setting(NamedTuple):
    """A key of the configuration: value as TOML (secrets are hidden), whether it is the default, and its comment."""

    key: str
    value: str
    is_default: bool
    comment: str


def list_settings(config: Config) -> list[tuple[str, list[Setting]]]:
    """Return the headings of the configuration in force, each with its keys."""
    sections = [("", _list_keys(config, Config()))]
    for each in fields(Config):
        value, key = getattr(config, each.name), key_of(Config, each.name)
        if isinstance(value, tuple):
            sections += [(f"[[{key}]]", _list_keys(item, None)) for item in value]
        elif is_dataclass(value):
            sections.append((f"[{key}]", _list_keys(value, getattr(Config(), each.name))))
    return sections


def _list_keys(table: object, default: object) -> list[Setting]:
    """Return the keys of a table; without a default to compare with, each field's own default decides."""
    assert is_dataclass(table)
    found = []
    for each in _ordered(type(table)):
        value = getattr(table, each.name)
        spelled = _spell_field(type(table), each, value)
        if spelled is not None:
            usual = each.default if default is None else getattr(default, each.name)
            key = key_of(type(table), each.name)
            found.append(Setting(key, spelled, value == usual, str(each.metadata["description"])))
    return found


def _assignments(table: object, *, commented: bool) -> Iterator[str]:
    """Write the keys of one table, without its subtables."""
    assert is_dataclass(table)
    kind = type(table)
    for each in _ordered(kind):
        spelled = _spell_field(kind, each, getattr(table, each.name))
        if spelled is not None:
            line = f"{key_of(kind, each.name)} = {spelled}"
            yield _with_comment(line, each) if commented else line


def _choices(table: object, usual: object) -> Iterator[str]:
    """Write the keys of a table whose values are not the usual ones; where it has none, not the field's default."""
    assert is_dataclass(table)
    kind = type(table)
    for each in _ordered(kind):
        value = getattr(table, each.name)
        spelled = _spell_field(kind, each, value)
        if spelled is not None and value != getattr(usual, each.name, each.default):
            yield f"{key_of(kind, each.name)} = {spelled}"


def _settings(table: object, usual: object) -> Iterator[str]:
    """Write the keys of a table; those with the usual value as comments."""
    assert is_dataclass(table)
    kind = type(table)
    for each in _ordered(kind):
        value = getattr(table, each.name)
        spelled = _spell_field(kind, each, value, hides=False)
        if spelled is not None:
            mark = "# " if value == getattr(usual, each.name) else ""
            yield _with_comment(f"{mark}{key_of(kind, each.name)} = {spelled}", each)


def _entry(item: object, defaults: RootSettings) -> Iterator[str]:
    """Write an element of an array of tables: what must be said, and what differs from the defaults."""
    assert is_dataclass(item)
    kind = type(item)
    for each in _ordered(kind):
        value = getattr(item, each.name)
        usual = getattr(defaults, each.name, each.default) if issubclass(kind, RootSettings) else each.default
        if value != usual or each.name in _EXAMPLES[kind]:
            yield _with_comment(f"{key_of(kind, each.name)} = {_spell_field(kind, each, value, hides=False)}", each)


# Any: the type of a field's value is known only to the definition.
def _ordered(kind: type) -> list[Field[Any]]:
    """Return the fields of a dataclass, ``path`` first: dataclass inheritance would put it last."""
    return sorted(fields(kind), key=lambda each: each.name != "path")


def _example(kind: type) -> Iterator[str]:
    """Write an example of an array of tables, commented out because there is none by default."""
    given = _EXAMPLES[kind]
    for each in _ordered(kind):
        key = key_of(kind, each.name)
        if key in given:
            yield "# " + _with_comment(f"{key} = {given[key]}", each)
        elif each.default is not MISSING and not issubclass(kind, RootSettings):
            yield "# " + _with_comment(f"{key} = {_spell_field(kind, each, each.default)}", each)


def _with_comment(text: str, each: Field[Any]) -> str:
    return f"{text.ljust(_COMMENT_COLUMN)}  # {each.metadata['description']}"


def _spell_field(kind: type, each: Field[Any], value: object, *, hides: bool = True) -> str | None:
    """Return a value as TOML, without secrets unless told otherwise, or None if it needs a table of its own."""
    hint = get_type_hints(kind, include_extras=True)[each.name]
    marker = next((extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Parsed)), None)
    if marker is None:
        return _spell_inline(value) if each.name == "mass_change" else None
    if marker.spell is not None and isinstance(value, int | float):
        spelled = marker.spell(value)
        return spelled if spelled.isdecimal() else f'"{spelled}"'
    if hides and each.metadata["hide"] is not None:
        value = each.metadata["hide"](value)
    return spell_toml(_hide(value) if hides and each.metadata["is_secret"] else value)


def _hide(value: object) -> object:
    """Replace URLs, which may hold a password or token, by their scheme."""
    if isinstance(value, tuple):
        return tuple(_hide(item) for item in value)
    return value and hide_address(str(value))


def _spell_inline(value: object) -> str:
    assert is_dataclass(value)
    inner = ", ".join(f"{each.name} = {spell_toml(getattr(value, each.name))}" for each in fields(value))
    return f"{{ {inner} }}"


def spell_toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(spell_toml(item) for item in value)}]"
    text = os.fsdecode(value) if isinstance(value, bytes) else str(value.value if isinstance(value, StrEnum) else value)
    # A JSON string is a valid TOML basic string, except that JSON does not escape DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
