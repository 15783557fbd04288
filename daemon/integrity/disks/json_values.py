"""Read values from the JSON of other programs, which may hold anything."""

from __future__ import annotations

import json
from collections.abc import Iterator


def parse_object(text: str) -> dict[str, object] | None:
    """Parse a JSON object; None if the text is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def get_value(value: object, *path: str) -> object:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def get_number(value: object, *path: str) -> int | None:
    """Return the whole number at a path of keys, also one that is written as text; None if there is none."""
    found = get_value(value, *path)
    if isinstance(found, str) and found.isascii() and found.isdecimal():
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def get_text(value: object, *path: str) -> str:
    """Return the text at a path of keys; empty if there is none."""
    found = get_value(value, *path)
    return found if isinstance(found, str) else ""


def find_objects(value: object, *path: str) -> Iterator[dict[str, object]]:
    """Yield the objects of the list at a path of keys."""
    found = get_value(value, *path)
    yield from (one for one in (found if isinstance(found, list) else ()) if isinstance(one, dict))
