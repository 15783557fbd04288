"""Log lines of a command, on stderr. Apart from other output, because ``--help`` starts without logging."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from integrity.cli import terminal


def set_up_logging(verbosity: int) -> None:
    """Send log lines to stderr: warnings, with ``-v`` each run's steps, with ``-vv`` each file."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)]
    handlers = [_LogLines(sys.stderr)]
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", handlers=handlers, force=True)


class _LogLines(logging.StreamHandler[TextIO]):
    """Log lines that do not run into the progress of a job."""

    def emit(self, record: logging.LogRecord) -> None:
        with terminal.erased():
            super().emit(record)
