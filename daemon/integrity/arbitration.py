"""
The decision table of a file and its copy: catalog, file and copy vote on who is right, and what to do about it.

Pure: no I/O, no clock. What it leaves to others: reading the copy, and what is known of its past and its times.

Invariants, each proved over the full cross product of evidence; those of ``verdict`` go on here:

I6  A repair is proposed only from a copy that is what the catalog says, or whose blocks are where the file's are not,
    for a file whose own content is not accounted for by a write that was anybody's right; or from the copy whose
    content an earlier reading of the file's own place had, or whose own checksum holds where the file's fails.
I7  A backup is proposed only of a file that is what the catalog says, or whose new content a write explains.
I8  What could not be compared is never in order, and neither is a copy that was not found to be good; but for files
    that were deleted on purpose, of which no copy is owed.
I10 A record is a witness, not the truth: a copy with other content is called damaged only if it was found with the
    recorded content before, under the size and time that it has now; or its store, or its own checksum, says so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from integrity.kinds import OTHER_CONTENT
from integrity.model import Certainty, FindingKind
from integrity.verdict import Judgement, Verdict


class Level(StrEnum):
    """How a copy was examined."""

    PUBLISHED = "published"  # digests it states: describes what was once stored there
    READ = "read"  # its bytes as they are now
    CACHED = "cached"  # its bytes, possibly from memory


class CopyVote(StrEnum):
    """What a copy of a file says, held against the catalog."""

    SAME = "same"  # as the catalog
    OLDER = "older"  # as an older baseline that history knows
    RENAMED = "renamed"  # as the catalog, but under another name, which is not recorded
    DIFFERS = "differs"  # as nothing that was ever recorded
    MISSING = "missing"  # the copy was listed whole, and the file is not there
    UNREADABLE = "unreadable"
    NOT_COMPARABLE = "not_comparable"  # neither digest nor bytes that could be held against what is recorded


class CopyTime(StrEnum):
    """Where the time of a copy stands against that of the file, once the habit of the copy is taken off."""

    SAME = "same"
    OLDER = "older"
    NEWER = "newer"
    NONE = "none"  # the copy keeps no times, or lost this one


class CopyPast(StrEnum):
    """What was read earlier at the place that a copy has now, under the size and time that it has now."""

    UNKNOWN = "unknown"  # nothing, or nothing that was ever recorded
    UNTOUCHED = "untouched"  # a recorded version; and its ctime, where it can be trusted, has not moved since
    TOUCHED = "touched"  # a recorded version, but its ctime moved since, so a write can't be excluded


class FailingSide(StrEnum):
    """Which side fails the checksum inside the file, while the other passes it and it covers all that differs."""

    FILE = "file"
    COPY = "copy"


class CopyWitness(StrEnum):
    """What decided about a copy with other content."""

    EARLIER_READING = "earlier_reading"  # of the copy's place
    STORE = "store"  # its own checksum, which its data contradicts
    OWN_CHECKSUM = "own_checksum"  # inside the file
    FILE_HISTORY = "file_history"  # earlier readings of the file's place
    BEGINNING = "beginning"  # the copy is how the file begins
    TIME = "time"  # says which is newer, and nothing of damage


class CopyCircumstances(NamedTuple):
    """
    What is known of a copy besides its content.

    Args:
        time: against the time of the file's content.
        past: earlier readings of the copy's place.
        has_ctime: the copy's ctime moves with every write.
        rewrites_in_place: the path matches a pattern of programs that rewrite without touching the mtime.
        is_beginning: its content is how the file begins, and then it ends.
        has_former_time: history knows a version with the copy's size and time, and other content.
        was_here: an earlier reading of the file's own place, by us or by the program that made the backup, had what the
            copy has under the file's present time, and no write or decision explains the change.
        contradicts_store: the checksum that its store computed is the recorded one, its data is not.
        failing: the side that fails the checksum inside the file.
        had_recorded: an earlier comparison found the copy with a recorded content.
        had_this: it has had its present content since it was first read, and that is none that was recorded.
    """

    time: CopyTime = CopyTime.NONE
    past: CopyPast = CopyPast.UNKNOWN
    has_ctime: bool = False
    rewrites_in_place: bool = False
    is_beginning: bool = False
    has_former_time: bool = False
    was_here: bool = False
    contradicts_store: bool = False
    failing: FailingSide | None = None
    had_recorded: bool = False
    had_this: bool = False


_NOTHING_SPECIAL = CopyCircumstances()


class ArbitrationOutcome(StrEnum):
    """Who is right."""

    IN_ORDER = "in_order"
    RENAMED = "renamed"  # the file is good, and was renamed since the backup
    REPAIRABLE = "repairable"  # the file is bad, the copy matches the record, perhaps under another name
    COPY_DIFFERS = "copy_differs"  # the copy is bad: a witness says so
    COPY_INCOMPLETE = "copy_incomplete"  # the copy is how the file begins
    COPY_CONFLICT = "copy_conflict"  # one of them is bad or was rewritten, and nothing tells which
    COPY_NEWER = "copy_newer"  # somebody may have edited the copy
    COPY_STALE = "copy_stale"  # the copy is an older version
    COPY_MISSING = "copy_missing"
    COPY_UNREADABLE = "copy_unreadable"
    FILE_DIFFERS = "file_differs"  # the file is what was recorded, and was bad by then: a witness says so
    COPIED_DAMAGE = "copied_damage"  # both are equal, not what was recorded, and nobody wrote
    MISSED_CHANGE = "missed_change"  # both are equal, not what was recorded, and somebody wrote or history knows it
    NOT_COMPARABLE = "not_comparable"


class FileState(StrEnum):
    """What a file's verdict means when its copy is asked, too."""

    GOOD = "good"  # what the catalog says
    WRITTEN = "written"  # new content that a write explains
    DAMAGED = "damaged"  # other content that no write explains
    CONTESTED = "contested"  # other content that somebody wrote, though nobody should have
    LOST = "lost"  # no content to be had: unreadable, or gone from an archive
    DELETED = "deleted"  # gone on purpose


