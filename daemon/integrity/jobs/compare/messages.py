"""What findings about copies say, in words for their reader; what to do next stands beside it."""

from __future__ import annotations

from collections import Counter

from integrity.errors import show_path
from integrity.jobs.compare.copy_answer import CopyAnswer, Level
from integrity.model import FindingKind
from integrity.verdict import ArbitrationOutcome, FileState

_LEVELS = {
    Level.PUBLISHED: "by what the copy states of its content",
    Level.READ: "by its bytes, read back",
    None: "",
}
_MANY = {
    FindingKind.COPY_MISSING: "are missing from the copy {copy}",
    FindingKind.COPY_DIFFERS: "differ in the copy {copy}",
    FindingKind.COPY_STALE: "are older versions in the copy {copy}",
    FindingKind.COPY_UNREADABLE: "can't be read in the copy {copy}",
}
_REASONS_SHOWN = 3


def describe_arbitration(outcome: ArbitrationOutcome, stand: FileState, voice: CopyAnswer, copy: str) -> str:
    """Say what is the matter with a file's copy, how that is known, and what is known of the file itself."""
    how = f" ({_LEVELS[voice.level]})" if voice.level is not None else ""
    if outcome is ArbitrationOutcome.COPY_UNREADABLE:
        return f"in the copy {copy} it can't be read: {voice.reason}"
    if voice.content_of is not None:
        return (
            f"the copy {copy} has under this name what is recorded of {show_path(voice.content_of)}{how}: files were"
            " renamed or swapped since the backup"
        )
    return f"{_TEXTS[outcome].format(copy=copy)}{how}{_FILES.get((outcome, stand), '')}"


_TEXTS = {
    ArbitrationOutcome.BOTH_DAMAGED: "the copy {copy} is not what was recorded, but at other places than the file",
    ArbitrationOutcome.COPY_DIFFERS: "the copy {copy} is not what was recorded",
    ArbitrationOutcome.COPY_STALE: "the copy {copy} is an older version of the file",
    ArbitrationOutcome.COPY_MISSING: "the copy {copy} does not have it",
    ArbitrationOutcome.COPIED_DAMAGE: (
        "the damaged file was copied: the copy {copy} is the same, and neither is what was recorded"
    ),
    ArbitrationOutcome.ALL_DIFFER: "what was recorded, the file and the copy {copy} are three different things",
}

_FILES = {
    (ArbitrationOutcome.COPY_DIFFERS, FileState.GOOD): "; the file here is: it was just read from its disk",
    (ArbitrationOutcome.COPY_DIFFERS, FileState.LOST): "; the file here can't be had",
    (ArbitrationOutcome.COPY_STALE, FileState.LOST): "; the file here can't be had",
}


def many_more(kind: FindingKind, count: int, copy: str) -> str:
    """Say how many more files there are of a kind that has too many to list them."""
    what = _MANY.get(kind, "have the same finding in the copy {copy}")
    return f"{count:,} more files {what.format(copy=copy)}; one by one: integrity --json compare"


def not_comparable(reasons: Counter[str], copy: str) -> str:
    """Say how many files could not be compared, and why."""
    shown = "; ".join(f"{count:,}: {reason}" for reason, count in reasons.most_common(_REASONS_SHOWN))
    more = f"; and {len(reasons) - _REASONS_SHOWN:,} other reasons" if len(reasons) > _REASONS_SHOWN else ""
    return (
        f"{reasons.total():,} files could not be compared with the copy {copy} and count as not verified: {shown}{more}"
    )


def unreachable(reason: str, heard: int) -> str:
    """Say that nothing is known of a whole copy, or nothing more after so many files."""
    if heard:
        return f"the copy was lost after {heard:,} files, and nothing is known of the others: {reason}"
    return f"the copy can't be reached, and nothing is known of any file in it: {reason}"


def nothing_stated() -> str:
    """Say that a copy has no digest of a file, but its bytes."""
    return "the copy states no digest of it that can be compared; --read has it read"


