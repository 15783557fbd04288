"""
Count by which evidence files were compared: that of the copy, and that of the file here.

I1  Each file with a result is counted once for its copy: read, possibly read from memory, or by what the copy states. A
    copy that is missing, unreadable or not comparable is no evidence.
I2  Each file with a result is counted once for this side: read now, or known by its record only.
"""

from __future__ import annotations

from collections.abc import Sequence

from integrity.catalog.rows import FileRecord
from integrity.jobs.batching import IdSet
from integrity.jobs.report import Compared
from integrity.verdict import Level


class EvidenceCount:
    """
    Count the evidence of one comparison.

    Args:
        compared: updated in place.

    Attributes:
        read_here: files that were read here in this comparison.
    """

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self.read_here = IdSet()

    def add_copies(self, level: Level | None, files: int = 1) -> None:
        """Count files whose copies were examined at one level; None: nothing was found out."""
        compared = self._compared
        if level is Level.READ:
            compared.read += files
        elif level is Level.CACHED:
            compared.cached += files
        elif level is Level.PUBLISHED:
            compared.published += files

    def add_files(self, records: Sequence[FileRecord]) -> None:
        """Count files by what is known of them here; of those known by their record, keep the oldest last reading."""
        compared = self._compared
        by_record = [one for one in records if one.id not in self.read_here]
        compared.read_here += len(records) - len(by_record)
        read_at = [one.recorded_at if one.verified_at is None else one.verified_at for one in by_record]
        if compared.oldest_record_at is not None:
            read_at.append(compared.oldest_record_at)
        compared.known_by_record += len(by_record)
        compared.oldest_record_at = min(read_at, default=None)
