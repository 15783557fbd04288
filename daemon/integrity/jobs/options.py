"""Options of jobs: what to do and how far."""

from __future__ import annotations

from typing import NamedTuple


class ScanOptions(NamedTuple):
    """
    How to scan.

    Args:
        full: also read files with an unchanged witness.
        touched_bytes: also read up to this many bytes of files of which only ctime or inode changed. A scrub would read
            them later, which is too late before a backup.
    """

    full: bool = False
    touched_bytes: int = 0


class ScrubOptions(NamedTuple):
    """
    What to scrub and how far.

    Args:
        due: only what ``verify_every`` requires now.
        new: only what was recorded and never re-read.
        older_than_s: only what was last verified longer ago than this.
        touched: besides, what was replaced or touched and not read since, unless that is much; ``due`` has it, too.
        percent: this share of the recorded bytes, stalest first.
        due_within_s: what becomes due within this time comes first.
        at_least_bytes: after the due files, read the stalest ones up to this total; None: everything.
        time_limit_s: stop after this time.
        byte_limit: stop after this many bytes.
        rate: maximum bytes per second.
        deep: compare the MD5 of whole files as well.
        scan_first: first record new names.
        scan_missing: if recorded files were not found, scan at the end to learn whether they were moved or deleted;
            otherwise the run is incomplete.
        large_bytes: larger files get half of a limited scrub, and what the others leave. The next scrub resumes a file
            that was begun too late, so it must be worth a checkpoint.
    """

    due: bool = False
    new: bool = False
    older_than_s: int | None = None
    touched: bool = False
    percent: float | None = None
    due_within_s: int = 0
    at_least_bytes: int | None = None
    time_limit_s: float | None = None
    byte_limit: int | None = None
    rate: int | None = None
    deep: bool = False
    scan_first: bool = True
    scan_missing: bool = True
    large_bytes: int = 4 << 30

    @property
    def is_everything(self) -> bool:
        """Whether all recorded files are read."""
        is_part = self.older_than_s is not None or self.percent is not None or self.at_least_bytes is not None
        return not (self.due or self.new or is_part)


class CompareOptions(NamedTuple):
    """
    What to compare with and how far.

    Args:
        copy: a name from the configuration, a path, or a URL.
        read: read the copy back even if it publishes digests, and the files here as well.
        cached: read data from memory where it is cached, on both sides.
        read_percent: read back this share, what was not read for longest first.
        endpoint: the address of an S3 server other than Amazon's.
        algorithm: name of the only one to read from a manifest; None for all.
        time_limit_s: stop after this time.
        byte_limit: stop after this many bytes.
        rate: maximum bytes per second.
        scan_first: first bring the catalog up to date.
        after: to resume an interrupted comparison, skip files whose present version was compared in a later second than
            this. Within that second they may belong to the comparison before.
    """

    copy: str
    read: bool = False
    cached: bool = False
    read_percent: float | None = None
    endpoint: str | None = None
    algorithm: str | None = None
    time_limit_s: float | None = None
    byte_limit: int | None = None
    rate: int | None = None
    scan_first: bool = True
    after: int | None = None
