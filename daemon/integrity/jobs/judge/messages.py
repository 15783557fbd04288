"""
What findings and notes say, in words for their reader: what it is, and why it is thought so.

What to do next is said by whoever shows a finding, with commands that fit the place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from integrity.errors import Leased, Unstable
from integrity.files.mirrors import Mirror
from integrity.model import ByteRange, Certainty, FindingKind
from integrity.verdict import Judgement, Verdict

if TYPE_CHECKING:
    from integrity.catalog.runs import Interruption
    from integrity.errors import ReadError

_ROT = {
    Certainty.PROVEN: "the bytes on the disk changed though nobody wrote to the file: bit rot",
    Certainty.INODE_MOVED: (
        "another file stands under this name, with the size and the times of the recorded one and with content that is"
        " recorded nowhere: bit rot, or a file that was moved here from outside of what is recorded"
    ),
    Certainty.NO_INODE: (
        "the bytes changed under unchanged times; this file system does not show whether another file was moved here,"
        " so it is bit rot, or a file with the same times that took the place of the recorded one"
    ),
    Certainty.NO_CTIME: (
        "the bytes changed under an unchanged time of modification; this file system does not show whether somebody"
        " wrote, so it is bit rot or a program that put the time back, or wrote to a mapping of the file"
    ),
    Certainty.CTIME_MOVED: "the bytes changed, and the inode was touched since",
}


def describe(judgement: Judgement, kind: FindingKind, interruption: Interruption | None = None) -> str:
    """Say what a judged file's finding means; ``interruption``: what may have been a crash since it was intact."""
    text = _describe(judgement, kind, interruption)
    if judgement.may_be_misrecorded:
        text += (
            "; or it was recorded wrongly from memory, for what is recorded was never verified by reading the file from"
            " the disk once more"
        )
    return text


def _describe(judgement: Judgement, kind: FindingKind, interruption: Interruption | None) -> str:
    if judgement.verdict is Verdict.ROT:
        assert judgement.certainty is not None
        text = _after_crash(interruption) if judgement.certainty is Certainty.AFTER_CRASH else _ROT[judgement.certainty]
        if judgement.is_structural:
            text += "; its size changed as well"
        if judgement.is_odd and judgement.certainty is not Certainty.INODE_MOVED:
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


def _after_crash(interruption: Interruption | None) -> str:
    assert interruption is not None
    if interruption.is_of_machine:
        return (
            "the bytes changed under unchanged times; the machine has been restarted since they were last right, and it"
            " is not known that it was shut down cleanly: a power cut can leave new content under old times, or it is"
            " bit rot"
        )
    seen_at = datetime.fromtimestamp(interruption.seen_at or 0, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        "the bytes changed under unchanged times; since they were last right the disk was mounted again (first seen"
        f" {seen_at}), and it is not known that it was unmounted cleanly: a disk that loses power or is unplugged can"
        " keep new content under old times, or it is bit rot"
    )


_OTHERS = {
    FindingKind.CHANGED: "the content was changed, in an archive",
    FindingKind.ROLLED_BACK: "an older version was put here, in an archive",
    FindingKind.SHRUNK: "what was recorded of this growing file is not its beginning any more",
    FindingKind.MISSING: "the file is gone, from an archive",
}


def linked(other: str, message: str) -> str:
    """Say that a new name leads to a file about which a finding is open."""
    return f"this is another name of {other}, about which a finding is open: {message}"


def copied(other: str, message: str) -> str:
    """Say that a file holds what is known to be the damaged content of another one."""
    return f"this is a copy of {other}, made when that was damaged already: {message}"


def renamed(other: str, message: str) -> str:
    """Say that a file with an open finding was renamed over another one, and written to."""
    return f"this file was {other} when this was found, and was written to since: {message}"


def restored(recorded_at: int) -> str:
    """Say that a file came back with its old size and time, and with other content."""
    date = time.strftime("%Y-%m-%d", time.gmtime(recorded_at))
    return (
        f"the file was deleted and then restored with the size and time of modification that were recorded on {date},"
        " but with other content: the copy that it was restored from is damaged, or a program put the time back"
    )


def missing(instead: str) -> str:
    """Say that a file of an archive is gone, and what stands in its place."""
    return _OTHERS[FindingKind.MISSING] + instead


