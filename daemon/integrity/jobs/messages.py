"""
The words of findings, notes, and results: what happened, and why it is thought so.

What to do next stands in ``kinds`` and ``arbitration``, with commands that fit the place. Messages of findings are
whole sentences below a headline; notes follow the name of a file ("FILE: was written to since ...").
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.arbitration import Arbitration, ArbitrationOutcome, CopyVote, CopyWitness, FileState, Level
from integrity.errors import Leased, Unstable, show_path
from integrity.files.mirrors import Mirror
from integrity.inspect.outcome import CheckResult, OwnCheck
from integrity.kinds import KINDS, headline
from integrity.model import ByteRange, Certainty, Finding, FindingKind, SkipReason
from integrity.units import format_size
from integrity.verdict import Judgement, Verdict
from integrity.words.findings import DATA_SHOWS, ORIGINAL_UNCHANGED
from integrity.words.text import utc_time

if TYPE_CHECKING:
    from integrity.catalog.runs import Interruption
    from integrity.copies.protocol import Kind
    from integrity.errors import ReadError

_REASONS_SHOWN = 3

# Damage

_ROT = {
    Certainty.PROVEN: "The data on the disk changed, but nothing wrote to this file.",
    Certainty.INODE_MOVED: (
        "Another file with the recorded size and times stands under this name, and its content is recorded nowhere."
        " Either the file is damaged, or a file from outside the recorded folders was moved here."
    ),
    Certainty.NO_INODE: (
        "The content changed while size and times stayed the same. This file system does not show whether another file"
        " was moved here: either the file is damaged, or another file with the same times replaced it."
    ),
    Certainty.NO_CTIME: (
        "The content changed while the modification time stayed the same. This file system does not show whether a"
        " program wrote to the file: either it is damaged, or a program rewrote it and restored the old time."
    ),
}


def describe(judgement: Judgement, kind: FindingKind, interruption: Interruption | None = None) -> str:
    """Describe a judged file; ``interruption``: a possible crash since the file was last intact."""
    text = _describe(judgement, kind, interruption)
    if judgement.may_be_misrecorded:
        text += (
            " It is also possible that the recorded content was wrong: after it was recorded from memory, the file was"
            " never verified by reading it from the disk."
        )
    return text


def _describe(judgement: Judgement, kind: FindingKind, interruption: Interruption | None) -> str:
    if judgement.verdict is Verdict.ROT:
        assert judgement.certainty is not None
        text = _after_crash(interruption) if judgement.certainty is Certainty.AFTER_CRASH else _ROT[judgement.certainty]
        if judgement.is_structural:
            text += " Its size changed as well."
        if judgement.is_odd and judgement.certainty is not Certainty.INODE_MOVED:
            text += " Its times and inode contradict each other."
        return text
    if judgement.verdict is Verdict.SILENT_REWRITE:
        if judgement.certainty is Certainty.TIMES_MOVED_TOGETHER:
            return (
                "The content changed, and the modification time shows no write: it moved together with the times of"
                " files whose content is unchanged, or it went back when the folder was moved here."
                " Either the file is damaged, or a program rewrote it and set the time."
            )
        if judgement.is_odd:
            return (
                "The content changed, but the modification time did not, and another file now stands under this name."
                " Either a program rewrote the file and restored the old time, or the file was damaged while it was"
                " copied here."
            )
        return (
            "The content changed, but the modification time did not. Either the file is damaged, or a program rewrote"
            " it and restored the old time."
        )
    continued = " It begins with its recorded content, as when an interrupted copy goes on." * judgement.is_continued
    return KINDS[kind].explanation + continued


OWN_CHECK_PASSED = "the file passes its own check now, or can't be tested any more"

_VOTES_SAID = {
    CopyVote.SAME: "the same content",
    CopyVote.DIFFERS: "other content",
    CopyVote.OLDER: "an older version",
    CopyVote.MISSING: "no such file",
}


def own_check_failed(
    found: OwnCheck, version: int, recorded_at: int, before: CheckResult | None, votes: Sequence[tuple[str, CopyVote]]
) -> str:
    """Describe a file that fails the check of its format, which said ``before`` of the version before this one."""
    by = "the checksum inside it" if found.has_checksum else "its structure"
    text = f"By {by} ({found.format}), this file is damaged: {found.reason}."
    when = utc_time(recorded_at)
    if version == 1:
        text += f" It was so when it was first recorded, on {when}: it was damaged before, or was always so."
    elif before in (CheckResult.PASSES, CheckResult.WHOLE):
        text += f" What was recorded before {when} passed: the damage was written then, by a program or a copy."
    else:
        text += f" It is so since this content was recorded, on {when}."
    has = [f"{show_path(os.fsencode(name))} has {_VOTES_SAID[vote]}" for name, vote in votes if vote in _VOTES_SAID]
    return text + (f" The backup {', the backup '.join(has)}." if has else "")


COMPLETED = "was completed: it begins with its recorded content, and has an older time, as a copy gets it at its end"
COMPLETE_COPY = (
    "complete the copy, as by running the same program again; the finding ends when the file has the time of its source"
)


def _after_crash(interruption: Interruption | None) -> str:
    assert interruption is not None
    if interruption.is_of_machine:
        cause = (
            "The machine was restarted since the file was last intact, possibly without a clean shutdown: a power cut"
            " can leave new content under old times."
        )
    else:
        seen_at = datetime.fromtimestamp(interruption.seen_at or 0, UTC).strftime("%Y-%m-%d %H:%M UTC")
        cause = (
            f"The disk was mounted again since the file was last intact (first seen {seen_at}), possibly without a"
            " clean unmount: a disk that loses power or is unplugged can keep new content under old times."
        )
    return f"The content changed while the times stayed the same. {cause} Otherwise it is bit rot."


def linked(other: str, message: str) -> str:
    return f"This is another name of {other}, which has an open finding: {message}"


def copied(other: str, message: str) -> str:
    return f"This is a copy of {other}, made after that file was damaged: {message}"


def renamed(other: str, message: str) -> str:
    return f"This file was {other} when the problem was found, and was written to since: {message}"


def restored(recorded_at: int) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime(recorded_at))
    return (
        f"The file was deleted and restored. Its size and modification time are those recorded on {date}, its content"
        " is not: either the backup that it was restored from is damaged, or a program restored the time."
    )


def of_newer_content(text: str) -> str:
    return f"Newer content of this file, not yet accepted, is affected: {text}"


MEND_NEWER_CONTENT = (
    "write the file again from the source of its newer content; restoring its former content from a backup would undo"
    " the change"
)


def transient(*, is_unsteady: bool) -> str:
    if is_unsteady:
        return "Every read gave different data: the disk, its cable, the controller, or the memory is failing."
    return (
        "One read gave wrong data and a later one was right: the data on the disk is intact; the memory, the cable, or"
        " the controller is at fault."
    )


def seen_in_data(*sentences: str) -> str:
    """Return what the bytes of a file show, as the end of a message; empty if they show nothing."""
    shown = " ".join(one for one in sentences if one)
    return f" {DATA_SHOWS}{shown}" if shown else ""


def on_mirror(mirror: Mirror, bad_devices: Sequence[str], *, is_one_copy: bool) -> str:
    """
    Describe what a mirror below the file system means for damage that was found.

    Args:
        bad_devices: that hold wrong data; empty where they could not be read one by one.
        is_one_copy: one read of the same data was right, so another half of the mirror is.
    """
    text = f" The file is on a mirror ({mirror.name}, {mirror.kind}, {mirror.copies} copies)"
    if bad_devices:
        text += f": the copy on {' and the one on '.join(bad_devices)} is damaged"
        text += ", another one is intact." if is_one_copy else "."
    elif is_one_copy:
        text += ": one read was wrong and another right, so one of its copies is damaged. To have each copy read, scrub"
        text += " the file as root while the service is stopped."
    else:
        text += "."
    return f"{text} To compare the copies: {mirror.check}"


def one_good_copy(mirror: Mirror) -> str:
    return (
        f"was read correctly this time, but is on a mirror ({mirror.name}), where another copy may still be damaged."
        " Rewrite the file (repair or restore it), or scrub it as root while the service is stopped, which reads every"
        " copy"
    )


def unreadable(reason: str, ranges: Sequence[ByteRange], *, is_recorded: bool) -> str:
    record = "Its record is kept." if is_recorded else "It is not recorded yet; the next scan tries again."
    if not ranges:
        return f"The file can't be read: {reason}. {record}"
    size = sum(length for _, length in ranges)
    places = "1 place" if len(ranges) == 1 else f"{len(ranges):,} places"
    return f"{size:,} bytes in {places} can't be read: {reason}. {record}"


def unstable(error: Unstable | None = None) -> str:
    """Explain why a file could not be judged; None: the file or its record was replaced each time."""
    if isinstance(error, Leased):
        return "not read: another program has the file open under a lease (as Samba does) and did not release it"
    return "changed each time it was read, so it could not be verified"


# Missing and moved files


def missing(instead: str) -> str:
    """Describe a file that is gone from an archive; ``instead``: the end of a sentence that says what replaced it."""
    return f"{KINDS[FindingKind.MISSING].explanation.rstrip('.')}{instead}."


MISSING_HERE = (
    "The file is recorded, but was not here when the folder was moved to this place: it was not copied, or it was"
    " deleted before. Its record is kept until the file is here, or you confirm that it is gone."
)


CHANGED_SINCE_MOVE = "was written to after the last scan at the former place, according to its modification time"


KEEPS_NO_TIMES = (
    "keeps no modification times: most of them changed again while the content stayed, as when rsync copies without -t;"
    " from now on a changed file there counts as edited if its size or ctime changed"
)


def vanished(command: str) -> str:
    return f"is recorded and was not found; to find out whether it was moved or deleted: {command}"


def displaced(command: str, error: ReadError | None) -> str:
    other = "another file" if error is None else f"another, unreadable file ({error})"
    return f"{other} has this name now; to find out what became of the recorded one: {command}"


def newer_waits(path: bytes) -> str:
    return (
        "was written to after the problem was found: the finding below is about its former content; to keep the present"
        f" content: {program.command('accept', path, '--reason WHY')}"
    )


# Folders, disks, and the catalog

CATALOG_DAMAGED = "The catalog's record of this file contradicts itself; the file itself may be intact."

OTHER_MOUNT = (
    "another file system is mounted here, or above here, and is not part of the recorded folder: to include it, set"
    " cross_mounts = true for the [[root]], or scan it as a folder of its own"
)


def unshown(count: int) -> str:
    files, them = ("1 recorded file is", "it") if count == 1 else (f"{count:,} recorded files are", "them")
    return (
        f"{files} there, but the listing of the folder does not show {them}; checked all the same. If the folder is not"
        " hidden on purpose, check the file system"
    )


SKIPPED = {
    SkipReason.EXCLUDED: "excluded",
    SkipReason.SPECIAL: "not a regular file (a FIFO, socket, or device)",
    SkipReason.SYMLINK: "a symbolic link",
    SkipReason.MOUNT: "another file system is mounted there",
    SkipReason.CATALOG: "a file of the catalog",
    SkipReason.DEVICE_FAILING: "its disk is failing",
}


def resolved(finding: Finding, resolution: str) -> str:
    return f"finding {finding.id}, {headline(finding.kind, finding.certainty)}, is resolved: {resolution}"


def suspended(reason: str) -> str:
    return f"{reason}. Nothing there is being checked; no records were removed."


def never_there(reason: str) -> str:
    return f"{reason}. Nothing of it is recorded or verified."


def ransomware(signs: Iterable[str]) -> str:
    return f"This looks like ransomware: {'; '.join(signs)}"


def mass_change(changed: int, removed: int, looked_at: int, earlier: int, why: str | None) -> str:
    """
    Describe changes that were held back.

    Args:
        looked_at: recorded files when the first of these was noticed.
        earlier: files that changed or went within the day before, and were taken over.
    """
    within = f" ({earlier:,} more within the day before)" if earlier else ""
    reason = "More than usual; this may be accidental or malicious" if why is None else why
    return (
        f"{changed:,} of {looked_at:,} files changed, and {removed:,} are gone{within}. {reason}. The old records are"
        " kept until you decide."
    )


def lost_storage(before_bytes: int, now_bytes: int) -> str:
    """Return why files that are gone may not have been deleted, as the end of a sentence."""
    before, now = format_size(before_bytes), format_size(now_bytes)
    return (
        f"At the same time, the size of the file system went from {before} to {now}: a disk of the pool may be missing,"
        " with these files"
    )


def device_failing(errors: int) -> str:
    return f"{errors:,} read errors: the disk is left alone, so that it lasts until its files are saved."


def about_device(name: str, remedy: str) -> str:
    """Return what to do about a disk or an array, before the command that prints all of its values."""
    return f"{name}: {remedy}; all that it reports"


DEVICE_STALLED = "A read did not return: the disk does not respond."
DISKS_WELL = "the disks report no problem any more"
DISK_WORSE = "more is reported now: see the newer finding"
VERIFIED_IN_TIME = "everything is verified in time again"

# Backup copies

_LEVELS = {
    Level.PUBLISHED: " (by the checksum it stores)",
    Level.READ: " (its data was read back)",
    Level.CACHED: " (its data was read, possibly from memory)",
    None: "",
}
_ARBITRATIONS = {
    ArbitrationOutcome.COPY_MISSING: "The backup in {copy} does not contain this file.",
    ArbitrationOutcome.COPIED_DAMAGE: "The damage was copied: the backup in {copy} equals the damaged file{how}.",
}


class CopyStory(NamedTuple):
    """
    What people are told of a copy of a file, besides who is right.

    Attributes:
        content_of: path in the root of the file whose content the copy has.
        mtime_ns: of the copy, or of its upload; None if there is none.
        has_times: its times say when its files were written; ``has_ctime``: and whether a program did.
        found_at: when the file that the copy is was first read; ``had_recorded``: with a recorded version.
        recorded_at: when the copy was last found with a recorded version, by whatever file it was then; None: never.
        beside: name, answer and time of comparison of the other copies; they decide nothing.
    """

    copy: str
    level: Level | None
    reason: str
    content_of: bytes | None
    size_bytes: int | None
    file_size_bytes: int
    mtime_ns: int | None
    file_mtime_ns: int
    has_times: bool
    has_ctime: bool
    found_at: int | None
    had_recorded: bool = True
    recorded_at: int | None = None
    read_at: int | None = None
    own_check: OwnCheck | None = None
    beside: tuple[tuple[str, CopyVote, int], ...] = ()


def describe_arbitration(arbitration: Arbitration, state: FileState, story: CopyStory) -> str:
    """Describe what is wrong with a file's copy, which witness says so, and what is known of the file itself."""
    outcome, copy, how = arbitration.outcome, story.copy, _LEVELS[story.level]
    if outcome is ArbitrationOutcome.COPY_UNREADABLE:
        return f"The backup in {copy} can't be read: {story.reason}"
    if story.content_of is not None:
        return (
            f"The backup in {copy} has the recorded content of {show_path(story.content_of)} under this name{how}:"
            " files were renamed or swapped since the backup."
        )
    if outcome in _ARBITRATIONS:
        return _ARBITRATIONS[outcome].format(copy=copy, how=how)
    lost = " The original is missing or unreadable." if state is FileState.LOST else ""
    lost = lost or (" The file here is not as recorded either." if state in _NOT_AS_RECORDED else "")
    # What other copies said decides nothing, for they may all have been made from one of the two sides.
    known = [f"{name} {_BESIDE[vote]} ({utc_time(at)})" for name, vote, at in story.beside if vote in _BESIDE]
    beside = f" Other copies, which do not decide: {'; '.join(known[:_REASONS_SHOWN])}." if known else ""
    return f"{_describe_difference(arbitration, state, story, how)}{lost}{beside}"


