"""What the figures were measured on: without it they can't be held against those of another machine."""

from __future__ import annotations

import os
import platform
import ssl
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """
    A machine and what runs on it.

    Args:
        processor: its name, or the architecture's where the system does not tell.
        processors: how many this process may use.
        python: version.
        openssl: version that hashlib uses.
    """

    processor: str
    processors: int
    python: str
    openssl: str


def describe_machine() -> Machine:
    """Ask the system."""
    processors = len(os.sched_getaffinity(0))
    return Machine(_find_processor() or platform.machine(), processors, platform.python_version(), ssl.OPENSSL_VERSION)


def _find_processor() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(names, None)
    except FileNotFoundError:  # no /proc
        return None
