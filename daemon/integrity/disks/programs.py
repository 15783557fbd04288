"""Run a program that queries a disk, with a deadline that holds although the disk may never answer."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
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
