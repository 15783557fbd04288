"""How a path is written: whole, for JSON, and for a shell. For people there is ``errors.show_path`` (R10)."""

from __future__ import annotations

import re
import shlex

_NEWLINE = "${IFS#??}"


def absolute(root: bytes, path: bytes | None) -> bytes:
    """Join a root and a path relative to it; a finding about the root itself has none."""
    return root.rstrip(b"/") + b"/" + path if path else root


def path_fields(name: str, path: bytes) -> dict[str, object]:
    """Write a path as text; if its bytes are not UTF-8, the real ones stand beside it in base64 (R10)."""
    try:
        return {name: path.decode("utf-8")}
    except UnicodeDecodeError:
        import binascii  # here, for most names are UTF-8

        text = path.decode("utf-8", "backslashreplace")
        return {name: text, f"{name}_b64": binascii.b2a_base64(path, newline=False).decode("ascii")}


def shell_path(path: bytes) -> str:
    """Quote a path for a command line. What begins with a dash would be taken for an option."""
    return shell_word(b"./" + path if path.startswith(b"-") else path)


def shell_word(word: str | bytes) -> str:
    """
    Quote a word so that every POSIX shell reads back exactly its bytes, on one line of printable characters.

    Control characters and bytes that are not UTF-8 are written as octal escapes of printf(1), for ``$'...'`` is unknown
    to sh. The shell removes newlines from the end of what a command prints; ``${IFS#??}`` is one (IFS is space, tab,
    newline).
    """
    raw = word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "\n"
    if text.isprintable():
        return shlex.quote(text)
    body = raw.rstrip(b"\n")
    newlines = _NEWLINE * (len(raw) - len(body))
    printed = f"$(printf '{''.join(map(_escape, body))}')" if body else ""
    return f'"{printed}{newlines}"'


def read_word(word: str) -> str:
    """Return the text of a word that ``shell_word`` quoted."""
    if not word.startswith('"'):
        return "".join(shlex.split(word))
    printed, has_end, newlines = word.removeprefix("\"$(printf '").partition("')")
    if not has_end:
        printed, newlines = "", word  # nothing but newlines
    raw = re.sub(rb"\\(\d{3})", lambda match: bytes([int(match[1], 8)]), printed.encode())
    return (raw + b"\n" * newlines.count(_NEWLINE)).decode("utf-8", "surrogateescape")


def _escape(byte: int) -> str:
    """Write a byte for printf: plain if no shell, nor printf, sees anything in it, even between double quotes."""
    return chr(byte) if byte in _PLAIN else f"\\{byte:03o}"


_PLAIN = frozenset(b"/._,:=+@ ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
