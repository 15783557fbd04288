"""
How a path is written: whole, for JSON, and for a shell. For people there is ``errors.show_path`` (R10).

How a path is written, for commands: what alerts need as well stands further down.
"""

from __future__ import annotations

import base64
import shlex


def absolute(root: bytes, path: bytes | None) -> bytes:
    """Join a root and a path relative to it; a finding about the root itself has none."""
    return root.rstrip(b"/") + b"/" + path if path else root


def path_fields(name: str, path: bytes) -> dict[str, object]:
    """Write a path as text; if its bytes are not UTF-8, the real ones stand beside it in base64 (R10)."""
    try:
        return {name: path.decode("utf-8")}
    except UnicodeDecodeError:
        text = path.decode("utf-8", "backslashreplace")
        return {name: text, f"{name}_b64": base64.b64encode(path).decode("ascii")}


def shell_path(path: bytes) -> str:
    """Quote a path so that bash and zsh read back exactly these bytes, whatever they are."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = "\n"
    if text.isprintable():
        # What begins with a dash would be taken for an option.
        return shlex.quote(text if not text.startswith("-") else f"./{text}")
    return "$'" + "".join(_quote(byte) for byte in path) + "'"


def _quote(byte: int) -> str:
    char = chr(byte)
    if char in "'\\":
        return f"\\{char}"
    return char if 0x20 <= byte < 0x7F else f"\\x{byte:02x}"


__all__ = ["absolute", "path_fields", "shell_path"]
