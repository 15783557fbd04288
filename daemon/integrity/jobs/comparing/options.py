"""How to compare."""

from __future__ import annotations

from dataclasses import dataclass


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
