"""Table ``lanes``: how fast each path of the C core digests messages of one length, many at a time, on one thread."""

from __future__ import annotations

import hashlib
import os
from functools import partial

from integrity.hashing import native_status
from integrity.jobs.bench.costs import Cost, measure_short
from integrity.jobs.bench.rows import Row, Table, compare, spell_length
from integrity.jobs.bench.workspace import Workspace

_MESSAGES_BYTES = (64, 4 << 10, 64 << 10, 1 << 20)
_MESSAGES_AT_LEAST = 64
"""So many at a time fill the widest path twice over."""
_ARENA_AT_LEAST_BYTES = 1 << 20
_HASHLIB = "hashlib"


def measure_lanes(workspace: Workspace) -> list[Row]:
    """Digest messages of each length on each path, and one after the other with hashlib."""
    rows: list[Row] = []
    for size_bytes in _MESSAGES_BYTES:
        arena = os.urandom(max(_MESSAGES_AT_LEAST * size_bytes, _ARENA_AT_LEAST_BYTES))
        rows += _measure_paths(arena, size_bytes, workspace.settings.runs)
        cost = measure_short(partial(_digest_in_turn, memoryview(arena), size_bytes), workspace.settings.runs)
        rows.append(_make_row(_HASHLIB, arena, size_bytes, cost))
    return compare(rows, _HASHLIB)


def _measure_paths(arena: bytes, size_bytes: int, runs: int) -> list[Row]:
    native = native_status()
    if not native.is_native:
        return [_make_row("C core", arena, size_bytes, note=f"not in use: {native.path}")]
    from integrity.hashing.md5_native import digest_arena, list_paths, only_path

    rows: list[Row] = []
    for path in list_paths():
        with only_path(path):
            cost = measure_short(partial(digest_arena, arena, size_bytes), runs)
        rows.append(_make_row(path, arena, size_bytes, cost))
    return rows


def _digest_in_turn(arena: memoryview, size_bytes: int) -> None:
    for offset in range(0, len(arena), size_bytes):
        hashlib.md5(arena[offset : offset + size_bytes], usedforsecurity=False).digest()


def _make_row(what: str, arena: bytes, size_bytes: int, cost: Cost | None = None, note: str = "") -> Row:
    return Row(
        table=Table.LANES,
        group=f"messages of {spell_length(size_bytes)}",
        what=what,
        size_bytes=len(arena),
        message_bytes=size_bytes,
        cost=cost,
        note=note,
    )
