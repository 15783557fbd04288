"""
Every message of a finding, and every error, written once into a file that a person can proofread.

``tests/output/messages.txt`` is generated: run ``python -m pytest tests/unit/test_messages.py`` after a change, look at
the difference, and keep it if each sentence is one that an owner understands. The test fails when the file was not the
present one, and writes the present one.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import integrity
from integrity import errors
from integrity.alerts.compose import Alive, Composer
from integrity.arbitration import (
    Arbitration,
    ArbitrationOutcome,
    CopyCircumstances,
    CopyPast,
    CopyTime,
    CopyVote,
    FailingSide,
    FileState,
    Level,
    arbitrate,
)
from integrity.catalog.notified import PendingIncident
from integrity.catalog.outbox import ChannelState, Message
from integrity.catalog.runs import Interruption
from integrity.config.sample import sample
from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity
from integrity.disks.signs import Remedy, describe_for_damage, describe_trouble
from integrity.errors import Leased
from integrity.files.mirrors import Mirror
from integrity.inspect.outcome import CheckResult, OwnCheck
from integrity.jobs import messages
from integrity.jobs.byte_pattern import (
    ByteDifference,
    ByteRun,
    DifferenceFinder,
    describe_difference,
    describe_end,
    describe_fills,
)
from integrity.kinds import COVERAGE_PROBLEMS, INTEGRITY_PROBLEMS, KINDS, TABLE, NextStep, Subject, headline
from integrity.model import Certainty, Finding, FindingId, FindingKind, FindingState
from integrity.verdict import Judgement, Verdict

OUTPUT = Path(__file__).parents[1] / "output" / "messages.txt"
SOURCE = Path(integrity.__file__).parent
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.AppError)}
COPY = "nightly"
MIRROR = Mirror("md raid1", "/dev/md0", 2, "echo check > /sys/block/md0/md/sync_action")
"""A mirror of Linux's own."""


STORY = messages.CopyStory(
    copy=COPY,
    level=Level.READ,
    reason="Input/output error",
    content_of=None,
    size_bytes=120_000,
    file_size_bytes=400_000,
    mtime_ns=1_699_000_000 * 10**9,
    file_mtime_ns=1_698_000_000 * 10**9,
    has_times=True,
    has_ctime=True,
    found_at=1_699_500_000,
    recorded_at=1_699_500_000,
)


def test_messages_are_proofread() -> None:
    """The file holds what the program says now."""
    now = "\n".join(write_all()) + "\n"
    former = OUTPUT.read_text() if OUTPUT.exists() else ""
    if former != now:
        OUTPUT.parent.mkdir(exist_ok=True)
        OUTPUT.write_text(now)

    assert former == now, f"messages changed: proofread {OUTPUT}, and commit it"


_NOT_OF_ROT = (Certainty.CTIME_MOVED, Certainty.TIMES_MOVED_TOGETHER, Certainty.CUT_OFF)
_OF_ROT = [one for one in Certainty if one not in _NOT_OF_ROT]


