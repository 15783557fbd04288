"""
When the service of a catalog last started, and when it was stopped: the row ``service`` of ``meta``, a JSON object.

I1  A service that ended without being asked to (crash, kill, power cut) leaves no time of a stop.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from integrity.catalog.db import Connection

_TAKEN_OVER_S = 8 * 86400  # a weekly scrub by cron may be late by a day


class PastService(NamedTuple):
    """The last service. ``seen_at``: when it was stopped, or, if it crashed, when it last began or ended a run."""

    seen_at: int
    has_crashed: bool


def note_service_started(c: Connection, pid: int, now: int) -> None:
    """Record that a service serves the catalog."""
    _save(c, {"pid": pid, "started_at": now, "stopped_at": None})


def note_service_stopped(c: Connection, now: int) -> None:
    """Record that the service was asked to stop."""
    _save(c, {**_load(c), "stopped_at": now})


def find_past_service(c: Connection, now: int) -> PastService | None:
    """
    Return the service that last served the catalog, for a caller who finds none that answers.

    Returns:
        None if there never was one, or if commands took its place since it was stopped.
    """
    known = _load(c)
    if not known:
        return None
    stopped_at = known["stopped_at"]
    if stopped_at is None:
        query = "SELECT max(coalesce(finished_at, started_at)) FROM run WHERE pid = ? AND started_at >= ?"
        return PastService(c.value(query, known["pid"], known["started_at"]) or known["started_at"], has_crashed=True)
    query = "SELECT max(started_at) FROM run WHERE job = 'scrub' AND started_at >= ? AND pid != ?"
    scrubbed_at = c.value(query, stopped_at, known["pid"])
    is_taken_over = scrubbed_at is not None and now - scrubbed_at < _TAKEN_OVER_S
    return None if is_taken_over else PastService(stopped_at, has_crashed=False)


def _load(c: Connection) -> dict[str, Any]:
    value = c.value("SELECT value FROM meta WHERE key = 'service'")
    return {} if value is None else json.loads(value)


def _save(c: Connection, record: dict[str, Any]) -> None:
    c.run("INSERT OR REPLACE INTO meta (key, value) VALUES ('service', ?)", json.dumps(record))