class Arbitration(NamedTuple):
    """
    What three votes come to.

    Args:
        outcome: who is right.
        finding: about the copy; None for what is in order, or what the finding about the file itself says already.
        words: what to do next; empty when there is nothing to do.
        command: that does it, with ``{path}`` (of the file), ``{root}`` and ``{copy}`` to be filled in, ``OTHER`` and
            ``WHY`` for the reader to fill in.
        witness: what decided about a copy with other content; None if nothing did.
        certainty: of damage to the copy.
    """

    outcome: ArbitrationOutcome
    finding: FindingKind | None
    words: str = ""
    command: str | None = None
    witness: CopyWitness | None = None
    certainty: Certainty | None = None


def find_stand(judgement: Judgement) -> FileState:
    """Tell what a verdict of the first table means for the second."""
    verdict = judgement.verdict
    if verdict in _STANDS:
        return _STANDS[verdict]
    return FileState.CONTESTED if judgement.because is None else FileState.WRITTEN


_STANDS = {
    Verdict.INTACT: FileState.GOOD,
    Verdict.ROT: FileState.DAMAGED,
    Verdict.SILENT_REWRITE: FileState.DAMAGED,
    Verdict.SHRUNK: FileState.CONTESTED,
    Verdict.UNREADABLE: FileState.LOST,
    Verdict.MISSING: FileState.LOST,
    Verdict.DELETED: FileState.DELETED,
}


