"""
The kinds of findings: one entry for each, with everything that depends on the kind.

A new kind of finding needs a word in ``model.FindingKind``, an entry here, the row of the verdict that opens it, and a
sentence in ``jobs/messages.py`` unless the entry explains it.
Everything else that asks about kinds (exit codes, mails, frozen baselines, what ends a finding, next steps) iterates
over this table. The order is that of gravity: a subject begins with the worst, and so does a mail.

I1  Each kind has exactly one entry.
"""

from enum import Enum, Flag, auto
from typing import NamedTuple

from integrity.model import Certainty, FindingKind


class Weight(Enum):
    """How a finding counts in the exit code."""

    PROBLEM = 1  # exit code 1: something is wrong with a file, a copy, or the catalog
    GAP = 3  # exit code 3: something could not be checked
    NOTE = 0


class Subject(Enum):
    """What a finding is about."""

    FILE = "file"
    FOLDER = "folder"
    DEVICE = "device"
    COPY = "copy"


class Phrase(NamedTuple):
    """How a mail's subject names one finding, and several."""

    one: str
    many: str

    def of(self, number: int) -> str:
        """Write "1 damaged file", "1,234 damaged files"."""
        return f"{number:,} {self.one if number == 1 else self.many}"


class NextStep(NamedTuple):
    """One thing to do; in its command ``{path}``, ``{root}``, ``{copy}`` are filled in; COPY and WHY are the user's."""

    words: str
    command: str | None = None


FROM_SOME_COPY = "integrity repair {path} --from COPY"
_RESTORE_YOURSELF = NextStep(
    "or restore the file yourself (rsync skips it: use --checksum --backup), then check it", "integrity scrub {path}"
)
_RESTORE_OR_ACCEPT = (
    NextStep("restore the recorded content from a backup", FROM_SOME_COPY),
    _RESTORE_YOURSELF,
    NextStep("or keep the file as it is now", "integrity accept {path} --reason WHY"),
)
_FROM_SOME_COPY_TOGETHER = "integrity repair {folder} --from {copy}"
_RESTORE_ALL = NextStep("restore the recorded content from a backup", _FROM_SOME_COPY_TOGETHER)
_CHECK_ALL = NextStep(
    "or restore the files yourself (rsync skips them: use --checksum --backup), then check them",
    "integrity scrub {folder}",
)
_WRITTEN_TOGETHER = (
    NextStep(
        "look at some of them; to restore the recorded content of one from a backup",
        "integrity repair FILE --from {copy}",
    ),
    _CHECK_ALL,
    NextStep("or keep all as they are now", "integrity accept {folder} --changes --reason WHY"),
)
"""What a program changed, perhaps on purpose, is repaired only if it is named itself."""
_KEEP_ONE_SIDE = (
    NextStep("if your file is right", "integrity accept {path} --with {copy} --reason WHY"),
    NextStep(
        "if the backup is right (your file is kept beside it)", "integrity repair {path} --from {copy} --copy-is-right"
    ),
)
_LOOK_FIRST = "overwrite nothing before you have looked at some files of both sides, then compare"
_LOOK_AT_DISK = NextStep("copy what is still readable to another disk, and check the disk", "smartctl -a /dev/DISK")


class Trait(Flag):
    """What follows from a kind, besides its words."""

    OTHER_CONTENT = auto()  # the copy has the file, with other content
    FREEZES_BASELINE = auto()  # while it is open, no scan replaces the file's baseline (R6)
    URGENT = auto()  # the first mail about this kind is sent at once, whatever the limits: somebody should act now
    OF_INODE = auto()  # all names of one file share it, and people are told once
    CLOSES_GATE = auto()  # a backup made now would miss something, or could carry damage that was not looked for
    KEEPS_GATE_OPEN = auto()  # a backup may be made all the same: what is there is what is recorded
    STOPS_READING = auto()  # no more is read from the device; a run that reads all of the root without an error ends it
    FOREWARNING = auto()  # nothing is damaged, and nothing was left unchecked: there is time to act
    LEAVES_DOUBT = auto()  # the content may be right or wrong; ``status`` counts such files as "not sure"
    MAY_HOLD_DAMAGE = auto()  # what stands in the file may be damaged, so accepting a whole folder leaves the file out
    ENDED_BY_GOOD_READING = auto()  # the recorded content, read from the disk, ends it
    ENDED_BY_REPAIR = auto()  # so does a repair of the file
    ENDED_BY_REBIND = auto()  # so does binding the root to another disk or path
    ENDED_BY_COMPARE = auto()  # so does a comparison that finds the copy's file right


