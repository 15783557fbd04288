"""
May a file be touched? Only if it is what was judged: whatever somebody wrote since is not to be lost.

Pure, but for the records that it is given. The invariant: a file is replaced only while a finding says that it is not
what it should be, and nothing about it moved since that was said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from integrity.jobs.repair.inspect import describe_move
from integrity.model import CONTENT_FINDINGS, Finding, FindingKind
from integrity.verdict import Shift, compare_witness

if TYPE_CHECKING:
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.repair.inspect import Look
    from integrity.model import Capability, Witness

CONTESTED = frozenset({FindingKind.CHANGED, FindingKind.SHRUNK, FindingKind.ROLLED_BACK})
"""Findings about what somebody did, who may have meant it: such a file is only repaired if it is named itself."""

NEWER = (
    "somebody wrote to it after it had been judged, and may have meant it: to keep what is in it now:"
    " integrity accept FILE --reason WHY; to have the recorded bytes put back over that, name the file itself"
)
"""Why a damaged file is left alone that an honest change was seen of since, unless it is named itself."""


def find_refusal(
    capability: Capability,
    record: FileRecord,
    look: Look,
    open_findings: Sequence[Finding],
    candidate: CandidateRecord | None,
) -> str | None:
    """
    Say why a file that is not what was recorded must be left as it is; None if it may be repaired.

    Args:
        capability: of its file system.
        record: its record.
        look: what it is now.
        open_findings: on it.
        candidate: newer content of it that waits for a decision.
    """
    judged = [one for one in open_findings if one.kind in CONTENT_FINDINGS]
    if not judged:
        return (
            "it is not what was recorded, but no finding says whether it was damaged or changed; have it judged first:"
            " integrity scrub FILE"
        )
    seen = look.witness
    if candidate is not None and candidate.witness is not None:
        if candidate.witness.stamps == seen.stamps:
            return None
        return _say_moved(candidate.witness, seen)
    shift = compare_witness(capability, record.witness, seen)
    if shift.is_nothing:
        return None
    is_ctime_trusted = capability.has_ctime and shift.is_ctime_equal
    if shift.mtime is not Shift.EQUAL and not is_ctime_trusted:
        return _say_moved(record.witness, seen)
    judged_at = max(one.updated_at for one in judged)
    if capability.has_ctime and seen.ctime_ns >= judged_at * 10**9:
        return _say_moved(record.witness, seen)
    return None


def _say_moved(before: Witness, after: Witness) -> str:
    return (
        f"{describe_move(before, after)} since it was judged, so what is in it now may be meant; have it judged again:"
        " integrity scrub FILE; and if it is right as it is: integrity accept FILE --reason WHY"
    )