def arbitrate(
    judgement: Judgement,
    vote: CopyVote,
    circumstances: CopyCircumstances = _NOTHING_SPECIAL,
    *,
    are_equal: bool = False,
    has_good_blocks: bool = False,
    was_read: bool = True,
    has_bytes: bool = True,
    keeps_versions: bool = False,
) -> Arbitration:
    """
    Decide between catalog, file and copy.

    Args:
        judgement: of the file against the catalog.
        vote: of the copy against the catalog.
        circumstances: of the copy; looked at only where its content is another one.
        are_equal: the file's content and the copy's are the same; looked at only where the votes leave it open, which
            is when both differ from the catalog.
        has_good_blocks: every block that is bad in the file is in the copy as it was recorded. They mend the file, but
            are no witness: where the record was taken of damage, the copy's other blocks are the good ones.
        was_read: the judgement rests on a reading of now, and not only on what is recorded.
        has_bytes: the copy is more than a list of checksums.
        keeps_versions: the copy has older versions, too.
    """
    stand = find_stand(judgement)
    if judgement.verdict is Verdict.SILENT_REWRITE:  # perhaps by a program whose work a backup run copied
        circumstances = circumstances._replace(rewrites_in_place=True)
    is_backed_up = are_equal and _was_backed_up(judgement.verdict, vote, circumstances)
    outcome, witness = _find_outcome(
        *(stand, vote, circumstances),
        are_equal=are_equal,
        is_backed_up=is_backed_up,
        keeps_versions=keeps_versions,
    )
    words, command = find_step(
        outcome,
        stand,
        was_read=was_read,
        has_bytes=has_bytes,
        has_good_blocks=has_good_blocks,
        keeps_versions=keeps_versions,
    )
    certainty = None
    if outcome is ArbitrationOutcome.COPY_DIFFERS:
        is_sure = circumstances.has_ctime or witness is not CopyWitness.EARLIER_READING
        certainty = Certainty.PROVEN if is_sure else Certainty.NO_CTIME
    elif outcome is ArbitrationOutcome.COPY_INCOMPLETE:
        certainty = Certainty.CUT_OFF
    return Arbitration(outcome, _COPY_FINDINGS.get(outcome), words, command, witness, certainty)


_Found = tuple[ArbitrationOutcome, CopyWitness | None]


def _was_backed_up(verdict: Verdict, vote: CopyVote, circumstances: CopyCircumstances) -> bool:
    """
    Say whether content that a file and its copy share, and nobody wrote, went from the file to the copy.

    A disk does not damage a file into what a copy had before. And where a ctime moved, somebody may have written to
    the file: only a copy that was seen with the recorded content got the other one from it.
    """
    if vote is not CopyVote.DIFFERS or circumstances.had_this:
        return False
    return verdict is Verdict.ROT or (verdict is Verdict.SILENT_REWRITE and circumstances.had_recorded)


def _find_outcome(
    stand: FileState,
    vote: CopyVote,
    circumstances: CopyCircumstances,
    *,
    are_equal: bool,
    is_backed_up: bool,
    keeps_versions: bool,
) -> _Found:
    if stand is FileState.DELETED:
        return ArbitrationOutcome.IN_ORDER, None
    if vote in _SILENT:
        return _SILENT[vote], None
    if vote is CopyVote.SAME:
        return _OF_SAME.get(stand, ArbitrationOutcome.REPAIRABLE), None
    if vote is CopyVote.RENAMED:
        return _OF_RENAMED.get(stand, ArbitrationOutcome.REPAIRABLE), None
    if are_equal and stand not in (FileState.GOOD, FileState.LOST):
        return ArbitrationOutcome.COPIED_DAMAGE if is_backed_up else ArbitrationOutcome.MISSED_CHANGE, None
    may_be_rewritten = circumstances.rewrites_in_place and not circumstances.has_ctime
    if vote is CopyVote.OLDER:
        is_lost_write = circumstances.past is CopyPast.UNTOUCHED and circumstances.had_recorded
        # A disk may return what it had before; of several versions, the newest may have been removed.
        if is_lost_write and not may_be_rewritten and not keeps_versions:
            return ArbitrationOutcome.COPY_DIFFERS, CopyWitness.EARLIER_READING
        if circumstances.was_here and stand is FileState.GOOD:
            return ArbitrationOutcome.FILE_DIFFERS, CopyWitness.FILE_HISTORY
        if circumstances.time is CopyTime.NEWER:  # an older version may have been put here, and not there
            return ArbitrationOutcome.COPY_NEWER, CopyWitness.TIME
        return ArbitrationOutcome.COPY_STALE, None
    outcome, witness = _judge_copy(circumstances, may_be_rewritten=may_be_rewritten)
    if outcome is ArbitrationOutcome.FILE_DIFFERS and stand in _SPOILED:
        return ArbitrationOutcome.COPY_CONFLICT, None  # known already, and no reason to trust the copy's other content
    return outcome, witness


