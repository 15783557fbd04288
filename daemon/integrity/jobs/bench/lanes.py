"""Table ``lanes``: how fast each path of the C core digests messages of one length, many at a time, on one thread."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial

from integrity.hashing import native_status
from integrity.jobs.bench.measure import repeat_short
from integrity.jobs.bench.rows import Row, Table, compare, spell_length
from integrity.jobs.bench.turns import Contender, Turn, enter_short, measure_in_turn
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
        peer = enter_short(
            _make_row(_HASHLIB, arena, size_bytes), partial(_digest_in_turn, memoryview(arena), size_bytes)
        )
        rows += measure_in_turn([*_enter_paths(arena, size_bytes), peer], workspace.settings.runs)
    return compare(rows, _HASHLIB)


def _enter_paths(arena: bytes, size_bytes: int) -> list[Contender]:
    native = native_status()
    if not native.is_native:
        return [Contender(_make_row("C core", arena, size_bytes, note=f"not in use: {native.path}"), None)]
    from integrity.hashing.md5_native import list_paths

    return [
        Contender(_make_row(path, arena, size_bytes), _measure_on(path, arena, size_bytes)) for path in list_paths()
    ]


def _measure_on(path: str, arena: bytes, size_bytes: int) -> Callable[[], Turn]:
    """Give what measures one path: it is the only one in use while it is measured, and only then."""
    from integrity.hashing.md5_native import digest_arena, only_path

    with only_path(path):
        once = repeat_short(partial(digest_arena, arena, size_bytes))

    def run() -> Turn:
        with only_path(path):
            return Turn(once())

    return run


def _digest_in_turn(arena: memoryview, size_bytes: int) -> None:
    for offset in range(0, len(arena), size_bytes):
        hashlib.md5(arena[offset : offset + size_bytes], usedforsecurity=False).digest()


def _make_row(what: str, arena: bytes, size_bytes: int, note: str = "") -> Row:
    return Row(
        table=Table.LANES,
        group=f"messages of {spell_length(size_bytes)}",
        what=what,
        size_bytes=len(arena),
        message_bytes=size_bytes,
        note=note,
    )