def missing_here() -> str:
    """Say that a recorded file was not in the folder that its root was rebound to."""
    return (
        "the file is recorded, but was not here when the root was moved to this place: it was not copied, or was"
        " deleted before. Its record is kept until the file is here or you agree that it is gone"
    )


def vanished(command: str) -> str:
    """Say that a recorded file was not found, and how to find out why."""
    return f"is recorded and was not found; to find out whether it was moved or deleted: {command}"


def displaced(command: str, error: ReadError | None) -> str:
    """Say that another file has the name of a recorded one, readable or not, and how to find out what became of it."""
    other = "another file" if error is None else f"another file, which can't be read ({error}),"
    return f"{other} stands under this name; to find out what became of the recorded one: {command}"


def of_newer_content(text: str) -> str:
    """Say that what is found is about content that is newer than the baseline, and waits for a decision."""
    return f"newer content of this file, not accepted yet when this was found: {text}"


def mend_newer_content() -> str:
    """Say what to do about damage of content that is newer than the baseline: no copy of the baseline mends it."""
    return (
        "write the file again from where its newer content came from; a copy of its former content would undo the"
        " change"
    )


def transient(*, is_unsteady: bool) -> str:
    """Say that the disk was right and the way from it was not."""
    if is_unsteady:
        return "every reading gave other bytes: the disk, its cable, the controller or the memory is failing"
    return "one reading was wrong and a later one right: not what is on the disk, but memory, cable or controller"


def on_mirror(mirror: Mirror, bad_devices: Sequence[str], *, is_one_copy: bool) -> str:
    """
    Say what a mirror below the file system means for damage that was found, and how to have its copies compared.

    Args:
        mirror: that the file lies on.
        bad_devices: that hold wrong bytes; empty where they could not be read one by one.
        is_one_copy: a reading of the same bytes was right, so another copy is.
    """
    text = f". The file lies on a mirror ({mirror.name}, {mirror.kind}, {mirror.copies} copies)"
    if bad_devices:
        text += f": the copy on {' and the one on '.join(bad_devices)} is damaged"
        text += ", another one is right" if is_one_copy else ""
    elif is_one_copy:
        text += ": one reading was wrong and another right, so one of the copies is damaged; reading each of them takes"
        text += " a scrub as root while the service is stopped"
    return f"{text}. The mirror compares its copies with: {mirror.check}"


def one_good_copy(mirror: Mirror) -> str:
    """Say why a good reading does not end a finding on a file."""
    return (
        f"was read well this time, but it lies on a mirror ({mirror.name}) and another copy may still be damaged. Write"
        " the file anew (repair it, or restore it), or scrub it as root while the service is stopped, which reads every"
        " copy"
    )


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


def unstable(error: Unstable | None = None) -> str:
    """Say why a file had no content to be judged; None: it was replaced, or its record was, each time."""
    if isinstance(error, Leased):
        return "a program has it open under a lease (as Samba does for its clients) and did not let go of it: not read"
    return "changed whenever it was read, so nothing can be said of it"


def suspended(reason: str) -> str:
    """Say why a root is not worked on."""
    return f"{reason}. Nothing is taken out of the catalog"


def never_there(reason: str) -> str:
    """Say why nothing of a configured root is recorded."""
    return f"{reason}. Nothing of it is recorded or verified"


def ransomware(signs: Iterable[str]) -> str:
    """Say what changes have in common that hardly has another explanation."""
    return f"this looks like ransomware: {'; '.join(signs)}"


def mass_change(changed: int, removed: int, looked_at: int, earlier: int, why: str | None) -> str:
    """
    Say that more changed or went than is usual, so it was not taken over.

    Args:
        changed: files that are held back for that.
        removed: files that are gone and held back.
        looked_at: files that both are a part of: those that were recorded when the first of them were noticed.
        earlier: files that changed or went in the day before, which were taken over and weighed with these.
        why: what speaks against it besides the number.
    """
    within = f", together with {earlier} earlier ones within a day," if earlier else ""
    reason = f"too many at once{within} to believe that it was meant" if why is None else f"{why}{within.rstrip(',')}"
    return (
        f"{changed} files changed and {removed} are gone, of {looked_at}: {reason}. Their records are kept as they were"
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
