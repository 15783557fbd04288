r"""
Quote names in messages as coreutils does, so that a script that reads those of md5sum reads ours.

A name that a shell would take for more than itself stands in quotes, and what can't be printed as ``$'\ooo'``. There
is ``shell_path`` for commands to be typed; this is for messages, where a colon behind a name must not belong to it.

The lines of ``integrity sum``: of digests in each form, and of what a check, a match or an audit says of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from integrity.hashing.file_sums import FileSum
from integrity.hashing.stored_digests import Algorithm
from integrity.lists.audit import Audited, AuditState
from integrity.lists.check import LineVerdict
from integrity.lists.entries import Piece
from integrity.lists.forms import encode_object, escape, write_bsd, write_gnu, write_hashdeep, write_json
from integrity.paths import path_fields

_has_special = re.compile(r"""[ !"$&'()*;<=>?\[\\^`|:]|^[~#]|^[{}]$""").search
_bars_double_quotes = re.compile(r"""[!"$&()*;<=>?\[\\^`|{}]|.[~#]""").search
_LETTERS = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r"}


def quote_name(name: bytes) -> str:
    """Write a name as coreutils does in messages."""
    text = name.decode("utf-8", "surrogateescape")
    if text and text.isprintable() and not _has_special(text):
        return text
    if "'" in text and text.isprintable() and not _bars_double_quotes(text):
        return f'"{text}"'
    parts = ["'"]
    is_escape = False
    for char in text:
        if char == "'":
            parts.append("'\\''")
            is_escape = False
        elif char.isprintable():
            parts.append("''" + char if is_escape else char)
            is_escape = False
        else:
            codes = "".join(_escape(byte) for byte in char.encode("utf-8", "surrogateescape"))
            parts.append(codes if is_escape else "'$'" + codes)
            is_escape = True
    return "".join(parts) + "'"


def _escape(byte: int) -> str:
    return _LETTERS.get(byte) or f"\\{byte:03o}"


Write = Callable[[FileSum], bytes]


class Style(Enum):
    """How digests are written."""

    GNU = "gnu"
    BSD = "bsd"
    HASHDEEP = "hashdeep"
    OBJECTS = "json"


def make_writer(
    style: Style, algorithms: Sequence[Algorithm], *, has_pieces: bool, end: bytes = b"\n", mark: bytes = b" "
) -> Write:
    """
    Choose what writes the lines of one file.

    Args:
        style: of the lines.
        algorithms: that files are digested with; for GNU lines one.
        has_pieces: whether lines tell which piece of the file they are about.
        end: of lines, for GNU and BSD.
        mark: of the mode, for GNU.
    """

    def write_whole(result: FileSum) -> bytes:
        return write_gnu(result.path, algorithms[0], result.pieces[0][2][0], end=end, mark=mark)

    def write_pieces(result: FileSum) -> bytes:
        lines: list[bytes] = []
        for offset, length, digests in result.pieces:
            piece = Piece(offset, length) if has_pieces else None
            if style is Style.GNU:
                lines.append(write_gnu(result.path, algorithms[0], digests[0], piece=piece, end=end, mark=mark))
            elif style is Style.HASHDEEP:
                lines.append(write_hashdeep(result.path, length, digests, piece=piece))
            elif style is Style.BSD:
                pairs = zip(algorithms, digests, strict=True)
                lines += [write_bsd(result.path, name, digest, piece=piece, end=end) for name, digest in pairs]
            else:
                found = dict(zip(algorithms, digests, strict=True))
                lines.append(write_json(result.path, result.size_bytes, found, piece=piece))
        return b"".join(lines)

    return write_whole if style is Style.GNU and not has_pieces else write_pieces


def write_object(kind: str, fields: Mapping[str, object], path: bytes | None = None) -> bytes:
    """Write any other object of ``--json``; fields that are None are left out."""
    named = path_fields("path", path) if path is not None else {}
    whole = {"type": kind, "schema": 1, **named, **{key: value for key, value in fields.items() if value is not None}}
    return encode_object(whole)


def write_checked(path: bytes, verdict: LineVerdict) -> bytes:
    """Write what a check says of a file, as coreutils 9.1 does: here only an end of line makes it escape a name."""
    lead, name = escape(path) if b"\n" in path else (b"", path)
    return lead + name + _VERDICTS[verdict] + b"\n"


def write_name(path: bytes, *, end: bytes = b"\n") -> bytes:
    """Write a name, escaped as in a line of digests unless ``end`` is NUL."""
    lead, name = (b"", path) if end == b"\0" else escape(path)
    return lead + name + end


def write_audited(event: Audited) -> bytes:
    """Write what became of a file, in the words of hashdeep; a name behind another is escaped like it."""
    lead, name = escape(event.path + (event.origin or b""))
    if lead:
        name, origin = (escape(path)[1] for path in (event.path, event.origin or b""))
    else:
        name, origin = event.path, event.origin or b""
    return lead + name + b": " + _SAID[event.state, event.origin is not None] + origin + b"\n"


_VERDICTS = {LineVerdict.OK: b": OK", LineVerdict.FAILED: b": FAILED", LineVerdict.UNREADABLE: b": FAILED open or read"}

_SAID = {
    (AuditState.MATCHED, False): b"Ok",
    (AuditState.MOVED, True): b"Moved from ",
    (AuditState.NEW, False): b"No match",
    (AuditState.NEW, True): b"Copy of ",
    (AuditState.MISSING, False): b"Known file not used",
    (AuditState.UNREADABLE, False): b"Not read",
}