WRITE_LIST_AGAIN = (
    "overwrite neither; look at the file, and at what the list was made of; if your file is right, write the list anew,"
    " then compare"
)
REPAIR_OTHER_FIRST = (
    "do not back the file up yet: what stands there under its name is the good content of the other file, which is not"
    " intact here; repair that one first"
)
_NOT_AS_RECORDED = (FileState.DAMAGED, FileState.CONTESTED)


def _describe_difference(arbitration: Arbitration, state: FileState, story: CopyStory, how: str) -> str:
    outcome, copy = arbitration.outcome, story.copy
    good = f"; {ORIGINAL_UNCHANGED} (just read from its disk)" if state is FileState.GOOD else ""
    if outcome is ArbitrationOutcome.COPY_DIFFERS:
        return f"The backup in {copy} is damaged{how}{good}. {_describe_witness(arbitration, story)}"
    if outcome is ArbitrationOutcome.COPY_INCOMPLETE:
        has = "it is empty"
        if story.size_bytes:
            has = f"it has the first {story.size_bytes:,} of {story.file_size_bytes:,} bytes, and these are right"
        return f"The backup in {copy} is incomplete: {has}{how}{good}."
    if outcome is ArbitrationOutcome.FILE_DIFFERS:
        return (
            f"Your file changed before it was recorded; the backup in {copy} has what it was{how}."
            f" {_describe_witness(arbitration, story)}"
        )
    if outcome is ArbitrationOutcome.COPY_NEWER:
        return f"The backup in {copy} was modified after your file, and has other content{how}{_times(story)}."
    if outcome is ArbitrationOutcome.COPY_STALE:
        times = _times(story) if arbitration.witness is CopyWitness.TIME else ""
        return f"The backup in {copy} is an older version{how}{times}."
    return (
        f"The file and its backup in {copy} differ{how}; which one is right is not known."
        f" {_describe_witness(arbitration, story)}"
    )