class KindEntry(NamedTuple):
    """
    What follows from the kind of a finding.

    Attributes:
        headline: what people read in place of the kind.
        phrase: for the subject of a mail; ``{copy}`` stands for the copy's name.
        phrase_of_copy: the same, where the finding is about a whole copy instead of one of its files.
        explanation: the sentence below the headline, where the verdict has none of its own.
        traits: what else follows from it.
        how_bad: the second sentence of a mail, where it does not count damaged files.
        of_many: ends "N more files ... in the copy NAME".
        step_of_many: what to do about them.
        steps: what to do, best first.
        together: what to do about several in one folder, which are told as one; ``{folder}`` is filled in.
    """

    kind: FindingKind
    weight: Weight
    subject: Subject
    headline: str
    phrase: Phrase
    phrase_of_copy: Phrase | None = None
    explanation: str = ""
    how_bad: str = "This does not mean that a file is damaged."
    traits: Trait = Trait(0)
    of_many: str = "have the same finding"
    step_of_many: str = "run the backup again, then compare"
    steps: tuple[NextStep, ...] = ()
    together: tuple[NextStep, ...] = ()


_DAMAGED = Phrase("damaged file", "damaged files")
_MORE = Phrase("and more", "and more")  # so many files that only the first ones have findings of their own

_CONTENT = Trait.FREEZES_BASELINE | Trait.OF_INODE | Trait.ENDED_BY_GOOD_READING | Trait.ENDED_BY_REPAIR
"""Something is wrong with what stands in a file."""

