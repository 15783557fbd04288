"""
Read a config file, or report every error in it at once.

Each error is one line "FILE:LINE: KEY: what is wrong". tomllib parses; pydantic checks the result against the
definition and collects the errors. Both are imported only if there is a file, because most commands run without one.

tomllib reports lines only for syntax errors, so ``LineIndex`` scans the text again for the lines of tables and keys.
The text is known to be valid TOML by then, so the scan needs to recognize only strings, comments and brackets.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, NamedTuple, cast, get_args, get_type_hints

from integrity import program
from integrity.config.definition import Config
from integrity.config.parsers import show
from integrity.config.places import default_config_path
from integrity.errors import ConfigError, show_path

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_log = logging.getLogger(__name__)

_FORMER_KEYS = ("seal_key_file",)
"""Keys at the top of a file that older versions had: they change nothing, so they are no error."""

Location = tuple[str | int, ...]
"""The path to a value: keys, and indexes for the elements of an array of tables."""

_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = rf"{_KEY_PART}(?:\s*\.\s*{_KEY_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"\s*({_KEY})\s*=")
_PART = re.compile(_KEY_PART)
# Tokens that open or close a bracket, or hide one, in a value; longest first.
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*|[\[\]{}]')
_MULTILINE_END = {'"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"""'), "'''": re.compile(r"(?:[^']|'(?!''))*'''")}


class LineIndex:
    """The line numbers of the keys in one TOML text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Location, int] = {}
        self._counts: dict[Location, int] = {}
        self._table: Location = ()
        self._depth = 0
        self._open_string: str | None = None
        for number, line in enumerate(text.splitlines(), start=1):
            self._take(line, number)

    def line_of(self, location: Location) -> int:
        """Return the line (from 1) of the key, or of its nearest enclosing table or key."""
        for length in range(len(location), 0, -1):
            line = self._lines.get(location[:length])
            if line is not None:
                return line
        return 1

    def _take(self, line: str, number: int) -> None:
        start = 0
        if self._open_string is None and self._depth == 0:
            header = _HEADER.match(line)
            if header is not None:
                self._enter(_split(header[2]), is_array=header[1] == "[[", number=number)
                return
            assignment = _ASSIGNMENT.match(line)
            if assignment is not None:
                self._note((*self._table, *_split(assignment[1])), number)
                start = assignment.end()
        self._skip_value(line, start)

    def _enter(self, parts: Location, *, is_array: bool, number: int) -> None:
        """Make the table of a header the current one. Each element of an array of tables gets the next index."""
        location: Location = ()
        for part in parts[:-1]:
            location = (*location, part)
            if location in self._counts:
                location = (*location, self._counts[location] - 1)
        location = (*location, parts[-1])
        if is_array:
            count = self._counts.get(location, 0)
            self._counts[location] = count + 1
            location = (*location, count)
        self._table = location
        self._note(location, number)

    def _note(self, location: Location, number: int) -> None:
        self._lines.setdefault(location, number)

    def _skip_value(self, line: str, start: int) -> None:
        """Track brackets and strings that continue on the next line."""
        position = start
        while position < len(line):
            if self._open_string is not None:
                end = _MULTILINE_END[self._open_string].match(line, position)
                if end is None:
                    return
                self._open_string, position = None, end.end()
                continue
            token = _TOKEN.search(line, position)
            if token is None:
                return
            position = token.end()
            if token[0] in _MULTILINE_END:
                self._open_string = token[0]
            elif token[0] in "[{":
                self._depth += 1
            elif token[0] in "]}":
                self._depth -= 1


def _split(key: str) -> Location:
    return tuple(part.strip("\"'") for part in _PART.findall(key))


class ConfigProblem(NamedTuple):
    """One error: its location, and the message."""

    location: Location
    message: str


def load_config(path: str | bytes | None = None) -> Config:
    """
    Return the configuration in a file.

    Args:
        path: a file that must exist; None for the default path, where a missing file means all defaults.

    Raises:
        ConfigError: the file can't be read, or has errors; one line for each.
    """
    place = default_config_path() if path is None else os.fsencode(path)
    try:
        with open(place, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        if path is None:
            return Config()
        raise ConfigError(
            f"no config file at {show_path(place)}: make one with: {program.command('config sample')}"
        ) from error
    except OSError as error:
        raise ConfigError(f"can't read the config file {show_path(place)}: {error.strerror}") from error
    return parse_config(content, show_path(place))


def parse_config(content: bytes, name: str) -> Config:
    """
    Return the configuration in a TOML text.

    Args:
        content: UTF-8.
        name: file name for messages.

    Raises:
        ConfigError: one line for each error.
    """
    import tomllib

    try:
        text = content.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8: save the file as UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_say_syntax_error(str(error), name)) from error
    for key in _FORMER_KEYS:
        if document.pop(key, None) is not None:
            line = LineIndex(text).line_of((key,))
            _log.warning("%s:%d: %s: is not used any more; the line can be removed", name, line, key)
    if not document:
        return Config()  # only comments: don't import pydantic
    config, complaints = _validate(document)
    if config is not None:
        complaints = _find_conflicts(config)
    if complaints:
        index = LineIndex(text)
        rows = sorted({(index.line_of(at), _say_key(at), message) for at, message in complaints})
        raise ConfigError("\n".join(f"{name}:{line}: {key}: {message}" for line, key, message in rows))
    assert config is not None  # no complaints
    return config


def _say_syntax_error(message: str, name: str) -> str:
    """Rewrite tomllib's "... (at line 3, column 5)" in the format of the other errors."""
    match = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message)
    return f"{name}:{match[2]}:{match[3]}: {match[1]}" if match else f"{name}: {message}"


def _say_key(location: Location) -> str:
    return ".".join(part for part in location if isinstance(part, str)) or "the file"


def _validate(document: dict[str, object]) -> tuple[Config | None, list[ConfigProblem]]:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    for kind in _kinds(Config):
        # pydantic reads this attribute of a standard dataclass; the definition itself must not import pydantic.
        setattr(kind, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010 - the class does not declare it
    merged, inherited = _inherit(document)
    try:
        return TypeAdapter(Config).validate_python(merged), []
    except ValidationError as error:
        # An error in a value inherited from [defaults] is already reported there.
        found = [detail for detail in error.errors(include_url=False) if detail["loc"][:3] not in inherited]
        return None, [ConfigProblem(detail["loc"], _say(detail)) for detail in found]


def _kinds(kind: type) -> list[type]:
    """Return a dataclass of the definition and, recursively, the dataclasses of its fields."""
    found = [kind]
    for hint in get_type_hints(kind).values():
        for inner in (hint, *get_args(hint)):
            if is_dataclass(inner):
                found += _kinds(cast("type", inner))
    return found


def _inherit(document: dict[str, object]) -> tuple[dict[str, object], set[Location]]:
    """Merge ``[defaults]`` into each ``[[root]]``. Return the merged document and the locations of inherited keys."""
    defaults, roots = document.get("defaults", {}), document.get("root", [])
    if not isinstance(defaults, dict) or not isinstance(roots, list):
        return document, set()
    inherited: set[Location] = set()
    merged: list[object] = []
    for number, root in enumerate(roots):
        if isinstance(root, dict):
            inherited |= {("root", number, key) for key in defaults if key not in root}
            both = {key: defaults[key] | root[key] for key in ("mass_change",) if _are_tables(defaults, root, key)}
            root = defaults | root | both
        merged.append(root)
    return (document | {"root": merged} if "root" in document else document), inherited


def _are_tables(first: dict[str, object], second: dict[str, object], key: str) -> bool:
    return isinstance(first.get(key), dict) and isinstance(second.get(key), dict)


def _say(detail: ErrorDetails) -> str:
    """Return the message for one of pydantic's errors."""
    kind, location = detail["type"], detail["loc"]
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "missing":
        return "is missing"
    if kind == "unexpected_keyword_argument":
        return _say_unknown(location)
    if kind in ("tuple_type", "list_type"):
        return f"must be written as [[{location[0]}]], once for each, not as {show(detail['input'])}"
    if kind in ("dataclass_type", "dataclass_exact_type"):
        return f"must be a table with keys of its own, not {show(detail['input'])}"
    return detail["msg"]


def _say_unknown(location: Location) -> str:
    """Return the message for an unknown key, with the closest known key or the tables where it belongs."""
    key = str(location[-1])
    here = _kind_at(location[:-1])
    near = difflib.get_close_matches(key, _keys(here), n=1) if here is not None else []
    if near:
        return f'unknown key; did you mean "{near[0]}"?'
    homes = [name for name, kind in _sections() if key in _keys(kind)]
    return f"unknown key here; it belongs in {' or '.join(homes)}" if homes else "unknown key"


def _keys(kind: type) -> list[str]:
    return [key_of(kind, name) for name in get_type_hints(kind)]


def key_of(kind: type, name: str) -> str:
    """Return the name that a field of the definition has in the file."""
    found = next(each for each in fields(kind) if each.name == name)
    return str(found.metadata.get("alias", found.name))


def _sections() -> list[tuple[str, type]]:
    """Return each table of a file with the dataclass that defines it."""
    found: list[tuple[str, type]] = []
    for name, hint in get_type_hints(Config).items():
        key = key_of(Config, name)
        if is_dataclass(hint):
            found.append((f"[{key}]", cast("type", hint)))
        elif get_args(hint):
            found.append((f"[[{key}]]", get_args(hint)[0]))
    return found


def _kind_at(location: Location) -> type | None:
    """Return the dataclass that defines the table at a location, or None."""
    kind: type = Config
    for part in location:
        if isinstance(part, int):
            continue
        hints = {key_of(kind, name): hint for name, hint in get_type_hints(kind).items()}
        hint = hints.get(part)
        inner = next((each for each in (hint, *get_args(hint)) if is_dataclass(each)), None)
        if inner is None:
            return None
        kind = cast("type", inner)
    return kind


def _find_conflicts(config: Config) -> list[ConfigProblem]:
    """Return conflicts between tables: nested or repeated roots, a copy of a root's parent, repeated copy names."""
    complaints: list[ConfigProblem] = []
    for number, root in enumerate(config.roots):
        for earlier, other in enumerate(config.roots):
            at: Location = ("root", number, "path")
            if root.path == other.path and earlier < number:
                complaints.append(ConfigProblem(at, f"{show_path(root.path)} is a [[root]] already"))
            elif _is_below(root.path, other.path):
                message = f"{show_path(root.path)} lies inside the [[root]] {show_path(other.path)}: leave one out"
                complaints.append(ConfigProblem(at, message))
    names: set[str] = set()
    for number, copy in enumerate(config.copies):
        inner = next((root.path for root in config.roots if _is_below(root.path, copy.of)), None)
        if inner is not None:
            message = f"{show_path(copy.of)} contains the [[root]] {show_path(inner)}: a copy is one of a root, or of a"
            complaints.append(ConfigProblem(("copy", number, "of"), f"{message} folder in one"))
        if copy.name in names:
            complaints.append(ConfigProblem(("copy", number, "name"), f'"{copy.name}" names another [[copy]] already'))
        names.add(copy.name)
    return complaints


def _is_below(path: bytes, folder: bytes) -> bool:
    return path != folder and path.startswith(folder.rstrip(b"/") + b"/")
