"""Table ``objects``: short messages, where making the object costs more than hashing."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from integrity.hashing import native_status
from integrity.jobs.bench.allocation import CONSTRUCTORS, HASHLIB, OURS, measure_allocation
from integrity.jobs.bench.reading import Hasher
from integrity.jobs.bench.rows import Row, Table, compare
from integrity.jobs.bench.turns import enter_short, measure_in_turn
from integrity.jobs.bench.workspace import Workspace

_MESSAGES_BYTES = (16, 64, 1024)


def measure_objects(workspace: Workspace) -> list[Row]:
    """Hash a message of each size with each."""
    native = native_status()
    rows: list[Row] = []
    for size_bytes in _MESSAGES_BYTES:
        message = os.urandom(size_bytes)
        contenders = [
            enter_short(
                Row(
                    table=Table.OBJECTS,
                    group=f"{size_bytes:,} bytes",
                    what=what,
                    size_bytes=size_bytes,
                    allocated_bytes=measure_allocation(what, size_bytes),
                    note=f"not the C core: {native.path}" if what == OURS and not native.is_native else "",
                ),
                partial(_digest, make, message),
            )
            for what, make in CONSTRUCTORS.items()
        ]
        rows += measure_in_turn(contenders, workspace.settings.runs)
    return compare(rows, HASHLIB)


def _digest(make: Callable[[bytes], Hasher], message: bytes) -> bytes:
    return make(message).digest()
