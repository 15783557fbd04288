"""Run a program that queries a disk, with a deadline although the disk may never answer; read values from its JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

DEADLINE_S = 45.0
"""The kernel gives a command of a disk up after 30 s."""

_KILL_S = 1.0


class Answer(NamedTuple):
    """What a program printed, and its exit code."""

    text: str
    code: int


def ask_program(argv: Sequence[str], *, deadline_s: float = DEADLINE_S) -> Answer | None:
    """
    Run a program and return what it printed.

    A process that hangs in the kernel survives SIGKILL: it is left behind, and nobody waits for it.

    Returns:
        None if it did not end in time.

    Raises:
        OSError: it can't be started.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    try:
        printed, _ = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_S)
        if process.stdout is not None:
            process.stdout.close()
        return None
    return Answer(printed.decode("utf-8", "replace"), process.returncode)


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
    found = get_value(value, *path)
    yield from (one for one in (found if isinstance(found, list) else ()) if isinstance(one, dict))