TABLE = (
    KindEntry(
        kind=FindingKind.SUSPICIOUS_CHANGE,
        weight=Weight.PROBLEM,
        subject=Subject.FOLDER,
        traits=Trait.URGENT,
        headline="Suspicious changes",
        how_bad="Backups are blocked until you decide.",
        phrase=Phrase("backup blocked by suspicious changes", "backups blocked by suspicious changes"),
        steps=(
            NextStep(
                "if nobody meant this: disconnect the backups, stop the program that writes, then restore (rsync: with"
                " --checksum)"
            ),
            NextStep("if it was meant", "integrity gate {path} --release --reason WHY"),
        ),
    ),
    KindEntry(
        kind=FindingKind.MASS_CHANGE,
        weight=Weight.PROBLEM,
        subject=Subject.FOLDER,
        traits=Trait.URGENT | Trait.ENDED_BY_REBIND,
        headline="Unusually many changes",
        how_bad="The changes were not accepted: the old records are kept until you decide.",
        phrase=Phrase("mass change held back", "mass changes held back"),
        steps=(
            NextStep(
                "if nobody meant this: disconnect the backups before they are overwritten, then restore (rsync: with"
                " --checksum)"
            ),
            NextStep(
                "if it was meant (one option alone accepts only changes, or only deletions)",
                "integrity accept {root} --changes --deletions --reason WHY",
            ),
        ),
    ),
    KindEntry(
        kind=FindingKind.ROT,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=_CONTENT | Trait.URGENT | Trait.MAY_HOLD_DAMAGE,
        headline="DAMAGED (bit rot)",
        phrase=_DAMAGED,
        steps=_RESTORE_OR_ACCEPT,
        together=(_RESTORE_ALL, _CHECK_ALL),
    ),
    KindEntry(
        kind=FindingKind.SILENT_REWRITE,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=_CONTENT | Trait.URGENT | Trait.MAY_HOLD_DAMAGE,
        headline="Content changed, modification time did not",
        phrase=_DAMAGED,
        steps=_RESTORE_OR_ACCEPT,
        together=(
            _RESTORE_ALL,
            _CHECK_ALL,
            NextStep(
                "or look at a few of them; if a program wrote them all and restored their times, accept them together",
                "integrity accept {folder} --rewrites --reason WHY",
            ),
        ),
    ),
    KindEntry(
        kind=FindingKind.SHRUNK,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=_CONTENT,
        headline="Recorded beginning of the file changed",
        explanation="The recorded beginning of this growing file changed or is missing.",
        phrase=_DAMAGED,
        steps=_RESTORE_OR_ACCEPT,
        together=_WRITTEN_TOGETHER,
    ),
    KindEntry(
        kind=FindingKind.DEVICE_FAILING,
        weight=Weight.GAP,
        subject=Subject.DEVICE,
        traits=Trait.URGENT | Trait.CLOSES_GATE | Trait.STOPS_READING | Trait.ENDED_BY_REBIND,
        headline="Disk is failing",
        how_bad="Files on this disk may be lost: copy what you need while it can be read.",
        phrase=Phrase("disk failing", "disks failing"),
        steps=(_LOOK_AT_DISK, NextStep("after replacing the disk", "integrity root rebind {root} NEW")),
    ),
    KindEntry(
        kind=FindingKind.DISK_WARNING,
        weight=Weight.GAP,
        subject=Subject.DEVICE,
        traits=Trait.URGENT | Trait.FOREWARNING | Trait.ENDED_BY_REBIND,
        headline="Disk or array reports a problem",
        how_bad="No file is known to be damaged by it yet: there is time to act.",
        phrase=Phrase("disk warning", "disk warnings"),
        steps=(NextStep("after you moved the files to another disk", "integrity root rebind {root} NEW"),),
    ),
    KindEntry(
        kind=FindingKind.UNREADABLE,
        weight=Weight.GAP,
        subject=Subject.FILE,
        traits=_CONTENT | Trait.URGENT | Trait.CLOSES_GATE | Trait.MAY_HOLD_DAMAGE,
        headline="UNREADABLE",
        phrase=Phrase("file or folder unreadable", "files or folders unreadable"),
        steps=(
            _LOOK_AT_DISK,
            NextStep("restore the unreadable part from a backup", FROM_SOME_COPY),
            _RESTORE_YOURSELF,
        ),
        together=(_LOOK_AT_DISK, _RESTORE_ALL, _CHECK_ALL),
    ),
    KindEntry(
        kind=FindingKind.CHANGED,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=_CONTENT,
        headline="Archived file changed",
        explanation="The content of a file in an archive changed.",
        phrase=Phrase("file changed", "files changed"),
        steps=_RESTORE_OR_ACCEPT,
        together=_WRITTEN_TOGETHER,
    ),
    KindEntry(
        kind=FindingKind.ROLLED_BACK,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=_CONTENT,
        headline="Replaced by an older version",
        explanation="An older version of this archived file was put here.",
        phrase=Phrase("file rolled back", "files rolled back"),
        steps=_RESTORE_OR_ACCEPT,
        together=_WRITTEN_TOGETHER,
    ),
    KindEntry(
        kind=FindingKind.MISSING,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=Trait.URGENT | Trait.ENDED_BY_GOOD_READING | Trait.ENDED_BY_REPAIR,
        headline="MISSING",
        explanation="The file is gone from an archive.",
        phrase=Phrase("file missing", "files missing"),
        steps=(
            NextStep("restore it from a backup", FROM_SOME_COPY),
            NextStep("or restore it yourself, then scan", "integrity scan {root}"),
            NextStep("or confirm that it was deleted on purpose", "integrity accept {path} --reason WHY"),
        ),
        together=(
            NextStep("bring them back from a backup", _FROM_SOME_COPY_TOGETHER),
            NextStep("or restore them yourself, then scan", "integrity scan {root}"),
            NextStep(
                "or confirm that they were deleted on purpose", "integrity accept {folder} --deletions --reason WHY"
            ),
        ),
    ),
    KindEntry(
        kind=FindingKind.TRANSIENT,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=Trait.LEAVES_DOUBT
        | Trait.MAY_HOLD_DAMAGE
        | Trait.ENDED_BY_GOOD_READING
        | Trait.ENDED_BY_REPAIR
        | Trait.ENDED_BY_COMPARE,
        headline="Wrong data was read once",
        how_bad="The data on the disk may be intact; the machine delivered wrong data once.",
        phrase=Phrase("wrong reading", "wrong readings"),
        steps=(
            NextStep("test the memory, replace the disk's cable, then read the file again", "integrity scrub {path}"),
            NextStep("check the disk", "smartctl -a /dev/DISK"),
        ),
    ),
    KindEntry(
        kind=FindingKind.INVALID,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=Trait.OF_INODE | Trait.KEEPS_GATE_OPEN,
        headline="Fails its own check",
        how_bad="The record is intact: the file was recorded like that. It was damaged before, or was always so.",
        phrase=Phrase("file that fails its own check", "files that fail their own checks"),
        steps=(
            NextStep("see whether a backup passes", "integrity compare {path} --with COPY --read"),
            NextStep("or whether an older version of a backup has other content", "integrity versions {path}"),
            NextStep("if the file works, or was always so, accept it once", "integrity accept {path} --reason WHY"),
        ),
        together=(NextStep("see whether a backup passes", "integrity compare {folder} --with {copy} --read"),),
    ),
    KindEntry(
        kind=FindingKind.CATALOG_DAMAGED,
        weight=Weight.PROBLEM,
        subject=Subject.FILE,
        traits=Trait.URGENT | Trait.LEAVES_DOUBT | Trait.MAY_HOLD_DAMAGE | Trait.ENDED_BY_GOOD_READING,
        headline="Catalog record damaged",
        how_bad="Records in the catalog are damaged; the files themselves may be intact.",
        phrase=Phrase("record damaged", "records damaged"),
        steps=(
            NextStep("check how much of the catalog is damaged", "integrity catalog check"),
            NextStep("restore its newest backup", "integrity catalog restore"),
        ),
    ),
    KindEntry(
        kind=FindingKind.DEVICE_STALLED,
        weight=Weight.GAP,
        subject=Subject.DEVICE,
        traits=Trait.URGENT | Trait.CLOSES_GATE | Trait.STOPS_READING | Trait.ENDED_BY_REBIND,
        headline="Disk does not respond",
        how_bad="Nothing on this disk can be verified while it does not respond.",
        phrase=Phrase("disk hanging", "disks hanging"),
        steps=(NextStep("check the cables and `dmesg`, then continue", "integrity scrub {root}"),),
    ),
    KindEntry(
        kind=FindingKind.ROOT_SUSPENDED,
        weight=Weight.GAP,
        subject=Subject.FOLDER,
        traits=Trait.URGENT | Trait.CLOSES_GATE | Trait.ENDED_BY_REBIND,
        headline="Folder is not being checked",
        how_bad="No records were removed. This does not mean that a file is damaged.",
        phrase=Phrase("folder not being checked", "folders not being checked"),
        steps=(
            NextStep("mount the right disk, then continue", "integrity scan {root}"),
            NextStep("if the files are on another disk or path now", "integrity root rebind {root} NEW"),
            NextStep("if the folder is there, and correct as it is", "integrity root release {root}"),
        ),
    ),
    KindEntry(
        kind=FindingKind.COPY_DIFFERS,
        weight=Weight.PROBLEM,
        subject=Subject.COPY,
        traits=Trait.OTHER_CONTENT | Trait.ENDED_BY_COMPARE,
        headline="BACKUP DAMAGED",
        of_many="are damaged",
        step_of_many="run the backup by checksum, keeping what it replaces (rsync --checksum --backup), then compare",
        phrase=Phrase("damaged file in the backup {copy}", "damaged files in the backup {copy}"),
        phrase_of_copy=_MORE,
    ),
    KindEntry(
        kind=FindingKind.COPY_CONFLICT,
        weight=Weight.PROBLEM,
        subject=Subject.COPY,
        traits=Trait.OTHER_CONTENT | Trait.ENDED_BY_COMPARE,
        headline="File and backup differ",
        how_bad="Which side is right is not known. Nothing was overwritten; keep both until you have looked.",
        of_many="differ, and which side is right is not known",
        step_of_many=_LOOK_FIRST,
        phrase=Phrase("file differs from the backup {copy}", "files differ from the backup {copy}"),
        phrase_of_copy=_MORE,
        steps=_KEEP_ONE_SIDE,
    ),
    KindEntry(
        kind=FindingKind.COPY_NEWER,
        weight=Weight.PROBLEM,
        subject=Subject.COPY,
        traits=Trait.OTHER_CONTENT | Trait.ENDED_BY_COMPARE,
        headline="Newer in the backup",
        how_bad="This does not mean that a file is damaged: the backup may have been edited.",
        of_many="are newer",
        step_of_many=_LOOK_FIRST,
        phrase=Phrase("file newer in the backup {copy}", "files newer in the backup {copy}"),
        phrase_of_copy=_MORE,
        steps=_KEEP_ONE_SIDE,
    ),
    KindEntry(
        kind=FindingKind.COPY_MISSING,
        weight=Weight.PROBLEM,
        subject=Subject.COPY,
        traits=Trait.ENDED_BY_COMPARE,
        headline="Missing from the backup",
        of_many="are missing",
        phrase=Phrase("file missing from the backup {copy}", "files missing from the backup {copy}"),
        phrase_of_copy=_MORE,
    ),
    KindEntry(
        kind=FindingKind.COPY_STALE,
        weight=Weight.PROBLEM,
        subject=Subject.COPY,
        traits=Trait.OTHER_CONTENT | Trait.ENDED_BY_COMPARE,
        headline="Backup out of date",
        of_many="are older versions",
        step_of_many="run the backup again, keeping what it replaces (rsync --backup), then compare",
        phrase=Phrase("file out of date in the backup {copy}", "files out of date in the backup {copy}"),
        phrase_of_copy=_MORE,
    ),
    KindEntry(
        kind=FindingKind.COPY_UNREADABLE,
        weight=Weight.GAP,
        subject=Subject.COPY,
        traits=Trait.ENDED_BY_COMPARE,
        headline="Backup unreadable",
        of_many="can't be read",
        phrase=Phrase("file unreadable in the backup {copy}", "files unreadable in the backup {copy}"),
        phrase_of_copy=Phrase("backup {copy} can't be read", "backup {copy} can't be read"),
    ),
    KindEntry(
        kind=FindingKind.COPY_NOT_COMPARABLE,
        weight=Weight.GAP,
        subject=Subject.COPY,
        headline="Could not be compared with the backup",
        phrase=Phrase("file not comparable with the backup {copy}", "files not comparable with the backup {copy}"),
        phrase_of_copy=Phrase(
            "files not comparable with the backup {copy}", "files not comparable with the backup {copy}"
        ),
    ),
    KindEntry(
        kind=FindingKind.OVERDUE,
        weight=Weight.GAP,
        subject=Subject.FOLDER,
        headline="Verification overdue",
        phrase=Phrase("verification overdue", "verifications overdue"),
        phrase_of_copy=Phrase(
            "comparison with the backup {copy} overdue", "comparisons with the backup {copy} overdue"
        ),
        steps=(NextStep("verify the files that are due", "integrity scrub --due {root}"),),
    ),
    KindEntry(
        kind=FindingKind.WATCH_BLIND,
        weight=Weight.GAP,
        subject=Subject.FOLDER,
        headline="Changes are not being watched",
        phrase=Phrase("folder not watched for changes", "folders not watched for changes"),
    ),
    KindEntry(
        kind=FindingKind.UNSTABLE,
        weight=Weight.GAP,
        subject=Subject.FILE,
        traits=Trait.OF_INODE
        | Trait.CLOSES_GATE
        | Trait.LEAVES_DOUBT
        | Trait.ENDED_BY_GOOD_READING
        | Trait.ENDED_BY_REPAIR,
        headline="File keeps changing",
        phrase=Phrase("file keeps changing", "files keep changing"),
        steps=(NextStep("stop the program that writes the file, then check it", "integrity scrub {path}"),),
    ),
    KindEntry(
        kind=FindingKind.COPY_EXTRA,
        weight=Weight.NOTE,
        subject=Subject.COPY,
        headline="Only in the backup",
        phrase=Phrase("file only in the backup {copy}", "files only in the backup {copy}"),
    ),
)

