r"""
Quote names in messages as coreutils does, so that a script that reads those of md5sum reads ours.

A name that a shell would take for more than itself stands in quotes, and what can't be printed as ``$'\ooo'``. There
is ``shell_path`` for commands to be typed; this is for messages, where a colon behind a name must not belong to it.
"""

from __future__ import annotations

import re

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
