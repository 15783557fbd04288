"""
Write messages about the findings of one machine.

A message about findings opens with what happened, how bad it is, and what to do; below are the cards of the findings,
which ``words`` makes. ``layout`` makes text, HTML and JSON of all.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from integrity import program
from integrity.alerts.layout import MOST_ENTRIES, MOST_FACTS, MailDraft, Section, write_message
from integrity.catalog.notified import PendingIncident
from integrity.catalog.outbox import AlertKind, ChannelState, Message
from integrity.config.copy_urls import PARITY
from integrity.errors import printable, show_path
from integrity.kinds import INTEGRITY_PROBLEMS, KINDS, REPAIRABLE, NextStep, Phrase, Subject
from integrity.model import Certainty, Finding, FindingKind
from integrity.paths import absolute, shell_word
from integrity.units import format_size
from integrity.words.card import Card
from integrity.words.findings import (
    ORIGINAL_UNCHANGED,
    describe_held_back,
    find_own_source,
    find_source,
    finding_object,
    gather,
    make_card,
    next_command,
    place,
    read_on,
    sort_by_gravity,
    title,
)
from integrity.words.text import utc_time

_MOST_PLACES = 1000  # blocks or ranges of one finding; the catalog has all of them
_NOT_IN_FACTS = ("names", "updated_at", "muted_until", "copy", "versions", "next_steps")
_PHRASES_SHOWN = 2
_TYPES = {
    "photo": frozenset(b"jpg jpeg heic heif png tif tiff webp cr2 cr3 nef arw dng orf rw2 raf".split()),
    "film": frozenset(b"mp4 mkv mov avi m4v mts m2ts webm".split()),
    "song": frozenset(b"mp3 flac m4a ogg opus wav aiff".split()),
}
"""What a mail calls files that are all of one type, by suffix."""

_ABSENCES = ("is not mounted", "is empty", "is not the recorded folder", "can't be opened", "does not answer")
"""Why a root is not being checked, as its message says; the subject of a mail repeats it."""

PLAN_ONLY = "`integrity repair` only prints a plan; add --apply to carry it out."
CHANGED = "Reported before; it has changed since."
_CHECK_HARDWARE = (
    "Bit rot has a cause, and a repair does not remove it: check the disk (smartctl -a /dev/DISK), its cable, the"
    " kernel log (dmesg), and the memory (memtest86+)."
)
_ROTTEN = frozenset({FindingKind.ROT, FindingKind.TRANSIENT})
_DRILL = (
    "This is a drill: `integrity daemon --self-test` damaged a test file of its own, and found the damage.",
    "None of your files is affected; the test file is removed after the test.",
    "There is nothing to do: this message shows that alerts arrive.",
)


@dataclass(frozen=True, slots=True)
class Alive:
    """The numbers in a sign of life."""

    since: int
    files: int
    size_bytes: int
    open_findings: int
    channels: tuple[ChannelState, ...]


@dataclass(frozen=True, slots=True)
class Composer:
    """
    Write the messages of one machine.

    Args:
        hostname: its first part is used in subjects.
        is_drill: the messages are about a test file that is gone when they are read.
        page_url: of the page, without a slash at the end; findings link to it. Empty: there is none.
    """

    hostname: str
    is_drill: bool = False
    page_url: str = ""
    make_token: Callable[[], str] = lambda: uuid.uuid4().hex

    def incident(
        self, news: Sequence[PendingIncident], now: int, *, files: int = 0, disks: Sequence[str] = ()
    ) -> Message:
        """
        Return the message about new and changed findings.

        Args:
            disks: what the disks below damaged files report, a sentence each.
        """
        by_id = {one.finding.id: one for one in news}
        findings = sort_by_gravity(one.finding for one in news)

        def describe_news(finding: Finding) -> Card:
            card, one = _describe(finding), by_id[finding.id]
            lines = [*([CHANGED] if one.is_change else []), *card.lines]
            (step,) = card.steps
            if one.coalesced:
                lines += [printable(step.words)] if step.words else []
                lines.append(f"{one.coalesced:,} files that could not be read are not listed one by one.")
                step = step._replace(words="")
            return card._replace(lines=tuple(lines), steps=(step,))

        section = _list_findings("", findings, describe_news)
        opening = _open(findings, files, is_known=False, disks=disks)
        if self.is_drill:
            section = Section("", tuple(Card(title(one), lines=(printable(one.message),)) for one in findings))
            opening = [*_DRILL, f"Time: {utc_time(now)}"]
        subject = "1 damaged test file" if self.is_drill else sum_up(findings)
        return self._compose(AlertKind.INCIDENT, subject, [section], findings, now, opening)

    def digest(
        self, still: Sequence[Finding], over: Sequence[Finding], now: int, *, files: int = 0, disks: Sequence[str] = ()
    ) -> Message:
        """Return the reminder of open findings and the list of those resolved since the last one; see ``incident``."""
        findings = sort_by_gravity(still)
        sections = [_list_findings("Still open", findings, _describe), _list_over(over)]
        parts = [f"still {sum_up(findings)}"] if findings else []
        parts += [f"{len(over):,} resolved"] if over else []
        kind = AlertKind.DIGEST if over else AlertKind.REMINDER
        opening = _open(findings, files, is_known=True, over=over, disks=disks)
        return self._compose(kind, "; ".join(parts), sections, [*findings, *over], now, opening)

    def all_clear(self, over: Sequence[Finding], removed: int, now: int) -> Message:
        """Return the message that every reported finding is resolved. ``removed``: with their root."""
        resolved = f"{len(over):,} finding{'s' if len(over) != 1 else ''} resolved, " if over else ""
        subject = f"all clear: {resolved}none open"
        hints = _list_hints(over, [])
        opening = ["All findings that were reported are resolved.", "No finding is open."]
        if removed:
            were = "1 finding was" if removed == 1 else f"{removed:,} findings were"
            opening += [f"{were} about a folder that is no longer watched."]
        opening += [*(hints or ["There is nothing to do."]), f"Time: {utc_time(now)}"]
        return self._compose(AlertKind.ALL_CLEAR, subject, [_list_over(over)], over, now, opening)

    def alive(self, life: Alive, now: int) -> Message:
        verified = f"{life.files:,} file{'' if life.files == 1 else 's'} ({format_size(life.size_bytes)}) verified"
        facts = [
            Card(f"{verified} by reading them from the disk since {utc_time(life.since)}"),
            Card(f"open findings: {life.open_findings:,}", steps=(NextStep("", program.command("status")),)),
        ]
        facts += [_describe_channel(state) for state in life.channels if state.failing_since is not None]
        opening = ["The service is running. If this message stops coming, it is not."]
        return self._compose(AlertKind.ALIVE, f"alive: {verified}", [Section("", tuple(facts))], [], now, opening)

    def channel(self, state: ChannelState, now: int) -> Message:
        sections = [Section("", (_describe_channel(state),))]
        opening = ["Alerts through this channel do not arrive. They wait until it works again."]
        return self._compose(AlertKind.CHANNEL, f"alerts by {printable(state.name)} fail", sections, [], now, opening)

    def catalog_trouble(self, trouble: str, now: int) -> Message:
        opening = [
            f"integrity can't write its catalog: {printable(trouble)}",
            "Until it can, nothing is verified and no damage is reported. Your files are not affected.",
            "What to do: check that the catalog's disk is mounted, writable, and not full.",
            f"Time: {utc_time(now)}",
        ]
        sections = [Section("", (Card("see also", steps=(NextStep("", program.command("status")),)),))]
        return self._compose(AlertKind.INCIDENT, "the catalog can't be written", sections, [], now, opening)

    def test(self, now: int) -> Message:
        opening = [
            "This is a test: somebody ran `integrity alert test`.",
            "It shows that alerts arrive. It says nothing about your files.",
        ]
        return self._compose(AlertKind.TEST, "test: alerts arrive", [], [], now, opening)

    def _compose(
        self,
        kind: AlertKind,
        subject: str,
        sections: Sequence[Section],
        findings: Sequence[Finding],
        now: int,
        opening: Sequence[str],
    ) -> Message:
        draft = MailDraft(
            hostname=self.hostname,
            page_url=self.page_url,
            list_all=program.command("findings"),
            kind=kind,
            subject=subject,
            opening=opening,
            sections=sections,
            facts=[_finding_facts(finding) for finding in findings[:MOST_FACTS]],
            incidents=[int(finding.id) for finding in findings],
            notice="this is a drill" if self.is_drill else "",
        )
        return write_message(draft, self.make_token(), now)


def _open(
    findings: Sequence[Finding], files: int, *, is_known: bool, over: Sequence[Finding] = (), disks: Sequence[str]
) -> list[str]:
    """Return the first lines of a message: what happened, how bad it is, what to do, when, and what to know first."""
    (first, *others) = gather(findings)
    steps = () if others else make_card(first).steps
    what = sum_up(findings).replace(": not being checked", ", so nothing there is being checked")
    problems = "a problem" if len(findings) == 1 else "problems"
    lines = [
        f"These findings are still open: {what}." if is_known else f"integrity found {problems}: {what}.",
        say_how_bad(findings, files),
        say_what_to_do(findings, steps),
        f"Found: {utc_time(min(finding.opened_at for finding in findings))}",
    ]
    return lines + _list_hints([*findings, *over], lines, disks)


def _list_hints(findings: Sequence[Finding], lines: Sequence[str], disks: Sequence[str] = ()) -> list[str]:
    """Return what to know before the advice is followed. ``lines``: the opening so far; ``disks``: what they report."""
    commands = [*lines, *(finding.command or "" for finding in findings if finding.resolution is None)]
    repairs = ("integrity repair ", program.command("repair "))
    hints = [PLAN_ONLY] if any(repair in command for command in commands for repair in repairs) else []
    rot = [_CHECK_HARDWARE] if any(finding.kind in _ROTTEN for finding in findings) else []
    hints += disks or rot
    kinds = [finding.kind for finding in findings if finding.resolution is None]
    return hints + ([f"More about this:  {read_on(kinds)}"] if kinds else [])


def _list_over(over: Sequence[Finding]) -> Section:
    def describe_end(finding: Finding) -> Card:
        return Card(f"{_head(finding)}: {printable(finding.resolution or '')}", place(finding))

    return _list_findings("Resolved", over, describe_end, are_over=True)


def _list_findings(
    title: str, findings: Sequence[Finding], describe: Callable[[Finding], Card], *, are_over: bool = False
) -> Section:
    """Return a section of findings. ``describe``: makes the card of one that is in no group."""
    groups = list(gather(findings, are_over=are_over))[:MOST_ENTRIES]
    cards = [describe(group[0]) if len(group) == 1 else make_card(group, are_over=are_over) for group in groups]
    return Section(title, tuple(cards), len(findings) - sum(card.findings for card in cards))


def _describe(finding: Finding) -> Card:
    """Return the card of an open finding as a mail has it: with the next step alone, and not how often it was read."""
    card = make_card((finding._replace(confirmed_reads=0),))
    return card._replace(title=_head(finding), steps=(NextStep(finding.step or "", next_command(finding)),))


def _head(finding: Finding) -> str:
    where = f"  in the copy {printable(finding.copy)}" if finding.copy else ""
    return f"{title(finding)}  [finding {finding.id}]{where}"


def _describe_channel(state: ChannelState) -> Card:
    since = utc_time(state.failing_since) if state.failing_since is not None else "never"
    lines = (
        f"since {since}: {printable(state.last_error or '')}",
        f"{state.waiting:,} message{'' if state.waiting == 1 else 's'} waiting",
    )
    title = f"alerts by {printable(state.name)} fail"
    return Card(title, lines=lines, steps=(NextStep("", program.command("alert test")),))


def _finding_facts(finding: Finding) -> dict[str, object]:
    facts = {key: value for key, value in finding_object(finding).items() if key not in _NOT_IN_FACTS}
    places = {
        "blocks": list(finding.blocks[:_MOST_PLACES]),
        "ranges": [list(one) for one in finding.ranges[:_MOST_PLACES]],
    }
    return {"type": "finding", "schema": 1, **facts, **places, "copy": finding.copy}


def sum_up(findings: Sequence[Finding]) -> str:
    """Return the findings in a line: "2 damaged photos, repairable from nightly; 1 file missing from the backup b"."""
    own = [finding for finding in findings if finding.copy is None]
    copies: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.copy is not None:
            copies.setdefault(finding.copy, []).append(finding)
    parts = [_sum_up_own(own)] if own else []
    return "; ".join(parts + [_sum_up_copy(copy, ones) for copy, ones in copies.items()])


def _sum_up_own(findings: Sequence[Finding]) -> str:
    """Return in words what was found in the roots, with the copy that repairs it, or else with the folder."""
    if len(findings) == 1 and findings[0].kind is FindingKind.ROOT_SUSPENDED:
        why = next((f" {reason}" for reason in _ABSENCES if reason in findings[0].message), "")
        return f"{place(findings[0])}{why}: not being checked" if why else f"{place(findings[0])} is not being checked"
    text = _count_kinds(findings)
    source = find_source(findings)
    return f"{text} in {_roots(findings)}" if source is None else f"{text}, repairable from {printable(source)}"


def _sum_up_copy(copy: str, findings: Sequence[Finding]) -> str:
    name = printable(copy)
    if all(finding.kind is FindingKind.COPY_DIFFERS and finding.path is not None for finding in findings):
        are = "1 file is" if len(findings) == 1 else f"{len(findings):,} files are"
        how = "incomplete" if all(one.certainty is Certainty.CUT_OFF for one in findings) else "damaged"
        is_unchanged = all(ORIGINAL_UNCHANGED in finding.message for finding in findings)
        original = "original unchanged" if len(findings) == 1 else "originals unchanged"
        return f"BACKUP of {are} {how}, {original}" if is_unchanged else f"BACKUP of {are} {how} ({name})"
    named = f"backup {name}" if name.lower() != "backup" else "backup"
    return _count_kinds(findings).replace("backup {copy}", named)


def _count_kinds(findings: Sequence[Finding]) -> str:
    """Return the number of each kind of finding, the gravest first: of the two gravest, and of all problems."""
    # A file is damaged once, whatever was found of it.
    subjects = {(_find_phrase(one), one.root, one.path or one.id, one.copy): None for one in sort_by_gravity(findings)}
    kinds = Counter(phrase for phrase, *_ in subjects)
    problems = {_find_phrase(finding) for finding in findings if finding.kind in INTEGRITY_PROBLEMS}
    suffixes = {(finding.path or b"").rpartition(b".")[2].lower() for finding in findings}
    noun = next((noun for noun, known in _TYPES.items() if suffixes <= known), "file")
    shown = [phrase for place, phrase in enumerate(kinds) if place < _PHRASES_SHOWN or phrase in problems]
    parts = [
        (phrase.one if phrase.one == phrase.many else phrase.of(kinds[phrase])).replace("file", noun)
        + (describe_held_back(findings) if phrase is KINDS[FindingKind.MASS_CHANGE].phrase else "")
        for phrase in shown
    ]
    more = kinds.total() - sum(kinds[phrase] for phrase in shown)
    return ", ".join(parts) + (f", {more:,} more" if more else "")


def say_how_bad(findings: Sequence[Finding], files: int) -> str:
    """Return the second sentence of a mail: how bad it is. ``files``: number of recorded files; 0 if not known."""
    damaged = [finding for finding in findings if finding.kind in REPAIRABLE and finding.path is not None]
    if damaged:
        healed = _count_subjects(finding for finding in damaged if find_own_source(finding) == PARITY)
        good = _count_subjects(finding for finding in damaged if find_own_source(finding) is not None) - healed
        if good + healed == _count_subjects(damaged) and healed:
            copies = "parity can heal " + ("it" if healed == 1 else f"{healed:,}") + " without a backup"
            copies += ", and good copies exist of the others" if good else ""
        elif good == _count_subjects(damaged):
            copies = "a good copy exists" if good == 1 else "good copies exist"
        elif good:
            copies = f"good copies exist of {good:,} of them"
        else:
            copies = "no good copy is known yet"
        return f"{_count_affected(damaged, files)} affected; {copies}."
    if KINDS[findings[0].kind].subject is Subject.COPY:
        return _say_how_bad_in_copy([finding for finding in findings if finding.copy is not None], files)
    return KINDS[findings[0].kind].how_bad


def _say_how_bad_in_copy(findings: Sequence[Finding], files: int) -> str:
    listed = [finding for finding in findings if finding.path is not None]
    if not listed:
        return "Until the backup can be compared, nothing is known about the files in it."
    if listed[0].kind in (FindingKind.COPY_CONFLICT, FindingKind.COPY_NEWER):
        return KINDS[listed[0].kind].how_bad
    if all(ORIGINAL_UNCHANGED in finding.message for finding in listed):
        return f"{_count_affected(listed, files)} affected, only in the backup: the original is as it was recorded."
    if any(finding.kind is FindingKind.COPY_NOT_COMPARABLE for finding in listed):
        return f"{_count_affected(listed, files)} affected; whether that backup has a good copy is not known."
    return f"{_count_affected(listed, files)} without a good copy in that backup."


def _count_subjects(findings: Iterable[Finding]) -> int:
    return len({(finding.root, finding.path) for finding in findings})


def _count_affected(findings: Sequence[Finding], files: int) -> str:
    """Write "2 of 22,582 files are"."""
    number = _count_subjects(findings)
    whole = f" of {files:,}" if files >= number else ""
    noun = "file" if max(files, number) == 1 else "files"
    return f"{number:,}{whole} {noun} {'is' if number == 1 else 'are'}"


def say_what_to_do(findings: Sequence[Finding], steps: Sequence[NextStep]) -> str:
    """
    Return the third sentence of a mail: what to do first.

    Args:
        findings: the gravest first.
        steps: what to do about all of them; empty: there is no such thing, or nothing is known.
    """
    first = findings[0]
    if steps:
        step = steps[0]
    elif len(findings) == 1:
        step = NextStep("read the details", next_command(first))
    elif (source := find_source(findings)) is not None and len({one.root for one in findings}) == 1:
        folder = absolute(first.root, os.path.commonpath([os.path.dirname(one.path or b"") for one in findings]))
        repair = program.command("repair", folder.rstrip(b"/") or b"/", "--from", shell_word(source))
        step = NextStep("restore the recorded content from the backup", repair)
    elif first.copy is not None and all(
        (one.kind, one.copy, one.root) == (first.kind, first.copy, first.root) for one in findings
    ):
        comparing = program.command("compare", first.root, "--with", shell_word(first.copy))
        step = NextStep(KINDS[first.kind].step_of_many, comparing)
    else:
        step = NextStep("see the next step of each below; all are listed by", program.command("findings"))
    return f"What to do: {printable(step.words)}" + (f":  {printable(step.command)}" if step.command else ".")


def _find_phrase(finding: Finding) -> Phrase:
    entry = KINDS[finding.kind]
    is_of_copy = finding.copy is not None and finding.path is None
    return entry.phrase_of_copy if is_of_copy and entry.phrase_of_copy is not None else entry.phrase


def _roots(findings: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(finding.root for finding in findings))
    # The last folder's name; the root of all has none.
    first = show_path(names[0].rstrip(b"/").rpartition(b"/")[2] or b"/")
    more = len(names) - 1
    return first if not more else f"{first} and {more:,} more folder{'s' if more > 1 else ''}"