KINDS = {entry.kind: entry for entry in TABLE}
GRAVITY = {entry.kind: number for number, entry in enumerate(TABLE)}

_HEADLINES = {
    (
        FindingKind.SILENT_REWRITE,
        Certainty.TIMES_MOVED_TOGETHER,
    ): "Content changed, its time moved with the times of others",
    (FindingKind.ROT, Certainty.AFTER_CRASH): "DAMAGED (bit rot or a crash)",
    (FindingKind.ROT, Certainty.INODE_MOVED): "DAMAGED or replaced by another file",
    (FindingKind.ROT, Certainty.NO_INODE): "DAMAGED or replaced by another file",
    (FindingKind.ROT, Certainty.NO_CTIME): "DAMAGED or rewritten",
    (FindingKind.COPY_DIFFERS, Certainty.NO_CTIME): "BACKUP DAMAGED or rewritten",
    (FindingKind.COPY_DIFFERS, Certainty.CUT_OFF): "BACKUP INCOMPLETE",
}
"""Where the certainty says more than the kind."""


def headline(kind: FindingKind, certainty: Certainty | None) -> str:
    """Return what people read in place of a kind, and how sure it is where that matters."""
    return KINDS[kind].headline if certainty is None else _HEADLINES.get((kind, certainty), KINDS[kind].headline)