def _judge_copy(circumstances: CopyCircumstances, *, may_be_rewritten: bool) -> _Found:
    """
    Judge a copy whose content is no version that was ever recorded.

    Within one place, under one size and time, the content that was read first is the untouched one. Between two places,
    times say which is newer and prove nothing about damage.
    """
    time, past = circumstances.time, circumstances.past
    if past is CopyPast.UNTOUCHED and not may_be_rewritten:
        return ArbitrationOutcome.COPY_DIFFERS, CopyWitness.EARLIER_READING
    if circumstances.contradicts_store:
        return ArbitrationOutcome.COPY_DIFFERS, CopyWitness.STORE
    was_shortened = time is CopyTime.NEWER and circumstances.had_recorded
    # What grows began like that, and what was whole may have been shortened there: see there.
    if circumstances.is_beginning and time is not CopyTime.OLDER and not was_shortened:
        return ArbitrationOutcome.COPY_INCOMPLETE, CopyWitness.BEGINNING
    if past is not CopyPast.UNKNOWN:
        return ArbitrationOutcome.COPY_CONFLICT, CopyWitness.EARLIER_READING
    if circumstances.failing is FailingSide.COPY:
        return ArbitrationOutcome.COPY_DIFFERS, CopyWitness.OWN_CHECKSUM
    if circumstances.failing is FailingSide.FILE:
        return ArbitrationOutcome.FILE_DIFFERS, CopyWitness.OWN_CHECKSUM
    if circumstances.was_here:
        return ArbitrationOutcome.FILE_DIFFERS, CopyWitness.FILE_HISTORY
    if time is CopyTime.NEWER:
        return ArbitrationOutcome.COPY_NEWER, CopyWitness.TIME
    if time is CopyTime.OLDER and not circumstances.has_former_time:
        return ArbitrationOutcome.COPY_STALE, CopyWitness.TIME
    return ArbitrationOutcome.COPY_CONFLICT, None


_OF_SAME = {FileState.GOOD: ArbitrationOutcome.IN_ORDER, FileState.WRITTEN: ArbitrationOutcome.COPY_STALE}
_OF_RENAMED = {FileState.GOOD: ArbitrationOutcome.RENAMED, FileState.WRITTEN: ArbitrationOutcome.COPY_STALE}
_SILENT = {
    CopyVote.MISSING: ArbitrationOutcome.COPY_MISSING,
    CopyVote.UNREADABLE: ArbitrationOutcome.COPY_UNREADABLE,
    CopyVote.NOT_COMPARABLE: ArbitrationOutcome.NOT_COMPARABLE,
}
_COPY_FINDINGS = {
    ArbitrationOutcome.COPY_DIFFERS: FindingKind.COPY_DIFFERS,
    ArbitrationOutcome.COPY_INCOMPLETE: FindingKind.COPY_DIFFERS,
    ArbitrationOutcome.COPY_CONFLICT: FindingKind.COPY_CONFLICT,
    ArbitrationOutcome.FILE_DIFFERS: FindingKind.COPY_CONFLICT,
    ArbitrationOutcome.COPY_NEWER: FindingKind.COPY_NEWER,
    ArbitrationOutcome.COPY_STALE: FindingKind.COPY_STALE,
    ArbitrationOutcome.COPY_MISSING: FindingKind.COPY_MISSING,
    ArbitrationOutcome.COPY_UNREADABLE: FindingKind.COPY_UNREADABLE,
    ArbitrationOutcome.COPIED_DAMAGE: FindingKind.COPY_DIFFERS,
    ArbitrationOutcome.NOT_COMPARABLE: FindingKind.COPY_NOT_COMPARABLE,
}

