"""
What findings and notes say, in words for their reader: what it is, and why it is thought so.

What to do next is said by whoever shows a finding, with commands that fit the place.
"""

from __future__ import annotations

from collections.abc import Sequence

from integrity.model import ByteRange, Certainty, FindingKind
from integrity.verdict import Judgement, Verdict

_ROT = {
    Certainty.PROVEN: "the bytes on the disk changed though nobody wrote to the file: bit rot",
    Certainty.AFTER_CRASH: (
        "the bytes changed under unchanged times; the machine has been restarted since they were last right, and it is"
        " not known that it was shut down cleanly: a power cut can leave new content under old times, or it is bit rot"
    ),
    Certainty.NO_CTIME: (
        "the bytes changed under an unchanged time of modification; this file system does not show whether somebody"
        " wrote, so it is bit rot or a program that put the time back, or wrote to a mapping of the file"
    ),
    Certainty.CTIME_MOVED: "the bytes changed, and the inode was touched since",
}


def describe(judgement: Judgement, kind: FindingKind) -> str:
    """Say what a judged file's finding means."""
    if judgement.verdict is Verdict.ROT:
        assert judgement.certainty is not None
        text = _ROT[judgement.certainty]
        if judgement.is_structural:
            text += "; its size changed as well"
        if judgement.is_odd:
            text += "; its times or inode contradict each other, which is odd"
        return text
    if judgement.verdict is Verdict.SILENT_REWRITE:
        cause = (
            "another file stands here under the same time of modification: rewritten by a program that put the time"
            " back, or copied here and damaged on the way"
            if judgement.is_odd
            else "damaged, or rewritten by a program that put the time of modification back"
        )
        return f"the bytes changed, the time of modification did not, the inode was touched: {cause}"
    return _OTHERS[kind]


_OTHERS = {
    FindingKind.CHANGED: "the content was changed, in an archive",
    FindingKind.ROLLED_BACK: "an older version was put here, in an archive",
    FindingKind.SHRUNK: "what was recorded of this growing file is not its beginning any more",
    FindingKind.MISSING: "the file is gone, from an archive",
}


def missing(instead: str) -> str:
    """Say that a file of an archive is gone, and what stands in its place."""
    return _OTHERS[FindingKind.MISSING] + instead


def transient(*, is_unsteady: bool) -> str:
    """Say that the disk was right and the way from it was not."""
    if is_unsteady:
        return "every reading gave other bytes: the disk, its cable, the controller or the memory is failing"
    return "one reading was wrong and a later one right: not what is on the disk, but memory, cable or controller"


def catalog_damaged() -> str:
    """Say that the record, not the file, is wrong."""
    return "the catalog's record of this file is damaged; the file itself is not known to be"


def rows_lost(expected: int, actual: int) -> str:
    """Say that the catalog lost rows, so unknown names can't be told from lost ones."""
    return (
        f"the catalog holds {actual} files of this root and should hold {expected}: rows were lost or added behind its"
        " back. Names that it does not know are left alone until it is mended, or resealed as it is"
    )


def unreadable(reason: str, ranges: Sequence[ByteRange]) -> str:
    """Say what could not be read."""
    if not ranges:
        return f"can't be read: {reason}. Its record is kept"
    size = sum(length for _, length in ranges)
    return f"{size} bytes in {len(ranges)} places can't be read: {reason}. Its record is kept"


def newer_waits() -> str:
    """Say that a file on which a finding is open was written to since."""
    return (
        "was written to after the finding on it: what is said below is of its former content; to keep what is in it"
        " now: integrity accept FILE --reason WHY"
    )


def other_mount() -> str:
    """Say why a part of a root that a person named is not looked at."""
    return (
        "another file system is mounted here, or on the way here, and is no part of the root: to have it covered, set"
        " cross_mounts = true for the [[root]], or mount it elsewhere and scan it there"
    )


def unstable() -> str:
    """Say that a file never held still."""
    return "changed whenever it was read, so nothing can be said of it"


def suspended(reason: str) -> str:
    """Say why a root is not worked on."""
    return f"{reason}. Nothing is taken out of the catalog"


def never_there(reason: str) -> str:
    """Say why nothing of a configured root is recorded."""
    return f"{reason}. Nothing of it is recorded or verified"


def mass_change(changed: int, removed: int, looked_at: int, earlier: int) -> str:
    """
    Say that more changed or went than is usual, so it was not taken over.

    Args:
        changed: files that are held back for that.
        removed: files that are gone and held back.
        looked_at: files that both are a part of.
        earlier: files that changed or went in the day before, which were taken over and weighed with these.
    """
    within = f", together with {earlier} earlier ones within a day," if earlier else ""
    return (
        f"{changed} files changed and {removed} are gone, of {looked_at}: too many at once{within} to believe that it"
        " was meant. Their records are kept as they were"
    )


def device_failing(errors: int) -> str:
    """Say that a device is left alone."""
    return f"{errors} read errors: the device is left alone, so that it lives long enough to be backed up"


def device_stalled() -> str:
    """Say that a device does not answer."""
    return "a read did not come back: the device hangs"


def verified_in_time() -> str:
    """Say that a broken promise is mended."""
    return "everything is verified in time again"
