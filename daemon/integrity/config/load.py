"""
Read a config file, or report every error in it at once.

Each error is one line "FILE:LINE: KEY: what is wrong". tomllib parses; the parsers of the definition check each value.
"""

import os
import re
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_args, get_type_hints

from integrity import program
from integrity.config.definition import Config
from integrity.config.parsers import Parsed, show
from integrity.config.places import default_config_path
from integrity.errors import ConfigError, show_path

if TYPE_CHECKING:
    from integrity.config.line_index import LineIndex, Location

Table = TypeVar("Table")

_FORMER_KEYS = {
    "seal_key_file": "records have no seals with a key any more: the catalog's pages have checksums, which see damage,"
    " and no forgery; to see that, sign a list of the recorded checksums (docs/security.md), and remove this line"
}
"""Keys at the top of a file that older versions had, with what replaced them."""


class ConfigProblem(NamedTuple):
    """One error: its location, and the message."""

    location: "Location"
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
    if not document:
        return Config()
    config, complaints = _validate(document)
    if config is not None:
        complaints = _find_conflicts(config)
    if complaints:
        index = _index_lines(text)
        rows = sorted({(index.line_of(at), _say_key(at), message) for at, message in complaints})
        raise ConfigError("\n".join(f"{name}:{line}: {key}: {message}" for line, key, message in rows))
    assert config is not None  # no complaints
    return config


def _index_lines(text: str) -> "LineIndex":
    from integrity.config.line_index import LineIndex  # here, for most files have no error

    return LineIndex(text)


def _say_syntax_error(message: str, name: str) -> str:
    """Rewrite tomllib's "... (at line 3, column 5)" in the format of the other errors."""
    match = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message)
    return f"{name}:{match[2]}:{match[3]}: {match[1]}" if match else f"{name}: {message}"


def _say_key(location: "Location") -> str:
    return ".".join(part for part in location if isinstance(part, str)) or "the file"


def _validate(document: dict[str, object]) -> tuple[Config | None, list[ConfigProblem]]:
    merged, inherited = _inherit(document)
    problems: list[ConfigProblem] = []
    config = _read_table(Config, merged, (), problems)
    # An error in a value inherited from [defaults] is already reported there.
    return config, [one for one in problems if one.location[:3] not in inherited]


def _read_table(kind: type[Table], table: object, at: "Location", problems: list[ConfigProblem]) -> Table | None:
    """Return a table as an object of the definition; None if anything in it is wrong, which is added to problems."""
    if not isinstance(table, dict):
        problems.append(ConfigProblem(at, f"must be a table with keys of its own, not {show(table)}"))
        return None
    known, values, left = len(problems), {}, dict(table)
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(cast("type[Any]", kind)):
        key = key_of(kind, each.name)
        if key in left:
            values[each.name] = _read_value(hints[each.name], left.pop(key), (*at, key), problems)
        elif each.default is MISSING and each.default_factory is MISSING:
            problems.append(ConfigProblem((*at, key), "is missing"))
    problems += [ConfigProblem((*at, key), _say_unknown((*at, key))) for key in left]
    return kind(**values) if len(problems) == known else None


def _read_value(hint: Any, value: object, at: "Location", problems: list[ConfigProblem]) -> object:
    if is_dataclass(hint):
        return _read_table(cast("type", hint), value, at, problems)
    parsed = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Parsed)), None)
    if parsed is not None:
        try:
            return parsed.parse(value)
        except ValueError as error:
            problems.append(ConfigProblem(at, str(error)))
            return None
    if not isinstance(value, list):
        problems.append(ConfigProblem(at, f"must be written as [[{at[0]}]], once for each, not as {show(value)}"))
        return None
    kind = get_args(hint)[0]
    return tuple(_read_table(kind, one, (*at, number), problems) for number, one in enumerate(value))


def _inherit(document: dict[str, object]) -> "tuple[dict[str, object], set[Location]]":
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


def _say_unknown(location: "Location") -> str:
    """Return the message for an unknown key, with the closest known key or the tables where it belongs."""
    import difflib  # here, for the same reason

    key = str(location[-1])
    if location == (key,) and key in _FORMER_KEYS:
        return _FORMER_KEYS[key]
    here = _kind_at(location[:-1])
    near = difflib.get_close_matches(key, _keys(here), n=1) if here is not None else []
    if near:
        return f'unknown key; did you mean "{near[0]}"?'
    homes = [name for name, kind in _sections() if key in _keys(kind)]
    return f"unknown key here; it belongs in {' or '.join(homes)}" if homes else "unknown key"


def _keys(kind: type) -> list[str]:
    return [key_of(kind, name) for name in get_type_hints(kind)]


def key_of(kind: type, name: str) -> str:
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


def _kind_at(location: "Location") -> type | None:
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
        if root.parity_percent and not root.parity_folder:
            message = "needs parity_folder: a folder for the parity, best on another disk"
            complaints.append(ConfigProblem(("root", number, "parity"), message))
        for other in config.roots if root.parity_folder else ():
            at = ("root", number, "parity_folder")
            if root.parity_folder == other.path:
                message = f"is the [[root]] {show_path(other.path)} itself: choose a folder of its own"
                complaints.append(ConfigProblem(at, message))
            elif _is_below(root.parity_folder, other.path) and other.parity_folder != root.parity_folder:
                message = (
                    f"lies in the [[root]] {show_path(other.path)}, which would record the parity as its files:"
                    " choose another folder, or make it the parity_folder of that root, too"
                )
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
