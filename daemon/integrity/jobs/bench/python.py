"""Table ``python``: every algorithm that this Python has, plain and as HMAC."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from functools import partial

from integrity.jobs.bench.measure import repeat_short
from integrity.jobs.bench.rows import Row, Table, compare
from integrity.jobs.bench.turns import Contender, Turn, measure_in_turn
from integrity.jobs.bench.workspace import Workspace

_MESSAGE_BYTES = 1_000_000
_OBJECTS = 1000
_KEY = bytes(range(32))
_SHAKE_BYTES = 32  # a digest as long as one asks for; this is what others of its strength have


def measure_python(workspace: Workspace) -> list[Row]:
    """Measure each algorithm twice."""
    message = os.urandom(_MESSAGE_BYTES)
    names = sorted(hashlib.algorithms_available)
    contenders = [_enter_plain(name, message) for name in names]
    contenders += [_enter_hmac(name, message) for name in names]
    return compare(measure_in_turn(contenders, workspace.settings.runs), "md5")


def _enter_plain(name: str, message: bytes) -> Contender:
    create = partial(hashlib.new, name, usedforsecurity=False)
    try:
        has_fixed_size = create().digest_size > 0
    except ValueError as error:  # OpenSSL knows its name and refuses it: switched off by the system's configuration
        return _leave_out("plain", name, f"not to be had here: {error}")
    digest_arguments = () if has_fixed_size else (_SHAKE_BYTES,)

    def work() -> None:
        stream = create()
        stream.update(message)
        stream.digest(*digest_arguments)

    return _enter("plain", name, create, work)


def _enter_hmac(name: str, message: bytes) -> Contender:
    create = partial(hmac.new, _KEY, digestmod=name)
    try:
        if hashlib.new(name, usedforsecurity=False).digest_size == 0:
            return _leave_out("HMAC", name, "has no HMAC: its digest has no size of its own")
        create()
    except ValueError as error:
        return _leave_out("HMAC", name, f"not to be had here: {error}")

    def work() -> None:
        stream = create()
        stream.update(message)
        stream.digest()

    return _enter("HMAC", name, create, work)


def _enter(group: str, name: str, create: Callable[[], object], work: Callable[[], None]) -> Contender:
    create_one, hash_one = repeat_short(create), repeat_short(work)
    return Contender(_make_row(group, name), lambda: Turn(hash_one(), create=create_one().per(1 / _OBJECTS)))


def _leave_out(group: str, name: str, why: str) -> Contender:
    return Contender(_make_row(group, name, why), None)


def _make_row(group: str, name: str, note: str = "") -> Row:
    return Row(table=Table.PYTHON, group=group, what=name, size_bytes=_MESSAGE_BYTES, note=note)
