"""What findings and notes say, in words for their reader: what, why it is thought so, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from integrity.jobs.targets import show
from integrity.model import ByteRange, Certainty, FindingKind
from integrity.verdict import Judgement, Verdict

_ROT = {
    Certainty.PROVEN: "the bytes on the disk changed though nobody wrote to the file: bit rot",
    Certainty.AFTER_CRASH: (
        "the bytes changed under unchanged times; the machine has been restarted since they were last right, and it is"
        " not known that it was shut down cleanly: a power cut can leave new content under old times, or this is bit rot"
    ),
    Certainty.NO_CTIME: (
        "the bytes changed under an unchanged time of modification; this file system does not show whether somebody"
        " wrote, so it is bit rot or a program that put the time back"
    ),
    Certainty.CTIME_MOVED: "the bytes changed, and the inode was touched since",
}
_NEXT_RESTORE = "restore it from a backup, or keep it as it is with: integrity accept"


def describe(judgement: Judgement, kind: FindingKind) -> str:
    """Say what a judged file's finding means and what to do next."""
    if judgement.verdict is Verdict.ROT:
        assert judgement.certainty is not None
        text = _ROT[judgement.certainty]
        if judgement.is_structural:
            text += "; its size changed as well"
        if judgement.is_odd:
            text += "; its times or inode contradict each other, which is odd"
        return f"{text}. {_NEXT_RESTORE}"
    if judgement.verdict is Verdict.SILENT_REWRITE:
        cause = (
            "another file stands here under the same time of modification: rewritten by a program that put the time back"
            if judgement.is_odd
            else "damaged, or rewritten by a program that put the time of modification back"
        )
        return f"the bytes changed, the time of modification did not, the inode was touched: {cause}. {_NEXT_RESTORE}"
    return _OTHERS[kind]


_OTHERS = {
    FindingKind.CHANGED: f"the content was changed, in an archive. {_NEXT_RESTORE}",
    FindingKind.ROLLED_BACK: f"an older version was put here, in an archive. {_NEXT_RESTORE}",
    FindingKind.SHRUNK: f"what was recorded of this growing file is not its beginning any more. {_NEXT_RESTORE}",
    FindingKind.MISSING: (
        "the file is gone from an archive. Restore it from a backup, or agree with: integrity accept --deletions"
    ),
}


def missing() -> str:
    """Say that a file of an archive is gone."""
    return _OTHERS[FindingKind.MISSING]


def transient(*, is_unsteady: bool) -> str:
    """Say that the disk was right and the way from it was not."""
    if is_unsteady:
        return (
            "every reading gave other bytes: the disk, its cable, the controller or the memory is failing."
            " Test the memory, change the cable, look at the disk's SMART values, then scrub again"
        )
    return (
        "one reading was wrong and a later one right: not the disk, but memory, cable or controller."
        " Test the memory and change the cable, then scrub again"
    )


def catalog_damaged() -> str:
    """Say that the record, not the file, is wrong."""
    return (
        "the catalog's record of this file is damaged; the file itself is not known to be. Look with: integrity catalog"
        " check; then bring back a good one with: integrity catalog restore"
    )


def rows_lost(expected: int, actual: int) -> str:
    """Say that the catalog lost rows, so unknown names can't be told from lost ones."""
    return (
        f"the catalog holds {actual} files of this root and should hold {expected}: rows were lost or added behind its"
        " back. Names that it does not know are left alone until it is mended: integrity catalog restore, or, to take"
        " it as it is, integrity catalog reseal"
    )


def unreadable(reason: str, ranges: Sequence[ByteRange]) -> str:
    """Say what could not be read."""
    if not ranges:
        return f"can't be read: {reason}. Its record is kept; check permissions and the disk, then scrub again"
    size = sum(length for _, length in ranges)
    return (
        f"{size} bytes in {len(ranges)} places can't be read: {reason}. Its record is kept; back up what still reads,"
        " look at the disk's SMART values, restore the file from a backup"
    )


def unstable() -> str:
    """Say that a file never held still."""
    return (
        "changed whenever it was read, so nothing can be said of it. Scrub when the program that writes it is stopped"
    )


def suspended(reason: str, root: bytes) -> str:
    """Say why a root is not worked on."""
    return (
        f"{reason}. Nothing is taken out of the catalog. Mount the right disk and run again; if this is meant to be so:"
        f" integrity root release {show(root)} (or root rebind, for a new disk)"
    )


def mass_change(changed: int, removed: int, looked_at: int, root: bytes) -> str:
    """Say that more changed or went than is usual, so it was not taken over."""
    return (
        f"{changed} files changed and {removed} are gone, of {looked_at}: too many at once to believe that it was meant."
        " Their records are kept as they were. If it was meant:"
        f" integrity accept {show(root)} --changes (or --deletions)"
    )


def device_failing(errors: int) -> str:
    """Say that a device is left alone."""
    return (
        f"{errors} read errors or more: the device is left alone, so that it lives long enough to be backed up. Copy off"
        " what still reads, replace the disk, then run again"
    )


def device_stalled() -> str:
    """Say that a device does not answer."""
    return "a read did not come back: the device hangs. Look at its cables and at dmesg, then run again"
