"""Define the records in which the daemon reports its state."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BusyRoot:
    """A root with a running job. ``copy``: the copy it is compared with."""

    root: bytes
    job: str
    phase: str
    files_done: int
    bytes_done: int
    bytes_total: int | None
    rate_bytes_per_s: float | None
    copy: str = ""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A queued job. ``reason``: who or what requested it, for people; ``copy``: the copy to compare with."""

    root: bytes
    job: str
    reason: str
    copy: str = ""


@dataclass(frozen=True, slots=True)
class JobAhead:
    """
    A job that runs before a request.

    Args:
        root: empty if the job covers several roots.
        began_at: seconds UTC; None if it is queued too.
    """

    root: bytes
    job: str
    began_at: int | None
    copy: str = ""


@dataclass(frozen=True, slots=True)
class NextRun:
    """The next time of a schedule, in seconds UTC."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class WatchState:
    """How completely a root is watched. ``blind``: what is not watched and why, for people."""

    root: bytes
    folders: int
    blind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyWait:
    """A copy whose comparison is due, and why it has not started, for people."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DaemonState:
    """
    What the daemon is doing and will do next.

    Args:
        trouble: why its last job could not be recorded.
        reported_at: when the hub last had everything, seconds UTC; None: not since the daemon started.
    """

    pid: int
    started_at: int
    version: str
    busy: tuple[BusyRoot, ...] = ()
    queued: tuple[QueuedJob, ...] = ()
    next_runs: tuple[NextRun, ...] = ()
    watch: tuple[WatchState, ...] = ()
    copies: tuple[CopyWait, ...] = ()
    trouble: str = ""
    reported_at: int | None = None
