"""How jobs are to be done, and how far."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """
    How to scan.

    Args:
        full: read files whose witness is unchanged, too.
        touched_bytes: read up to so much of the files of which nothing but ctime or inode moved, too. A scrub would do
            it later; who is about to copy the tree can't wait for that.
    """

    full: bool = False
    touched_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ScrubOptions:
    """
    What to scrub and how far.

    Args:
        due: only what the promise asks for now.
        new: only what was recorded and never re-read.
        older_than_s: only what was not verified for so long.
        percent: so much of the recorded bytes, stalest first.
        due_within_s: what falls due within so long, and first.
        at_least_bytes: more than what is due, stalest first, until it is so much; everything if that is not given.
        time_limit_s: stop after so long.
        byte_limit: stop after so many bytes.
        rate: bytes a second at most.
        deep: compare the MD5 of whole files as well.
        scan_first: record new names before.
        scan_missing: scan at the end if recorded files were not found, to learn whether they were moved or deleted;
            without it the run is incomplete.
        large_bytes: larger files have half of a limited scrub, and what the others leave. One that is begun too late is
            read on by the next scrub, so it must be worth a checkpoint.
    """

    due: bool = False
    new: bool = False
    older_than_s: int | None = None
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
        """Say whether all that is recorded is to be read."""
        is_part = self.older_than_s is not None or self.percent is not None or self.at_least_bytes is not None
        return not (self.due or self.new or is_part)


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """
    What to compare with and how far.

    Args:
        copy: a name from the configuration, a path, or a URL.
        read: have the copy's bytes read back, also where it publishes digests.
        read_percent: have so much of them read back, what was not read for longest first.
        endpoint: the address of an S3 server that is not Amazon's.
        time_limit_s: stop after so long.
        byte_limit: stop after so many bytes.
        rate: bytes a second at most.
        scan_first: bring the catalog up to date before.
        after: leave out what was compared in a later second than this, in its present version: what was interrupted
            goes on. What was compared within that second may be of the comparison before.
    """

    copy: str
    read: bool = False
    read_percent: float | None = None
    endpoint: str | None = None
    time_limit_s: float | None = None
    byte_limit: int | None = None
    rate: int | None = None
    scan_first: bool = True
    after: int | None = None
