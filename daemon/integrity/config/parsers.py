"""
Find where a path really leads, also while a server or a disk on the way does not answer.

How single values of the config are read, and the words for what is wrong with one.

Each parser takes what TOML gave (str, int, float, bool, list, dict, date) and returns the value that the program uses,
or raises ValueError with a sentence "must be ..., not ..." that ``load`` puts behind file, line and key.
``Parsed`` ties a parser to a type. What only one parser needs is imported there: most commands read no such value.
"""

import json
import os
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn

from integrity.config.copy_urls import SCHEME_PREFIXES, find_password
from integrity.units import parse_duration, parse_share, parse_size, spell_duration

_PATIENCE_S = 3.0
_MOST_LINKS = 40
"""The kernel's own limit (path_resolution(7))."""


def resolve(path: bytes, *, patience_s: float = _PATIENCE_S) -> bytes:
    """
    Resolve the symbolic links of a path, like realpath, within a time limit.

    If a file system on the way does not answer in time, the rest of the path is used as written. A root that hangs must
    not block the service's other roots, and must not be mistaken for a different root.
    """
    from integrity.threads import BackgroundCall

    walk = _Walk(path)
    BackgroundCall("resolve", walk.run).wait(patience_s)
    return walk.guess()


class _Walk:
    """
    One resolution of a path.

    ``at``: resolved prefix and remaining names, replaced atomically for the waiting thread.
    """

    def __init__(self, path: bytes) -> None:
        path = path if path.startswith(b"/") else os.path.join(os.getcwdb(), path)
        self.at = (b"/", tuple(path.split(b"/")))

    def run(self) -> None:
        links = 0
        while self.at[1]:
            done, (name, *rest) = self.at
            if name in (b"", b"."):
                self.at = (done, tuple(rest))
                continue
            if name == b"..":
                self.at = (os.path.dirname(done), tuple(rest))
                continue
            here = os.path.join(done, name)
            try:
                target = os.readlink(here)
            except OSError:  # not a link, or missing: opening the path will report the error
                target = b""
            links += bool(target)
            if not target or links > _MOST_LINKS:
                self.at = (here, tuple(rest))
            else:
                self.at = (b"/" if target.startswith(b"/") else done, (*target.split(b"/"), *rest))

    def guess(self) -> bytes:
        done, rest = self.at
        return os.path.normpath(os.path.join(done, *rest))


SMALLEST_BLOCK_BYTES = 64 * 1024
LARGEST_BLOCK_BYTES = 64 * 1024 * 1024


class Parsed(NamedTuple):
    """A field's parser, and the function that writes its value as TOML if that is not the value itself."""

    parse: Callable[[object], object]
    spell: Callable[[Any], str] | None = None


def show(value: object) -> str:
    """Return a value as TOML, for an error message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else str(value)


def refuse(expected: str, value: object) -> NoReturn:
    """Raise ValueError with the expected and the actual value."""
    raise ValueError(f"must be {expected}, not {show(value)}")


def parse_flag(value: object) -> bool:
    """Return true or false; refuse everything else, such as 1 or "yes"."""
    return value if isinstance(value, bool) else refuse("true or false", value)


def whole(lowest: int, highest: int) -> Callable[[object], int]:
    """Return a parser for whole numbers from ``lowest`` to ``highest``."""

    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            refuse(f"a whole number from {lowest} to {highest:,}", value)
        return value

    return parse


def parse_bytes_count(value: object) -> int:
    """Return a size in bytes from text with a unit or a bare number."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return parse_size(value) if isinstance(value, str) else refuse('a size such as "50M" or "8MiB"', value)


def parse_block_size(value: object) -> int:
    """Return a block size that the native core and the packed block rows support."""
    size = parse_bytes_count(value)
    if not SMALLEST_BLOCK_BYTES <= size <= LARGEST_BLOCK_BYTES or size & (size - 1):
        refuse("a power of two from 64KiB to 64MiB", value)
    return size


def parse_percentage(value: object) -> float:
    return parse_share(value) if isinstance(value, str) else refuse('a share such as "5%"', value)


def duration(lowest_s: int) -> Callable[[object], int]:
    """Return a parser for durations of at least ``lowest_s`` seconds."""

    def parse(value: object) -> int:
        if not isinstance(value, str):
            refuse('a duration with a unit such as "90s", "5h" or "10d"', value)
        seconds = parse_duration(value)
        return seconds if seconds >= lowest_s else refuse(f"at least {spell_duration(lowest_s)} long", value)

    return parse


def one_of(kind: type[StrEnum]) -> Callable[[object], StrEnum]:
    words = ", ".join(f'"{member.value}"' for member in kind)

    def parse(value: object) -> StrEnum:
        return next((member for member in kind if member.value == value), None) or refuse(f"one of {words}", value)

    return parse


def parse_text(value: object) -> str:
    """Return one line of text. Line breaks would end up in mail headers and command lines."""
    if not isinstance(value, str) or not value.isprintable():
        refuse("a text of one line", value)
    return value


