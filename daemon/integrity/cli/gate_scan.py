"""The scan before the gate's verdict: by the daemon or here, and after other jobs on the same folders."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.console import ConsoleReport
from integrity.cli.daemon_client import find_daemon, find_service, follow
from integrity.cli.session import Session
from integrity.errors import CatalogError, CatalogLocked, show_path
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Note, NoteKind, Summary
from integrity.jobs.runner import make_context
from integrity.model import Finding, Job, Outcome
from integrity.service.control.requests import JobRequest, interrupted, nothing_done, run_request
from integrity.units import format_duration

if TYPE_CHECKING:
    from integrity.jobs.report import Stop
    from integrity.service.control.client import DaemonClient


_BETWEEN_S = 0.5  # between two tries of a folder that another job works on
_GLANCE_S = 5.0

_TOUCHED_BYTES = 256 << 20
"""
Read of files whose ctime alone moved: ransomware that puts the times back leaves no other trace, and neither does a
``chown -R``, which must not cost hours. Two seconds of a disk; what is left over is looked into by samples.
"""

_TOLD = frozenset({NoteKind.WARNING, NoteKind.UNSTABLE})


class ScanReport(ConsoleReport):
    """What the scan tells that the verdict will not: findings come with that, from the catalog."""

    def finding(self, finding: Finding) -> None:
        """Leave it to the verdict."""

    def note(self, note: Note) -> None:
        """Keep what explains a gap; the rest with ``-v`` only, for a hook's output is read by nobody."""
        if self._output.verbosity or note.kind in _TOLD:
            super().note(note)


class _ScanWait:
    """How long others have been waited for."""

    def __init__(self, session: Session, patience_s: int) -> None:
        self._session = session
        self._patience_s = patience_s
        self._until = time.monotonic() + patience_s
        self._look_at = time.monotonic()
        self._is_told = False

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until

    def tell(self, error: CatalogLocked) -> None:
        if not self._is_told and not self._session.output.is_quiet:
            self._session.output.warn(f"{error}; the gate waits for it, {format_duration(self._patience_s)} at most")
        self._is_told = True

    def find_delay(self, paths: Sequence[bytes]) -> CatalogError | None:
        """Say that the daemon has not begun in time; it is asked what it does, for a job may tell nothing for long."""
        if not self.is_over or time.monotonic() < self._look_at:
            return None
        self._look_at = time.monotonic() + _GLANCE_S
        state = find_service(self._session).state
        mine = {b"", *paths}
        if state is None or not any(one.job == Job.SCAN.value and one.root in mine for one in state.queued):
            return None
        busy = ", ".join(f"a {one.job} of {show_path(one.root)}" for one in state.busy) or "other jobs"
        return CatalogLocked(
            f"the service (process {state.pid}) is still at {busy}, after {format_duration(self._patience_s)}; try"
            " again when that has ended, or give --wait DURATION"
        )


def scan_first(
    session: Session, paths: Sequence[bytes], report: ConsoleReport, stop: Stop, *, patience_s: int
) -> Summary:
    """
    Bring the catalog up to date.

    Args:
        paths: real ones.

    Returns:
        What the scan covered: nothing, if there was nothing to look at, or the user had no more patience.

    Raises:
        CatalogLocked: another job was longer at it.
    """
    if not paths:
        nothing = nothing_done(Job.SCAN, int(time.time()))
        return nothing._replace(outcome=Outcome.INCOMPLETE, is_incomplete=True)
    waiting = _ScanWait(session, patience_s)
    while True:
        try:
            return _scan(session, paths, report, stop, lambda: waiting.find_delay(paths))
        except CatalogLocked as error:
            if stop.is_set():
                return interrupted(Job.SCAN, int(time.time()))
            if waiting.is_over:
                raise
            waiting.tell(error)
        stop.wait(_BETWEEN_S)


def _scan(
    session: Session,
    paths: Sequence[bytes],
    report: ConsoleReport,
    stop: Stop,
    find_delay: Callable[[], CatalogError | None],
) -> Summary:
    request = JobRequest(Job.SCAN, tuple(paths), scan=ScanOptions(touched_bytes=_TOUCHED_BYTES))
    daemon = find_daemon(session, paths)
    if daemon is not None:
        with daemon:
            _require_catalog(session, daemon)
            return follow(daemon, request, report, stop, output=session.output, find_delay=find_delay)
    with session.open_for_job(paths) as catalog:
        return run_request(make_context(catalog, session.config, report, jobs=None, stop=stop), request)


def _require_catalog(session: Session, daemon: DaemonClient) -> None:
    """Refuse a catalog that only the service may open: what it says, and where the gate was passed, stands there."""
    if daemon.catalog != os.path.realpath(session.catalog_path):
        raise CatalogError(
            f"{show_path(daemon.catalog)}: the service's catalog, which the gate reads and writes itself; run it as"
            f" the backup is run: {program.sudo_command('gate ...', is_default=True)}"
        )
