"""What the daemon tells of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BusyRoot:
    """A root that is worked on at this moment; ``copy``: that it is compared with."""

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
    """A job that waits for its turn. ``reason``: who or what wants it, for people; ``copy``: to compare with."""

    root: bytes
    job: str
    reason: str
    copy: str = ""


@dataclass(frozen=True, slots=True)
class JobAhead:
    """
    A job that goes before a request.

    Args:
        root: that it works on; empty if it works on several.
        job: which.
        began_at: seconds UTC; None: it waits as well.
        copy: that the root is compared with.
    """

    root: bytes
    job: str
    began_at: int | None
    copy: str = ""


@dataclass(frozen=True, slots=True)
class NextRun:
    """When the schedule does something next: seconds UTC."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class WatchState:
    """How well a root's changes are noticed as they happen. ``blind``: what is not seen and why, for people."""

    root: bytes
    folders: int
    blind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyWait:
    """A copy that is to be compared, and why that has not begun, for people."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DaemonState:
    """What the daemon is doing and is about to do. ``trouble``: why its last job could not be recorded."""

    pid: int
    started_at: int
    version: str
    busy: tuple[BusyRoot, ...] = ()
    queued: tuple[QueuedJob, ...] = ()
    next_runs: tuple[NextRun, ...] = ()
    watch: tuple[WatchState, ...] = ()
    copies: tuple[CopyWait, ...] = ()
    trouble: str = ""