def write_all() -> Iterator[str]:
    """Write the kinds with their steps, then each message under the name of its function."""
    yield "Kinds of findings, the gravest first"
    for entry in TABLE:
        yield f"\n{entry.headline}  ({entry.kind.value}; subject: 1 {entry.phrase.one}, 2 {entry.phrase.many})"
        if entry.explanation:
            yield f"    {entry.explanation}"
        yield from write_steps(entry.steps)
        if entry.together:
            yield "    several in one folder"
            yield from write_steps(entry.together)
    yield "\nRot, by how sure it is"
    for certainty in _OF_ROT:
        for text in dict.fromkeys(write_rot(certainty)):
            yield f"\n{headline(FindingKind.ROT, certainty)}\n    {text}"
    yield "\nContent changed, modification time did not"
    for is_odd in (False, True):
        judgement = Judgement(Verdict.SILENT_REWRITE, Certainty.CTIME_MOVED, is_odd=is_odd)
        yield f"    {messages.describe(judgement, FindingKind.SILENT_REWRITE)}"
    judgement = Judgement(Verdict.SILENT_REWRITE, Certainty.TIMES_MOVED_TOGETHER)
    yield f"\n{headline(FindingKind.SILENT_REWRITE, judgement.certainty)}"
    yield f"    {messages.describe(judgement, FindingKind.SILENT_REWRITE)}"
    yield "\nCopies: what is said, and what to do"
    for text in dict.fromkeys(write_arbitrations()):
        yield f"    {text}"
    yield "\nMails"
    for message in write_mails():
        yield f"\nSubject: {message.subject}\n\n{message.body}"
    yield "\nHow a mail begins that is about each kind"
    for message in write_mails_of_kinds():
        yield "\n" + message.body.partition("integrity found a problem: ")[2].partition("\nFound: ")[0]
    yield "\nThe sample configuration\n"
    yield from (line for line in sample().splitlines() if not line.startswith("catalog ="))
    yield "\nOther messages"
    for name, text in write_others():
        yield f"\n{name}\n    {text}"
    yield "\nErrors, as the source has them"
    for path in sorted(SOURCE.rglob("*.py")):
        texts = sorted(set(find_error_texts(ast.parse(path.read_text()))))
        if texts:
            yield f"\n{path.relative_to(SOURCE)}"
            yield from (f"    {text}" for text in texts)


def write_steps(steps: Iterable[NextStep]) -> Iterator[str]:
    """Write what to do, a line each."""
    for step in steps:
        yield f"    - {step.words}" + (f":  {step.command}" if step.command else "")


def make_finding(number: int, kind: FindingKind, **changes: object) -> Finding:
    """Make a finding as its kind has it: about a photo, a folder, or a copy."""
    entry = KINDS[kind]
    is_of_file = entry.subject in (Subject.FILE, Subject.COPY)
    fields: dict[str, object] = {
        "id": FindingId(number),
        "kind": kind,
        "state": FindingState.OPEN,
        "root": b"/srv/photos",
        "path": b"2019/img_%04d.jpg" % number if is_of_file else None,
        "message": entry.explanation or f"({kind.value})",
        "opened_at": 1_700_000_000,
        "updated_at": 1_700_000_000,
        "copy": COPY if entry.subject is Subject.COPY else None,
    }
    return Finding(**fields | changes)  # type: ignore[arg-type]


def make_damaged(number: int) -> Finding:
    """Make rot of a photo that the backup has intact."""
    return make_finding(
        number,
        FindingKind.ROT,
        message=messages.describe(Judgement(Verdict.ROT, Certainty.PROVEN), FindingKind.ROT),
        certainty=Certainty.PROVEN,
        blocks=(number - 1,),
        block_size_bytes=1 << 20,
        ranges=(((number - 1) << 20, 1 << 20),),
        confirmed_reads=2,
        step="restore the damaged part from the copy",
        command=f"integrity repair /srv/photos/2019/img_{number:04}.jpg --from {COPY}",
    )


MAILS = Composer("nas.example.org", page_url="https://nas.example.org:8431", make_token=lambda: "1")
NOW = 1_700_000_060


def tell(*findings: Finding) -> Message:
    """Write the mail about findings."""
    return MAILS.incident([PendingIncident(one, is_change=False, coalesced=0) for one in findings], NOW, files=22_582)


def write_mails_of_kinds() -> Iterator[Message]:
    """Write a mail about each kind of finding."""
    for number, kind in enumerate(sorted(INTEGRITY_PROBLEMS | COVERAGE_PROBLEMS), 6):
        yield tell(make_finding(number, kind))