def parse_texts(value: object) -> tuple[str, ...]:
    """Return a list of non-empty texts of one line each."""
    if not isinstance(value, list):
        refuse('a list of texts such as ["a", "b"]', value)
    for item in value:
        if not isinstance(item, str) or not item or "\n" in item or "\0" in item:
            refuse("a list of non-empty texts", item)
    return tuple(value)


def parse_digests(value: object) -> tuple[str, ...]:
    """Return the names of digests. The two that every rule relies on are mandatory."""
    names = parse_texts(value)
    if not {"md5", "xxh3_128"} <= set(names) <= {"md5", "xxh3_128", "blake3"} or len(set(names)) != len(names):
        raise ValueError(f'must be ["md5", "xxh3_128"], to which "blake3" may be added, not {json.dumps(names)}')
    return names


def parse_folder(value: object) -> bytes:
    """Return the real path of an absolute path. The catalog stores real paths."""
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        refuse("an absolute path", value)
    return resolve(os.fsencode(value))


def parse_file(value: object) -> bytes:
    """Return the absolute path of a file; refuse an empty path."""
    return parse_place(value) or refuse("an absolute path", value)


def parse_place(value: object) -> bytes:
    """Return an absolute path as written, or an empty one."""
    if not isinstance(value, str) or "\0" in value or (value and not value.startswith("/")):
        refuse("an absolute path", value)
    return os.fsencode(value)


def parse_name(value: object) -> str:
    """Return a name that a command line can't confuse with a path, an option or a URL."""
    if not isinstance(value, str) or re.fullmatch(r"\w[\w.-]*", value) is None:
        refuse("a name of letters, digits, dots and dashes", value)
    return value


def parse_copy_url(value: object) -> str:
    """Return the location of a copy: an absolute path, or a supported URL without a password."""
    complaint = find_password(value) if isinstance(value, str) else None
    if complaint is not None:
        raise ValueError(complaint)
    if isinstance(value, str) and value.isprintable() and value.startswith(("/", *SCHEME_PREFIXES)):
        return value
    *others, last = SCHEME_PREFIXES
    refuse(f"an absolute path or a URL that begins with {', '.join(others)} or {last}", value)


def parse_optional_name(value: object) -> str:
    return "" if value == "" else parse_name(value)


def parse_optional_copy_url(value: object) -> str:
    return "" if value == "" else parse_copy_url(value)


def parse_web_url(value: object) -> str:
    """Return an http(s) URL, or an empty text."""
    if not isinstance(value, str) or (value and re.fullmatch(r"https?://[^\s/]+\S*", value) is None):
        refuse("an address that begins with https:// or http://", value)
    return value


def parse_hub_url(value: object) -> str:
    """Return the URL of a hub, or an empty text. Without TLS a token could be read on the way."""
    from urllib.parse import urlsplit

    url = parse_web_url(value)
    parts = urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment:
        refuse("an address without user, password, question mark and #", "one with them")
    if parts.scheme == "http" and not _is_this_machine(parts.hostname or ""):
        refuse("an address that begins with https:// (http:// only for this machine itself)", value)
    return url.rstrip("/")


def _is_this_machine(host: str) -> bool:
    import ipaddress

    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_database(value: object) -> str:
    """Return the URL of a PostgreSQL database without a password, or an empty text."""
    if value == "":
        return ""
    if not isinstance(value, str) or re.fullmatch(r"postgres(?:ql)?://\S+", value) is None or not value.isprintable():
        refuse('a URL such as "postgresql://hub@localhost/hub", or empty', value)
    from urllib.parse import parse_qs, urlsplit

    parts = urlsplit(value)
    if parts.password is not None or "password" in parse_qs(parts.query):
        raise ValueError("must not hold the password: add ?passfile=FILE, with a line as in .pgpass")
    return value


def parse_listen(value: object) -> str:
    """Return an address and a port: "127.0.0.1:8431", "[::1]:8431"."""
    import ipaddress

    match = re.fullmatch(r"(\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([0-9]{1,5})", value) if isinstance(value, str) else None
    if match is None or not 0 < int(match[4]) < 1 << 16:
        refuse('an address and a port such as "127.0.0.1:8431" or "[::1]:8431"', value)
    try:
        ipaddress.ip_address(match[2] or match[3])
    except ValueError:
        refuse('an address and a port such as "127.0.0.1:8431" or "[::1]:8431"', value)
    return match[0]


def parse_address(value: object) -> str:
    import ipaddress

    try:
        if value == "" or (isinstance(value, str) and ipaddress.ip_address(value)):
            return value
    except ValueError:
        pass
    refuse('an IP address such as "127.0.0.1"', value)


def parse_schedule(value: object) -> str:
    """Return the schedule of a job: a word, a time on some weekdays, or a cron expression."""
    if not isinstance(value, str):
        refuse('a cron expression with day names ("30 2 * * sun"), "hourly", "daily" or "weekly"', value)
    from integrity.units import read_schedule

    read_schedule(value)
    return value


def parse_windows(value: object) -> str:
    """Return the windows in which a job may run, or the cron expression that starts it."""
    if not isinstance(value, str):
        refuse('windows such as "01:00-06:00", or a cron expression ("0 1 * * sun")', value)
    from integrity.units import read_windows

    read_windows(value)
    return value
