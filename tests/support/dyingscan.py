"""
A scan that writes pages as short as can be, and dies as soon as others see a part of what it writes.

    python -m support.dyingscan CATALOG ROOT SQL
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from integrity.catalog.db import Connection
from integrity.jobs.options import ScanOptions
from integrity.jobs.runner import scan
from support.jobs import open_context

_TESTS = Path(__file__).resolve().parent.parent


def count(catalog: Path, sql: str) -> int:
    """Count in a catalog, as others see it."""
    with closing(Connection(bytes(catalog), "mode=ro")) as c:
        return int(c.value(sql))


def scan_until(catalog: Path, root: Path, sql: str) -> None:
    """Have a process scan a root that is killed between two pages, once a count is not 0 any more."""
    command = [sys.executable, "-P", "-m", "support.dyingscan", str(catalog), str(root), sql]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(_TESTS)}, timeout=120, check=False)
    assert -signal.SIGKILL == done.returncode


def _scan(catalog: Path, root: Path, sql: str) -> None:
    jumps = 0

    def jump_or_die() -> float:
        nonlocal jumps
        if count(catalog, sql):
            os.kill(os.getpid(), signal.SIGKILL)
        jumps += 1
        return time.monotonic() + jumps

    with open_context(catalog) as context:
        context.monotonic = jump_or_die
        scan(context, [os.fsencode(root)], ScanOptions())


if __name__ == "__main__":
    _scan(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