def write_mails() -> Iterator[Message]:
    """Write a mail of every kind of mail."""
    damaged = [make_damaged(1), make_damaged(2)]
    over = [make_finding(3, FindingKind.ROT, resolution=f"repaired from {COPY} (block 1)", state=FindingState.RESOLVED)]
    yield tell(*damaged)
    reason = "/srv/tank: the disk is not mounted, or a different one is"
    yield tell(make_finding(4, FindingKind.ROOT_SUSPENDED, root=b"/srv/tank", message=messages.suspended(reason)))
    arbitration = arbitrate(
        Judgement(Verdict.INTACT), CopyVote.DIFFERS, CopyCircumstances(CopyTime.SAME, CopyPast.UNTOUCHED)
    )
    text = messages.describe_arbitration(arbitration, FileState.GOOD, STORY)
    command = "cp --backup=numbered -p /srv/photos/2019/img_0005.jpg /mnt/backup/photos/2019/img_0005.jpg"
    yield tell(make_finding(5, FindingKind.COPY_DIFFERS, message=text, step=arbitration.words, command=command))
    yield MAILS.digest(damaged, over, NOW, files=22_582)
    yield MAILS.digest(damaged, [], NOW, files=22_582)
    yield MAILS.all_clear(over, 1, NOW)
    failing = ChannelState("mail:me@example.org", 2, None, 1_700_000_000, 1_700_000_000, False, "Connection refused")
    yield MAILS.alive(Alive(1_697_408_000, 22_582, 84 << 30, 0, (failing,)), NOW)
    yield MAILS.channel(failing, NOW)
    yield MAILS.catalog_trouble("/var/lib/integrity/catalog.db: No space left on device", NOW)
    yield MAILS.test(NOW)
    yield Composer("nas.example.org", is_drill=True, make_token=lambda: "1").incident(
        [PendingIncident(damaged[0], is_change=False, coalesced=0)], NOW
    )


def write_rot(certainty: Certainty) -> Iterator[str]:
    """Write what is said of rot: plain, and with all that can be added."""
    causes: list[Interruption | None] = [None]
    if certainty is Certainty.AFTER_CRASH:
        causes = [
            Interruption(is_of_machine=True, seen_at=None),
            Interruption(is_of_machine=False, seen_at=1_700_000_000),
        ]
    for cause in causes:
        yield messages.describe(Judgement(Verdict.ROT, certainty), FindingKind.ROT, cause)
    everything = Judgement(Verdict.ROT, certainty, is_structural=True, is_odd=True, may_be_misrecorded=True)
    yield messages.describe(everything, FindingKind.ROT, causes[-1])


def write_arbitrations() -> Iterator[str]:
    """Write each outcome of a vote with each state of the file, and each witness."""
    verdicts = (Verdict.INTACT, Verdict.ROT, Verdict.CHANGED, Verdict.UNREADABLE)
    for verdict in verdicts:
        for vote in CopyVote:
            for are_equal in (False, True):
                found = arbitrate(Judgement(verdict), vote, are_equal=are_equal, has_good_blocks=are_equal)
                if found.finding is not None:
                    level = None if vote in (CopyVote.MISSING, CopyVote.UNREADABLE) else Level.READ
                    yield describe(found, verdict, STORY._replace(level=level))
    times = CopyTime.SAME, CopyTime.OLDER, CopyTime.NEWER, CopyTime.NONE
    several = [
        *(CopyCircumstances(time) for time in times),
        *(CopyCircumstances(CopyTime.SAME, past) for past in (CopyPast.TOUCHED, CopyPast.UNTOUCHED)),
        *(CopyCircumstances(CopyTime.SAME, failing=side) for side in FailingSide),
        CopyCircumstances(CopyTime.NEWER, is_beginning=True),
        CopyCircumstances(contradicts_store=True),
        CopyCircumstances(was_here=True),
    ]
    for one in several:
        vote = CopyVote.OLDER if one.was_here else CopyVote.DIFFERS
        found_at = STORY.found_at if one.past is not CopyPast.UNKNOWN else None
        story = STORY._replace(found_at=found_at, recorded_at=found_at, has_times=one.time is not CopyTime.NONE)
        yield describe(arbitrate(Judgement(Verdict.INTACT), vote, one), Verdict.INTACT, story)
    damaged = CopyCircumstances(CopyTime.SAME, CopyPast.UNTOUCHED, has_ctime=True)
    both = arbitrate(Judgement(Verdict.ROT), CopyVote.DIFFERS, damaged, has_good_blocks=True)
    yield describe(both, Verdict.ROT, STORY)
    beside = (("weekly", CopyVote.SAME, 1_699_000_000), ("list.md5", CopyVote.DIFFERS, 1_698_000_000))
    conflict = arbitrate(Judgement(Verdict.INTACT), CopyVote.DIFFERS)
    yield describe(conflict, Verdict.INTACT, STORY._replace(beside=beside, found_at=None, recorded_at=None))


