"""Handle recorded files without a verdict: missing, unreadable or unstable ones, and records in contradiction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import baselines, files, versions
from integrity.catalog.rows import get_last_check, is_current, require_current
from integrity.errors import (
    DeviceFailing,
    DeviceStalled,
    ReadError,
    ReadInterrupted,
    RecordSuperseded,
    Unreadable,
    Unstable,
)
from integrity.jobs import messages
from integrity.jobs.judge.inodes import leads_to
from integrity.jobs.presence import describe_instead
from integrity.jobs.report import NoteKind
from integrity.model import BaselineReason, FindingKind, Policy, Tally
from integrity.same_time import is_unwritten

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.jobs.judge.account import Account
    from integrity.jobs.judge.evidence import Evidence


class Failures:
    """Count such files and open their findings."""

    def __init__(self, run: RootRun, account: Account, evidence: Evidence) -> None:
        self._run = run
        self._account = account
        self._evidence = evidence

    def report_damaged_record(self, record: FileRecord) -> None:
        """Report a record that contradicts itself or lacks blocks; its file is not judged."""
        try:
            with self._run.writing() as connection:
                text = messages.CATALOG_DAMAGED
                self._run.open_finding(connection, FindingKind.CATALOG_DAMAGED, text, record=record)
        except RecordSuperseded:
            self._account.queue_reread(record)
        else:
            self._account.count(record.id, Tally.SKIPPED)

    def count_missing(self, connection: Connection, record: FileRecord) -> bool:
        """
        Count a missing recorded file. In archives, or if a finding is open already, open or repeat the finding.

        Returns:
            Whether there is a finding. If not, a scan may remove the file from the catalog.
        """
        run = self._run
        self._account.count(record.id, Tally.MISSING)
        if run.settings.policy is Policy.ARCHIVE:
            text = messages.missing(describe_instead(run.root_fd, record.path))
            run.open_finding(connection, FindingKind.MISSING, text, record=record)
            return True
        if record.path in self._account.missing_paths:
            run.report_open_findings(connection, record.path)
            return True
        return False

    def count_failed(self, record: FileRecord, error: ReadError) -> None:
        """Count and report a recorded file that could not be read; its baseline stays."""
        if isinstance(error, ReadInterrupted):
            self._account.count(record.id, Tally.NOT_DUE)
        elif isinstance(error, DeviceFailing | DeviceStalled):
            self.report_device(error)
            self._account.count(record.id, Tally.SKIPPED)
        elif self._is_replaced(record, error):
            self._account.queue_reread(record)
        else:
            try:
                self.report_unreadable(record.path, error, self._adopt_renamed_baseline(record, error))
            except RecordSuperseded:
                self._account.queue_reread(record)
            else:
                self._account.count(record.id, Tally.UNREADABLE)

    def _is_replaced(self, record: FileRecord, error: ReadError) -> bool:
        """Return whether the unreadable file is neither the recorded one nor the one that has the name now."""
        seen = error.witness if isinstance(error, Unreadable) else None
        if seen is None:
            return False
        if self._run.capability.has_stable_inodes:
            is_recorded = seen.inode in (record.witness.inode, record.last_inode)
        else:
            is_recorded = is_unwritten(record.witness, seen)
        return not is_recorded and not leads_to(self._run.root_fd, record.path, seen)

    def find_renamed(self, record: FileRecord, error: ReadError) -> FileRecord | None:
        """Return the record of the unreadable file if it is another recorded file that was renamed here."""
        if not isinstance(error, Unreadable) or error.witness is None:
            return None
        with self._run.catalog.read() as connection:
            return self._evidence.find_another(connection, record, error.witness)

    def _adopt_renamed_baseline(self, record: FileRecord, error: ReadError) -> FileRecord:
        """
        Give a name the baseline of the recorded but unreadable file that was renamed over it.

        Returns:
            The record to report: the new one, or ``record`` if the baseline can't be replaced.

        Raises:
            RecordSuperseded: the record was replaced meanwhile.
        """
        run, renamed = self._run, self.find_renamed(record, error)
        keeps_baseline = record.is_frozen or run.settings.policy is Policy.ARCHIVE  # R6
        if renamed is None or keeps_baseline:
            return record
        with run.writing() as connection:
            require_current(connection, record)
            right = versions.load_version(connection, renamed, renamed.witness)
            if right is None:
                return record
            baselines.replace_baseline(
                *(connection, run.root, record.id, right),
                because=BaselineReason.MOVED,
                now=run.now(),
                boot_id=renamed.boot_id,
            )
            return files.get_file(connection, record.id)

    def report_unreadable(self, path: bytes, error: ReadError, record: FileRecord | None) -> None:
        """
        Open the finding about an unreadable file; ``record``: None if it is not recorded.

        Raises:
            RecordSuperseded: the record was replaced meanwhile.
        """
        ranges = error.ranges if isinstance(error, Unreadable) else ()
        text = messages.unreadable(str(error), ranges, is_recorded=record is not None)
        with self._run.writing() as connection:
            self._run.open_finding(connection, FindingKind.UNREADABLE, text, path=path, record=record, ranges=ranges)
        self._account.open_paths.add(path)

    def report_device(self, error: ReadError) -> None:
        """Open the finding about a device that fails or hangs."""
        kind = FindingKind.DEVICE_STALLED if isinstance(error, DeviceStalled) else FindingKind.DEVICE_FAILING
        with self._run.writing() as connection:
            self._run.note_device(connection, kind)

    def count_unstable(self, record: FileRecord, error: Unstable | None = None) -> None:
        """Count a file that kept changing, neither good nor bad (R1); open a finding if its verification is overdue."""
        run, text = self._run, messages.unstable(error)
        run.is_incomplete = True
        run.note(NoteKind.UNSTABLE, record.path, text)
        self._account.count(record.id, Tally.UNSTABLE)
        if run.now() - get_last_check(record.verified_at, record.recorded_at, run.now()) > run.settings.verify_every_s:
            with run.writing() as connection:
                if is_current(connection, record):
                    run.open_finding(connection, FindingKind.UNSTABLE, text, record=record)