def file_differs() -> str:
    """Say that a file is not what was recorded, so that nothing can be derived for its copy."""
    return "the file is not what was recorded, so what its copy should state can't be computed"


def file_not_read(reason: str) -> str:
    """Say that a file could not be read for what its copy states."""
    return f"what the copy states is not recorded, and the file could not be read for it: {reason}"


def came_meanwhile() -> str:
    """Say that a copy has a file that its listing did not have."""
    return "it came while the copy was listed; compare again"


def spelling() -> str:
    """Say that a copy's file system has a file under a name that it takes for the same one."""
    return (
        "the copy has it under another spelling of its name (capitals or accents), which the file system there takes"
        " for the same one: rename it there"
    )


def written_meanwhile() -> str:
    """Say that somebody writes to a copy's file."""
    return "it was written while it was compared; compare again when nobody writes to the copy"


def listed_twice() -> str:
    """Say that a copy's listing contradicts itself."""
    return "the copy lists it more than once, and differently, so it can't be told which one is meant"


def is_itself() -> str:
    """Say that what should be a copy is the file."""
    return "it is the file itself, by a hard link or a folder that is mounted twice: what damages one damages both"


def another_place() -> str:
    """Say that a copy is not where it was, though its path is the same."""
    return (
        "another disk or folder is there than when it was compared last; what it said of its files then counts no more"
    )


def strange(files: int) -> str:
    """Say that a copy has nothing of what it should be a copy of."""
    which = f"none of its {files:,} files has the name of a recorded one" if files else "none of its names can be used"
    why = "its disk is not mounted, or it is a copy of something else, or of another folder of it"
    return f"{which}: {why}; nothing was concluded"


def extra(*, is_here: bool) -> str:
    """Say that a copy has what is not recorded."""
    return (
        "is in the copy; here it is not recorded, so it was not compared" if is_here else "is in the copy, and not here"
    )


def strange_and_short(listed: int, files: int) -> str:
    """Say that something else is in the place of a copy, and has little of what is recorded."""
    return (
        f"another disk or folder is there than when it was compared last, with only {listed:,} of {files:,} files:"
        " is the copy's disk mounted? Nothing was concluded; if this is the copy from now on, make a whole backup first"
    )


def too_many_troubles() -> str:
    """Say that it is not known any more which names could not be looked at."""
    return "too many of the copy's names could not be looked at"


def more_troubles(count: int) -> str:
    """Count what was not told one by one."""
    return f"in the copy: {count:,} more names could not be looked at, or are none that a copy can have"


def gone_silent(reason: str) -> str:
    """Say that a mounted copy went away while it was read."""
    return f"does not answer any more: {reason}; look at its disk or server, mount it again, then compare again"


def nothing_recorded() -> str:
    """Say that there is nothing to hold a copy against."""
    return "no file is recorded here, so nothing was compared; without --no-scan the files are recorded first"


def other_reasons() -> str:
    """Stand for reasons that are too many to be counted one by one."""
    return "something else; each with: integrity --json compare"


def moved_meanwhile() -> str:
    """Say that nothing can be concluded of a file now."""
    return "changed, or went, while it was compared; compare again"


def record_contradicts() -> str:
    """Say that the record of a file is what is wrong."""
    return "what is recorded of the file contradicts itself; see: integrity catalog check"


def renamed_in_copy(path: bytes, copy: str) -> str:
    """Say under which name a copy has a file."""
    return f"the copy {copy} has it as {show_path(path)}: renamed since the backup"


def behind() -> str:
    """Say why nothing is wrong any more with a copy that is older than its file."""
    return "the file is newer than the backup has to be"


def copy_transient(copy: str) -> str:
    """Say that two readings of the same bytes differed."""
    return (
        f"the copy {copy} was read twice: the first reading differed, the second is what was recorded; memory, cable,"
        " controller or line gave wrong bytes once"
    )
