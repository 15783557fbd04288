r"""
Read what the commands of ``remoteshell`` print: bytes from a machine that may be broken or hostile.

    answer := anything BEGIN NUL record* END blank status terminator
    record := size blank seconds.fraction blank path NUL     of find: what lies below the folder, "./" before it
            | hex two-characters path terminator             of md5sum and its like
            | (nothing) NUL                                  of find, for each folder: a sign of life
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from integrity.copies.filenames import LONGEST_PATH_BYTES, find_fault, is_below
from integrity.copies.protocol import Entry, Kind, Trouble
from integrity.copies.remoteshell import BEGIN, END, TOOLS, Tool

_NOISE_BYTES: Final = 65_536  # what login scripts may print


class Abilities(NamedTuple):
    """
    What there is on the other side.

    Attributes:
        folder: "ok", "denied", "no_folder" or "missing".
        can_list: a find that prints as GNU's does.
        tools: by kind.
    """

    folder: str
    can_list: bool
    tools: dict[Kind, Tool]


class BadAnswer(Exception):
    """Say that what came back is no answer of the command: noise without end, or another program."""


class Records:
    """
    Cut an answer into records as it comes.

    Args:
        terminator: of a record.
    """

    def __init__(self, terminator: bytes = b"\0") -> None:
        self._terminator = terminator
        self._rest = b""
        self._has_begun = False
        self.status: int | None = None  # of the command, once the answer is whole

    def feed(self, data: bytes) -> list[bytes]:
        """
        Take what came and return the records that it completes.

        Raises:
            BadAnswer: it is not the command that answers.
        """
        data = self._rest + data
        if not self._has_begun:
            noise, mark, data = data.partition(BEGIN + b"\0")
            self._has_begun = bool(mark)
            if not mark:
                if len(noise) > _NOISE_BYTES:
                    raise BadAnswer
                self._rest = noise
                return []
        *records, self._rest = data.split(self._terminator)
        if len(self._rest) > LONGEST_PATH_BYTES + 1000:
            raise BadAnswer
        if records and records[-1].startswith(END):
            self.status = _parse_status(records.pop())
        return records


def _parse_status(record: bytes) -> int:
    text = record[len(END) :].strip()
    if not text.isdigit():
        raise BadAnswer
    return int(text)


def parse_probe(records: list[bytes]) -> Abilities:
    """Read what there is on the other side; what it can do is believed only if it has just done it."""
    folder, can_list, can_split = "missing", False, False
    tools: dict[Kind, Tool] = {}
    for record in records:
        word, _, rest = record.partition(b" ")
        if word == b"folder":
            folder = rest.decode("ascii", "replace")
        elif word == b"find":
            can_list = re.fullmatch(rb"\d+ -?\d+\.\d+ \.", rest) is not None
        elif word == b"xargs":
            can_split = rest == b"a,b"
        elif word == b"tool" and can_split:
            _add_tool(tools, rest)
    return Abilities(folder, can_list, tools)


def _add_tool(tools: dict[Kind, Tool], answer: bytes) -> None:
    number, _, said = answer.partition(b" ")
    index = int(number) - 2 if number.isdigit() else -1
    if 0 <= index < len(TOOLS):
        tool = TOOLS[index]
        if said.split(b" ", 1)[0] == tool.of_abc.encode():
            tools.setdefault(tool.kind, tool)


def parse_entry(record: bytes, prefix: bytes) -> Entry | Trouble:
    """
    Read one record of a listing.

    Raises:
        BadAnswer: it is none.
    """
    fields = record.split(b" ", 2)
    if len(fields) != 3 or re.fullmatch(rb"\d{1,19}", fields[0]) is None:
        raise BadAnswer
    path = fields[2].removeprefix(b"./")
    fault = find_fault(path)
    if fault is not None or not is_below(path, prefix):
        return Trouble(path[:LONGEST_PATH_BYTES], f"its name {fault or 'is not below what was asked for'}")
    return Entry(path, int(fields[0]), _parse_time(fields[1]))


def _parse_time(text: bytes) -> int:
    """Read ``seconds.fraction`` as find prints it: both parts as in a timespec, so the fraction counts forward."""
    found = re.fullmatch(rb"(-?\d{1,18})\.(\d+)", text)
    if found is None:
        raise BadAnswer
    return int(found[1]) * 1_000_000_000 + int(found[2][:9].ljust(9, b"0"))


def split_complaints(written: bytes) -> list[bytes]:
    """Cut what came on standard error into lines, without what login scripts wrote before the command began."""
    before, mark, after = written.partition(BEGIN + b"\n")
    return (after if mark else before).splitlines()


def parse_complaint(line: bytes, prefix: bytes) -> Trouble | None:
    """
    Read a line that find wrote to standard error; None if it says that the prefix is not there, which is no trouble.

    What can't be read is a trouble of all that was asked for.
    """
    found = re.fullmatch(rb"find: '(.*)': ([^:]+)", line)
    if found is None:
        return Trouble(prefix, f"find over there says: {line.decode('utf-8', 'backslashreplace').strip()}")
    quoted, reason = found[1], found[2].decode("ascii", "replace")
    path = _unquote(quoted).removeprefix(b"./")
    if path == prefix and reason in ("No such file or directory", "Not a directory"):
        return None
    return Trouble(b"" if path == b"." else path, f"could not be looked at over there: {reason}")


_QUOTED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


def _unquote(text: bytes) -> bytes:
    r"""Take back the quoting of GNU messages in the C locale: ``\n``, ``\'``, ``\\``, ``\303``."""

    def replace(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) & 0xFF]) if code[:1].isdigit() else _QUOTED.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", replace, text, flags=re.DOTALL)


def parse_digest(record: bytes, tool: Tool) -> tuple[bytes, bytes] | None:
    """Read one line of a tool: the digest and what stands behind it, without ``./``; None if it is none."""
    size = len(tool.of_abc)
    hexed = record[:size]
    if re.fullmatch(rb"[0-9a-f]+", hexed) is None or len(hexed) != size or record[size : size + 1] not in (b" ", b""):
        return None
    return bytes.fromhex(hexed.decode("ascii")), record[size + 2 :].removeprefix(b"./")


def find_reason(complaints: bytes, path: bytes) -> str:
    """Find what a tool wrote to standard error about a path."""
    for line in complaints.splitlines():
        if b"./" + path in line:
            return line.rpartition(b": ")[2].decode("utf-8", "backslashreplace").strip(" .")
    return "it is not there, or no regular file, or can't be read"
