"""
Test new and changed files by the checks that their formats carry, and open findings about those that fail.

I1  A result is about the recorded content: a file that is not as recorded has none, and a scan or scrub says so.
I2  A finding of this kind holds no record back, and accepting the file ends it for as long as the content stays.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from integrity.catalog import copies, findings
from integrity.catalog.own_checks import find_unchecked, save_own_checks
from integrity.errors import ReadError
from integrity.files.open_beneath import open_noatime
from integrity.files.stamps import witness_of
from integrity.inspect.formats import FORMATS
from integrity.inspect.inspector import Inspector
from integrity.inspect.outcome import CheckResult, OwnCheck
from integrity.jobs import messages
from integrity.model import FileId, FindingKind
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.hashing.tasks import StopSignal
    from integrity.jobs.context import RootRun

_PAGE = 100


def check_new_files(run: RootRun, limit: StopSignal) -> None:
    """Test the files below the run's prefix whose content was not tested since it was recorded."""
    NewFileChecks(run, limit).run()


class NewFileChecks:
    """One pass over a root's untested files."""

    def __init__(self, run: RootRun, limit: StopSignal) -> None:
        self._run, self._limit = run, limit
        self._files = self._bytes = 0
        self._inspector = Inspector(self._must_stop, run.pace)

    def run(self) -> None:
        """Test until nothing is left, or the limit is reached; results are kept page by page."""
        run, after = self._run, FileId(0)
        has_libraries = all(one.is_here for one in FORMATS)
        with self._inspector:
            while not self._limit.is_set():
                with run.catalog.read() as connection:
                    page = find_unchecked(
                        *(connection, run.root.id, run.prefix, after), limit=_PAGE, has_libraries=has_libraries
                    )
                if not page:
                    return
                after = page[-1][0].id
                found = [(record, before, self._check(record)) for record, before in page if not self._limit.is_set()]
                with run.writing() as connection:
                    for record, before, one in found:
                        if one is not None:
                            save_own_checks(connection, [(record, one.result)])
                            self._record(connection, record, before, one)

    def _must_stop(self) -> bool:
        self._run.progress("inspect", self._files, self._bytes, files=None, size=None)
        return self._run.context.stop.is_set()

    def _check(self, record: FileRecord) -> OwnCheck | None:
        """Test one file; None if it can't be read, or is not as recorded (I1)."""
        run = self._run
        self._must_stop()
        try:
            fd = open_noatime(run.root_fd, record.path, os.O_RDONLY)
        except OSError:
            return None
        try:
            if witness_of(os.fstat(fd)).stamps != record.witness.stamps:
                return None
            found = self._inspector.inspect(fd, absolute(run.root.path, record.path))
        except ReadError:
            return None
        finally:
            os.close(fd)
        if found.result is not CheckResult.UNKNOWN:
            self._bytes += record.witness.size_bytes
        self._files += 1
        return found

    def _record(self, connection: Connection, record: FileRecord, before: CheckResult | None, found: OwnCheck) -> None:
        run = self._run
        if found.result is not CheckResult.FAILS:
            ended = findings.resolve_findings(
                connection,
                file_id=record.id,
                kinds={FindingKind.INVALID},
                resolution=messages.OWN_CHECK_PASSED,
                now=run.now(),
            )
            run.note_resolved(ended)
            return
        states = copies.states_of_file(connection, record.id)
        votes = [(copy.name, state.vote) for copy, state in states if state.version == record.version]
        text = messages.own_check_failed(found, record.version, record.recorded_at, before, votes)
        run.open_finding(connection, FindingKind.INVALID, text, record=record)