KINDS_OF_VOTES = {
    CopyVote.MISSING: frozenset({FindingKind.COPY_MISSING}),
    CopyVote.DIFFERS: OTHER_CONTENT,
    CopyVote.OLDER: OTHER_CONTENT,
    CopyVote.UNREADABLE: frozenset({FindingKind.COPY_UNREADABLE}),
    CopyVote.NOT_COMPARABLE: frozenset({FindingKind.COPY_NOT_COMPARABLE}),
}
"""The findings about a copy that can rest on each vote."""

REPAIR_FROM_COPY = "integrity repair {path} --from {copy}"
COMPARE = "integrity compare {path} --with {copy}"
COPY_IS_RIGHT = "integrity repair {path} --from {copy} --copy-is-right"
SHOW_BOTH = "integrity compare --blocks {path} --with {copy}"
_FROM_OTHER = "integrity repair {path} --from OTHER"
_BACK_UP = (
    "run the backup again, keeping what it replaces (rsync --backup; for files of equal size and time also --checksum),"
    " then compare"
)
_STEPS = {
    ArbitrationOutcome.IN_ORDER: ("", None),
    ArbitrationOutcome.RENAMED: ("", None),
    ArbitrationOutcome.REPAIRABLE: ("restore the damaged part from the copy", REPAIR_FROM_COPY),
    ArbitrationOutcome.COPY_DIFFERS: (
        "copy this one file over the damaged backup, keeping what is replaced (cp --backup=numbered -p; plain rsync"
        " skips the file: use --checksum --backup), then compare",
        COMPARE,
    ),
    ArbitrationOutcome.COPY_INCOMPLETE: (_BACK_UP, COMPARE),
    ArbitrationOutcome.COPY_CONFLICT: (
        "overwrite neither; open both and decide, here is where they differ",
        SHOW_BOTH,
    ),
    ArbitrationOutcome.FILE_DIFFERS: (
        "look at both; if nobody meant the change, repair the file from the copy: what is replaced is kept",
        COPY_IS_RIGHT,
    ),
    ArbitrationOutcome.COPY_NEWER: (
        "look at both before anything is copied: the next backup may overwrite the newer version",
        SHOW_BOTH,
    ),
    ArbitrationOutcome.COPY_STALE: (_BACK_UP, COMPARE),
    ArbitrationOutcome.COPY_MISSING: ("run the backup again, then compare", COMPARE),
    ArbitrationOutcome.COPY_UNREADABLE: (
        "check the copy's disk, server, and permissions, then compare again",
        COMPARE,
    ),
    ArbitrationOutcome.COPIED_DAMAGE: (
        "the damage was backed up: protect older backups from deletion, and restore the file from one of them",
        _FROM_OTHER,
    ),
    ArbitrationOutcome.MISSED_CHANGE: ("the file and its copy agree: record the change", "integrity scan {path}"),
    ArbitrationOutcome.NOT_COMPARABLE: ("compare the data itself", COMPARE + " --read"),
}
# Where the file is no good, backing it up would only spread that.
_STEPS_WITHOUT_GOOD_FILE = {
    ArbitrationOutcome.COPY_DIFFERS: (
        "neither the file nor this copy has the recorded content: restore it from another backup",
        _FROM_OTHER,
    ),
    ArbitrationOutcome.COPY_INCOMPLETE: (
        "do not back the file up; this copy has only its beginning: restore it from another backup",
        _FROM_OTHER,
    ),
    ArbitrationOutcome.COPY_STALE: (
        "do not back the file up; find a newer copy, or restore this older version (rsync: with --checksum --backup)",
        _FROM_OTHER,
    ),
    ArbitrationOutcome.COPY_NEWER: (
        "do not back the file up: this copy may be a newer version; first see what became of the file",
        "integrity explain {path}",
    ),
    ArbitrationOutcome.COPY_MISSING: (
        "do not back the file up; this copy does not have it, so restore it from another one",
        _FROM_OTHER,
    ),
    ArbitrationOutcome.MISSED_CHANGE: (
        "file and copy agree: if the change was meant, accept it",
        "integrity accept {path} --reason WHY",
    ),
    ArbitrationOutcome.COPY_CONFLICT: (
        "do not back the file up: the record, the file, and the backup are all different; look at them yourself",
        "integrity explain {path}",
    ),
}


