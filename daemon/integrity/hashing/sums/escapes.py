r"""
The escapes of coreutils: in a line that begins with a backslash the name has ``\\``, ``\n`` and ``\r`` in it.

A name is escaped if it holds one of these three bytes: a carriage return, too, since coreutils 9.0, because at the end
of a line it would be taken for a part of the line's end.
"""

from __future__ import annotations

import re

_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_NAMES = {escape: byte for byte, escape in _ESCAPES.items()}
_find_special = re.compile(rb"[\\\n\r]").sub
_find_escapes = re.compile(rb"\\(.?)", re.DOTALL).sub
_is_escaped = re.compile(rb"(?:[^\\]|\\[\\nr])*", re.DOTALL).fullmatch


def escape(path: bytes) -> tuple[bytes, bytes]:
    """
    Escape a name if it needs that.

    Returns:
        What stands at the beginning of the line (a backslash or nothing), and the name to write.
    """
    if b"\\" not in path and b"\n" not in path and b"\r" not in path:
        return b"", path
    return b"\\", _find_special(lambda match: _ESCAPES[match[0]], path)


def unescape(name: bytes) -> bytes | None:
    """Undo ``escape``; None if the name holds other escapes, or a backslash at its end."""
    if _is_escaped(name) is None:
        return None
    return _find_escapes(lambda match: _NAMES[match[0]], name)