def _describe_witness(arbitration: Arbitration, story: CopyStory) -> str:
    """Name the witness that decided; or say that there is none, and what would be one."""
    found = "" if story.found_at is None else utc_time(story.found_at)
    had = "a recorded content" if story.had_recorded else "other content"
    if arbitration.witness is CopyWitness.STORE:
        return "The checksum that its store keeps is the recorded one, but the data is not: it was damaged there."
    if arbitration.witness is CopyWitness.OWN_CHECKSUM:
        of = "the backup" if arbitration.outcome is ArbitrationOutcome.COPY_DIFFERS else "your file"
        how = "" if story.own_check is None else f" ({story.own_check.format}: {story.own_check.reason})"
        return f"The checksum inside {of} is wrong{how}, and that of the other side is right."
    if arbitration.witness is CopyWitness.FILE_HISTORY:
        when = "" if story.read_at is None else f", for the backup of {utc_time(story.read_at)},"
        return (
            f"An earlier reading of the file{when} had that content under the same modification time: since then it was"
            " damaged, or a program rewrote it and restored the old time."
        )
    if arbitration.witness is CopyWitness.EARLIER_READING and arbitration.outcome is ArbitrationOutcome.COPY_DIFFERS:
        size_and_time = f"On {found} it had {had}, and its time is still the same"
        if story.has_ctime:
            return f"{size_and_time}: nothing wrote to it since."
        return f"{size_and_time}; only a program that restores the old time could have written to it since."
    if arbitration.witness is CopyWitness.EARLIER_READING:
        return (
            f"On {found} the backup had {had}. Since then it was damaged, or a program rewrote it and"
            " restored the old time."
        )
    if not story.has_times:
        kept = "It keeps no modification times"
        kept += f"; it was written there {utc_time(story.mtime_ns // 10**9)}." if story.mtime_ns is not None else "."
    elif story.mtime_ns is None:
        kept = "It states no modification time."
    else:
        kept = "One of them was damaged, or was written by a program that restores the modification time."
    if story.recorded_at is not None:
        when = utc_time(story.recorded_at)
        return f"{kept} On {when} it had a recorded content; it was written since, or replaced."
    return f"{kept} No earlier comparison found both equal: that would have shown which one changed."