def _find(trait: Trait) -> frozenset[FindingKind]:
    return frozenset(entry.kind for entry in TABLE if trait in entry.traits)


INTEGRITY_PROBLEMS = frozenset(entry.kind for entry in TABLE if entry.weight is Weight.PROBLEM)
"""Exit code 1."""

COVERAGE_PROBLEMS = frozenset(entry.kind for entry in TABLE if entry.weight is Weight.GAP)
"""Exit code 3: something could not be checked."""

CONTENT_FINDINGS = _find(Trait.FREEZES_BASELINE)
DAMAGE = tuple(entry.kind for entry in TABLE if entry.phrase is _DAMAGED)
"""Kinds that are told as damaged files, the gravest first; a file may have findings of several."""
ARCHIVE_FINDINGS = frozenset({FindingKind.CHANGED, FindingKind.ROLLED_BACK})
"""Files that somebody wrote to where nobody should: not as recorded, and not damaged."""
URGENT_FINDINGS = _find(Trait.URGENT)
INODE_FINDINGS = _find(Trait.OF_INODE)
STOPPED_READING = _find(Trait.STOPS_READING)
FOREWARNINGS = _find(Trait.FOREWARNING)
GATE_PROBLEMS = frozenset(
    entry.kind for entry in TABLE if entry.weight is Weight.PROBLEM and Trait.KEEPS_GATE_OPEN not in entry.traits
)
GATE_GAPS = _find(Trait.CLOSES_GATE)
DOUBTS = _find(Trait.LEAVES_DOUBT)
POSSIBLE_DAMAGE = _find(Trait.MAY_HOLD_DAMAGE)
HARDWARE_MATTERS = POSSIBLE_DAMAGE & (CONTENT_FINDINGS | frozenset({FindingKind.TRANSIENT}))
"""Disk, cable or memory may be the cause, so people are told what the disk reports."""

ENDED_BY_GOOD_READING = _find(Trait.ENDED_BY_GOOD_READING)
ENDED_BY_REPAIR = _find(Trait.ENDED_BY_REPAIR)
ENDED_BY_REBIND = _find(Trait.ENDED_BY_REBIND)
ENDED_BY_COMPARE = _find(Trait.ENDED_BY_COMPARE)
OTHER_CONTENT = _find(Trait.OTHER_CONTENT)
REPAIRABLE = CONTENT_FINDINGS | {FindingKind.MISSING}
"""A copy of the file mends it."""

ACCEPTABLE = REPAIRABLE | {FindingKind.INVALID}
"""Accepting the file as it is ends it."""
