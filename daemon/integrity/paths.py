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
    """
    Quote a path so that sh, bash, and zsh read back exactly these bytes, whatever they are.

    A path that ends in a line break needs bash or zsh: sh has no way to write it in one word.
    """
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = "\n"
    lead = "./" if path.startswith(b"-") else ""  # else it would be taken for an option
    if text.isprintable():
        return shlex.quote(lead + text)
    escaped = lead + "".join(_SPECIAL.get(byte) or _quote(byte) for byte in path)
    return f"$'{escaped}'" if path.endswith(b"\n") else f"\"$(printf '{escaped.replace('%', '%%')}')\""


_SPECIAL = {ord("'"): "\\047", ord("\\"): "\\\\"}


def _quote(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


__all__ = ["absolute", "path_fields", "shell_path"]