def _times(story: CopyStory) -> str:
    if story.mtime_ns is None:
        return ""
    verb = "modified" if story.has_times else "written there"
    return f": {verb} {utc_time(story.mtime_ns // 10**9)}, your file {utc_time(story.file_mtime_ns // 10**9)}"


_BESIDE = {CopyVote.SAME: "had the recorded content", CopyVote.DIFFERS: "had other content, too"}


def many_more(kind: FindingKind, count: int, copy: str) -> str:
    return f"{count:,} more files {KINDS[kind].of_many} in the copy {copy}; one by one: integrity --json compare"


def not_comparable(reasons: Counter[str], copy: str) -> str:
    shown = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.most_common(_REASONS_SHOWN))
    more = f"; and {len(reasons) - _REASONS_SHOWN:,} other reasons" if len(reasons) > _REASONS_SHOWN else ""
    subject, they = ("1 file", "it is") if reasons.total() == 1 else (f"{reasons.total():,} files", "they are")
    return f"{subject} could not be compared with the copy {copy}, so {they} not verified: {shown}{more}"


def unreachable(reason: str, compared: int) -> str:
    if compared:
        return f"The copy was lost after {compared:,} files; the others were not compared: {reason}"
    return f"The copy can't be reached, so no file was compared: {reason}"


