"""
Between names of files and what rclone calls them.

rclone speaks of all stores in one spelling: control characters are Unicode's pictures of them (U+2401 for 0x01), what
is not UTF-8 is lost (U+FFFD), and U+201B quotes what really is such a picture. The first can be undone. Names with the
others can't be told from each other, or (with the quote, on local disks, rclone 1.60) not be opened: they are said not
to be carried.
"""

from __future__ import annotations

_PICTURES = {code: chr(0x2400 + code) for code in range(1, 0x20)} | {0x7F: "\u2421"}
_CONTROLS = {ord(picture): chr(code) for code, picture in _PICTURES.items()}
_QUOTE = "\u201b"
_LOST = "\ufffd"


def find_name_fault(path: bytes) -> str | None:
    """Tell why a file of this path can't be known by it to rclone; None if it can."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return "has a name that is not UTF-8, which rclone can't carry"
    if _LOST in text or _QUOTE in text or not _CONTROLS.keys().isdisjoint(map(ord, text)):
        return "has a character in its name that rclone uses for what it can't carry"
    return None


def to_rclone(path: bytes) -> str:
    """Spell a path, which has no fault, as rclone does."""
    return path.decode("utf-8").translate(_PICTURES)


def from_rclone(text: str) -> bytes | None:
    """Undo rclone's spelling; None if that can't be done for certain."""
    if _LOST in text or _QUOTE in text:
        return None
    return text.translate(_CONTROLS).encode("utf-8", "surrogatepass")


def to_pattern(path: bytes) -> str:
    """Spell a path as one of rclone's filters that matches only itself."""
    return "".join("\\" + char if char in "*?[]{}\\" else char for char in to_rclone(path))
