"""Table ``python``: every algorithm that this Python has, plain and as HMAC."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from functools import partial

from integrity.jobs.bench.costs import Cost, measure_short
from integrity.jobs.bench.rows import Row, Table, compare
from integrity.jobs.bench.workspace import Workspace

_MESSAGE_BYTES = 1_000_000
_OBJECTS = 1000
_KEY = bytes(range(32))
_SHAKE_BYTES = 32  # a digest as long as one asks for; this is what others of its strength have


def measure_python(workspace: Workspace) -> list[Row]:
    """Measure each algorithm twice."""
    message, runs = os.urandom(_MESSAGE_BYTES), workspace.settings.runs
    names = sorted(hashlib.algorithms_available)
    rows = [_measure_plain(name, message, runs) for name in names]
    rows += [_measure_hmac(name, message, runs) for name in names]
    return compare(rows, "md5")


def _measure_plain(name: str, message: bytes, runs: int) -> Row:
    create = partial(hashlib.new, name, usedforsecurity=False)
    try:
        has_fixed_size = create().digest_size > 0
    except ValueError as error:  # OpenSSL knows its name and refuses it: switched off by the system's configuration
        return _make_row("plain", name, note=f"not to be had here: {error}")
    digest_arguments = () if has_fixed_size else (_SHAKE_BYTES,)

    def work() -> None:
        stream = create()
        stream.update(message)
        stream.digest(*digest_arguments)

    return _measure("plain", name, create, work, runs)


def _measure_hmac(name: str, message: bytes, runs: int) -> Row:
    create = partial(hmac.new, _KEY, digestmod=name)
    try:
        if hashlib.new(name, usedforsecurity=False).digest_size == 0:
            return _make_row("HMAC", name, note="has no HMAC: its digest has no size of its own")
        create()
    except ValueError as error:
        return _make_row("HMAC", name, note=f"not to be had here: {error}")

    def work() -> None:
        stream = create()
        stream.update(message)
        stream.digest()

    return _measure("HMAC", name, create, work, runs)


def _measure(group: str, name: str, create: Callable[[], object], work: Callable[[], None], runs: int) -> Row:
    created = measure_short(create, runs).per(1 / _OBJECTS)
    return _make_row(group, name, cost=measure_short(work, runs), create=created)


def _make_row(group: str, name: str, *, cost: Cost | None = None, create: Cost | None = None, note: str = "") -> Row:
    return Row(
        table=Table.PYTHON, group=group, what=name, size_bytes=_MESSAGE_BYTES, cost=cost, create=create, note=note
    )