NOTHING_STATED = "the copy stores no usable checksum for this file; add --read to compare its data"
STRANGE_CHECKSUM = "the checksums that this store keeps are not those of the data; add --read to compare the data"
FILE_DIFFERS = "the file is not the recorded content, so the checksum that its copy should store can't be computed"


def file_not_read(reason: str) -> str:
    return f"the kind of checksum that the copy stores is not recorded, and the file could not be read for it: {reason}"


def accused_not_read(reason: str) -> str:
    return f"the checksum that the copy stores is not the recorded one, and the data can't be read: {reason}"


def sort_of_objects(folder: bytes, encryption: str, kinds: Sequence[Kind]) -> str:
    place = f"{show_path(folder)}/" if folder else "the top folder"
    return f"{', '.join([*kinds, *([f'encryption {encryption}'] if encryption else [])])} in {place}"


def strange_checksums(sorts: Sequence[str], right: int, left: int) -> str:
    more = f"; and {len(sorts) - _REASONS_SHOWN:,} more" if len(sorts) > _REASONS_SHOWN else ""
    shown = f"{'; '.join(sorts[:_REASONS_SHOWN])}{more}"
    if not left:
        files = "1 file" if right == 1 else f"{right:,} files"
        return f"the store keeps other checksums for {files} whose data was read back and is as recorded ({shown})"
    return (
        f"the checksums that this store keeps are not those of the data ({shown}): {right:,} files were read back and"
        f" are as recorded, {left:,} were not read and are not verified; add --read to compare the data"
    )