def describe(found: Arbitration, verdict: Verdict, story: messages.CopyStory) -> str:
    """Write one outcome and its step; what is not comparable is only counted."""
    if found.outcome is ArbitrationOutcome.NOT_COMPARABLE:
        text = messages.not_comparable(Counter({messages.NOTHING_STATED: 1200, messages.LISTED_TWICE: 3}), COPY)
    else:
        state = {Verdict.INTACT: FileState.GOOD, Verdict.UNREADABLE: FileState.LOST}.get(verdict, FileState.DAMAGED)
        text = messages.describe_arbitration(found, state, story)
    return f"{text}\n        - {found.words}:  {found.command}"


def write_own_checks() -> Iterator[str]:
    """Write what fails its own check: since the first record, after one that passed, after an untested one."""
    zipped = OwnCheck(CheckResult.FAILS, "zip", True, "the checksum of its entry 'a.txt' is wrong")
    picture = OwnCheck(CheckResult.FAILS, "JPEG", False, "it can't be decoded to its end: image file is truncated")
    votes = [(COPY, CopyVote.SAME), ("weekly", CopyVote.DIFFERS), ("list.md5", CopyVote.UNREADABLE)]
    yield messages.own_check_failed(zipped, 1, 1_700_000_000, None, votes)
    yield messages.own_check_failed(picture, 3, 1_700_000_000, CheckResult.WHOLE, [])
    yield messages.own_check_failed(picture, 3, 1_700_000_000, None, [("weekly", CopyVote.MISSING)])


def write_others() -> Iterator[tuple[str, str]]:
    """Write every other message under its name."""
    yield from ((name, value) for name, value in vars(messages).items() if name.isupper() and isinstance(value, str))
    rot = messages.describe(Judgement(Verdict.ROT, Certainty.PROVEN), FindingKind.ROT)
    command = "integrity scan /srv/photos"
    yield "linked", messages.linked("2019/a.jpg", rot)
    yield "copied", messages.copied("2019/a.jpg", rot)
    yield "renamed", messages.renamed("2019/a.jpg", rot)
    yield "restored", messages.restored(1_700_000_000)
    yield "of_newer_content", messages.of_newer_content(rot)
    yield "transient", messages.transient(is_unsteady=False)
    yield "transient, unsteady", messages.transient(is_unsteady=True)
    yield from (("seen_in_data", rot + messages.seen_in_data(text)) for text in write_byte_patterns())
    yield "on_mirror", rot + messages.on_mirror(MIRROR, ["sdb1"], is_one_copy=True)
    yield "on_mirror, no copy known", rot + messages.on_mirror(MIRROR, [], is_one_copy=True)
    yield "one_good_copy", messages.one_good_copy(MIRROR)
    yield "unreadable", messages.unreadable("Input/output error", [(4096, 4096), (12288, 4096)], is_recorded=True)
    yield "unreadable, not opened", messages.unreadable("Permission denied", [], is_recorded=True)
    yield "unreadable, not recorded", messages.unreadable("Permission denied", [], is_recorded=False)
    yield "unstable", messages.unstable()
    yield "unstable, leased", messages.unstable(Leased("leased"))
    yield from (("own_check_failed", text) for text in write_own_checks())
    yield "missing", messages.missing("; a folder stands in its place")
    yield "vanished", messages.vanished(command)
    yield "displaced", messages.displaced(command, None)
    yield "suspended", messages.suspended("The disk for /srv/photos is not mounted")
    yield "never_there", messages.never_there("There is no folder /srv/photos")
    yield "ransomware", messages.ransomware(["412 files were rewritten with random data"])
    yield "mass_change", messages.mass_change(812, 20, 2_000, 100, None)
    yield "lost_storage", messages.mass_change(0, 700, 4_200, 0, messages.lost_storage(24 << 40, 20 << 40))
    yield "unshown", messages.unshown(1)
    yield "unshown, several", messages.unshown(4)
    yield "about_device", messages.about_device("sda", Remedy.REPLACE.value)
    yield from (("disks", text) for text in write_disks())
    yield "device_failing", messages.device_failing(100)
    yield "many_more", messages.many_more(FindingKind.COPY_MISSING, 4_000, COPY)
    yield "unreachable", messages.unreachable("Connection refused", 0)
    yield "unreachable, lost", messages.unreachable("Connection reset", 512)
    yield "file_not_read", messages.file_not_read("Input/output error")
    yield "strange", messages.strange(812)
    yield "strange, no names", messages.strange(0)
    yield "extra", messages.extra(is_here=False)
    yield "extra, not recorded", messages.extra(is_here=True)
    yield "strange_and_short", messages.strange_and_short(12, 22_582)
    yield "more_troubles", messages.more_troubles(17)
    yield "gone_silent", messages.gone_silent("Transport endpoint is not connected")
    yield "renamed_in_copy", messages.renamed_in_copy(b"2018/a.jpg", COPY)
    yield "copy_transient", messages.copy_transient(COPY)