DECIDE_ABOUT_LIST = (
    "overwrite neither; look at the file, and at what the list was made of; if your file is right",
    "integrity accept {path} --with {copy} --reason WHY",
)
_NEEDS_BYTES = frozenset({SHOW_BOTH, COPY_IS_RIGHT})
_SPOILED = (FileState.DAMAGED, FileState.LOST)
_OTHER_THERE = (ArbitrationOutcome.COPY_DIFFERS, ArbitrationOutcome.COPY_CONFLICT)
_MEND_BY_BLOCKS = (
    "repair the file from this copy, which is as recorded where the file is damaged; then compare",
    REPAIR_FROM_COPY,
)

_FROM_OLDER = (
    "do not back the file up; restore it from an older version of this backup, and keep these from being removed",
    REPAIR_FROM_COPY,
)
_BACK_UP_ANEW = (
    "run the backup again so that it reads this file (restic --force, borg --files-cache=disabled, rsync --checksum),"
    " keep its older versions, then compare",
    COMPARE,
)

READ_FIRST = ("check that the file here is intact, then run the backup again", "integrity scrub {path}")
"""The next step for a file that may be the only copy, and was not read."""


def find_step(
    outcome: ArbitrationOutcome,
    stand: FileState = FileState.GOOD,
    *,
    was_read: bool = True,
    has_bytes: bool = True,
    has_good_blocks: bool = False,
    keeps_versions: bool = False,
) -> tuple[str, str | None]:
    """Return what to do next in words, and the command that does it; see ``Arbitration``."""
    if outcome is ArbitrationOutcome.COPY_MISSING and stand is FileState.GOOD and not was_read:
        return READ_FIRST
    if has_good_blocks and has_bytes and stand in _SPOILED and outcome in _OTHER_THERE:
        return _MEND_BY_BLOCKS
    if not has_bytes and outcome is ArbitrationOutcome.REPAIRABLE:
        return "", None
    if stand is FileState.LOST and outcome is ArbitrationOutcome.REPAIRABLE:
        return "bring the file back from the backup", _STEPS[outcome][1]
    if stand is FileState.CONTESTED and outcome is ArbitrationOutcome.REPAIRABLE:
        return "somebody wrote to it: if that was not meant, put the recorded bytes back", _STEPS[outcome][1]
    if stand not in (FileState.GOOD, FileState.WRITTEN) and outcome in _STEPS_WITHOUT_GOOD_FILE:
        step: tuple[str, str | None] = _STEPS_WITHOUT_GOOD_FILE[outcome]
    else:
        step = _STEPS[outcome]
    if keeps_versions and step[1] == _FROM_OTHER:
        return _FROM_OLDER
    if keeps_versions and step in (_STEPS[ArbitrationOutcome.COPY_DIFFERS], (_BACK_UP, COMPARE)):
        return _BACK_UP_ANEW
    return step if has_bytes or step[1] not in _NEEDS_BYTES else DECIDE_ABOUT_LIST