CAME_MEANWHILE = "it appeared while the copy was being listed; compare again"
WRITTEN_MEANWHILE = "it was written to during the comparison; compare again when nothing writes to the copy"
LISTED_TWICE = "the copy lists it more than once, with different contents"
IS_ITSELF = "it is the file itself, by a hard link or a folder that is mounted twice: damage to one is damage to both"


def another_disk(place: str, name: str) -> str:
    return f"{place}: another disk is there than at the last comparison; its results are kept apart, as {name}"


def strange(files: int) -> str:
    which = f"none of its {files:,} files has the name of a recorded one" if files else "none of its names can be used"
    why = "its disk is not mounted, or it is a copy of something else, or of another folder"
    return f"{which}: {why}; nothing was concluded"


def extra(*, is_here: bool) -> str:
    return "is in the copy; the file here is not recorded, so it was not compared" if is_here else "is only in the copy"


def strange_and_short(listed: int, files: int) -> str:
    return (
        f"another disk is there than at the last comparison, with only {listed:,} of {files:,} files: is the"
        " copy's disk mounted? Nothing was concluded; if this is the copy from now on, make a complete backup first"
    )


TOO_MANY_TROUBLES = "too many of the copy's names could not be looked at"


def more_troubles(count: int) -> str:
    return f"in the copy: {count:,} more names could not be looked at, or can't be names in a copy"


def gone_silent(reason: str) -> str:
    return f"stopped responding: {reason}; check its disk or server, mount it again, then compare again"


NOTHING_RECORDED = "no file is recorded here, so nothing was compared; without --no-scan the files are recorded first"
OTHER_REASONS = "other reasons; `compare --json` prints each"
MOVED_MEANWHILE = "changed or disappeared during the comparison; compare again"
RECORD_CONTRADICTS = "the file's record in the catalog contradicts itself"
COPY_MATCHES = "the copy matches the record"
LEFT_OUT_OF_COPY = "left out of this backup on purpose"
BEHIND = "the backup is allowed to be this far behind"


def renamed_in_copy(path: bytes, copy: str) -> str:
    return f"the copy {copy} has it as {show_path(path)}: renamed since the backup"


def shared(copy: str, count: int, files: int) -> str:
    return (
        f"{count:,} of {files:,} files of the copy {copy} share their data on the disk with yours (a snapshot or"
        " reflinks): one bad block damages both; make a copy on another disk"
    )


def copy_transient(copy: str) -> str:
    return (
        f"The copy {copy} was read twice; the first read was wrong, the second right: the memory, the cable, the"
        " controller, or the network delivered wrong data once."
    )