def write_disks() -> Iterator[str]:
    """Write what is told of each value that a disk or an array reports, then why one could not be read."""
    at = 1_700_000_000
    for kind, name, label in ((DeviceKind.DISK, "sda", "WDC WD40EFRX, serial WD-1"), (DeviceKind.ZFS, "tank", "")):
        failed = DeviceReport(name, kind, label, at, at, is_healthy=False, state="degraded")
        yield from describe_for_damage([failed], at)
    for quantity in Quantity:
        count = Count(8, 5, at)
        disk = DeviceReport("sda", DeviceKind.DISK, "WDC WD40EFRX, serial WD-1", at, at, counts={quantity: count})
        yield from describe_for_damage([disk], at)
    for trouble in sorted(set(DeviceTrouble) - {DeviceTrouble.ASLEEP}):
        yield describe_trouble(replace(disk, trouble=trouble))


def write_byte_patterns() -> Iterator[str]:
    """Write what is told of bytes, for each shape."""
    good, page = random.Random(1).randbytes(200_000), random.Random(2).randbytes(4096)
    for at, new in [
        (1_000, bytes([good[1_000] ^ 8])),
        (1_000, bytes([good[1_000] ^ 9])),
        (8_192, bytes(4096)),
        (8_192, b"\xff" * 4096),
        (8_192, bytes(191_808)),
        (8_192, page),
        (8_192, page[:700]),
        (195_904, page),
    ]:
        bad = good[:at] + new + good[at + len(new) :]
        yield describe_difference(find_difference(good, bad))
    yield describe_difference(find_difference(good[:-4096], good))
    yield describe_end(120_000, 400_000)
    for runs in ([ByteRun(8_192, 4096, 0)], [ByteRun(0, 512, 255), ByteRun(8_192, 512, 255)]):
        yield describe_fills(runs)


def find_difference(file: bytes, copy: bytes) -> ByteDifference:
    """Compare two versions of a file."""
    finder = DifferenceFinder()
    finder.add(0, file, copy)
    return finder.finish(len(file), len(copy))


def find_error_texts(module: ast.Module) -> Iterator[str]:
    """Find the texts of errors that people see; what is not known before the program runs stands in braces."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value
                elif isinstance(argument, ast.JoinedStr):
                    yield "".join(map(write_part, argument.values))


def write_part(node: ast.expr) -> str:
    """Write a part of a text, or the name of what stands there: ``{path}`` for ``show_path(plan.path)``."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(ast.Call(ast.Attribute(ast.Name("program"), name), words)):
            return " ".join(["sudo integrity" if name == "sudo_command" else "integrity", *map(write_word, words)])
        case ast.FormattedValue(value=value):
            return f"{{{find_name(value)}}}"
        case _:
            raise AssertionError(ast.dump(node))


def write_word(node: ast.expr) -> str:
    """Write a word of a command."""
    return str(node.value) if isinstance(node, ast.Constant) else f"{{{find_name(node)}}}"


def find_name(node: ast.expr) -> str:
    """Find the name of what an expression is about."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(args=[first, *_]):
            return find_name(first)
        case ast.Call(func=function):
            return find_name(function)
        case ast.BoolOp(values=[first, *_]):
            return find_name(first)
        case _:
            return "..."
