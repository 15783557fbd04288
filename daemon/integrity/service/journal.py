"""
Log lines as the journal wants them: each with its priority in front (sd-daemon(3)), and without a time stamp.

The journal takes every line of standard error for an entry of its own, and adds the time and the unit itself.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


class JournalFormatter(logging.Formatter):
    """Put ``<N>`` before every line of a record, those of a traceback included."""

    def __init__(self) -> None:
        super().__init__("%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; all its lines have its priority."""
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), _DEBUG)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def is_journal(fd: int = 2, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell whether a descriptor leads to the journal: JOURNAL_STREAM in the environment says which file that is."""
    try:
        status = os.fstat(fd)
    except OSError:  # it is closed
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
