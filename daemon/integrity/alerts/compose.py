"""
Write messages about the findings of one machine.

Decides how each finding is described. Many similar findings about one backup copy become one entry with a count and a
few examples: a backup that did not run causes thousands of findings with one cause and one remedy. A message about
findings opens with what happened, how bad it is, and what to do. ``layout`` makes text, HTML and JSON of it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from integrity import program
from integrity.alerts.layout import (
    MOST_ENTRIES,
    MOST_FACTS,
    Layout,
    MailDraft,
    MailEntry,
    Section,
    iso_utc,
)
from integrity.alerts.wording import (
    DATA_SHOWS,
    damage,
    next_command,
    next_steps,
    other_names,
    place,
    read_on,
    say_how_bad,
    say_what,
    say_what_to_do,
    sort_by_gravity,
    spell_steps,
    steps_together,
    sum_up,
    title,
    utc_time,
)
from integrity.catalog.notified import PendingIncident
from integrity.catalog.outbox import AlertKind, ChannelState, Message
from integrity.config import format_size
from integrity.errors import printable, show_path
from integrity.kinds import KINDS, NextStep
from integrity.model import Finding, FindingKind
from integrity.paths import absolute, path_fields, shell_path

_MOST_SINGLE, _MOST_SINGLE_ABOUT_COPY = 2, 5
"""Up to this many similar findings about one folder, or about one copy, are listed individually."""

_EXAMPLES = 3
_FOLDERS = 5
_MOST_PLACES = 1000  # blocks or ranges of one finding; the catalog has all of them


class SameText(NamedTuple):
    """The values that all findings of a group share; ``copy`` is empty for files here, which are told by folder."""

    root: bytes
    folder: bytes
    copy: str
    kind: FindingKind
    text: str  # the message, or the resolution
    steps: tuple[NextStep, ...]  # what to do about all of them, best first; commands as they are stored


class AlertGroup(NamedTuple):
    """Findings about one copy, or about the files of one folder, that share their text."""

    same: SameText
    findings: tuple[Finding, ...]

    @property
    def steps(self) -> list[NextStep]:
        """What to do about all of them, best first, with commands as they can be typed."""
        return spell_steps(self.same.steps)


def list_findings(
    title: str, findings: Sequence[Finding], describe: Callable[[Finding], MailEntry], *, are_over: bool = False
) -> Section:
    """
    Return a section of findings.

    Args:
        title: of the section.
        findings: in display order.
        describe: makes the entry of a finding that is not in a group.
        are_over: the findings are resolved: show the resolution, and no command.
    """
    items = list(gather(findings, are_over=are_over))
    entries = [describe(one) if isinstance(one, Finding) else _advise_group(one) for one in items[:MOST_ENTRIES]]
    return Section(title, tuple(entries), len(findings) - sum(entry.count for entry in entries))


def describe(finding: Finding) -> MailEntry:
    """Return the entry of an open finding."""
    found = damage(finding)
    names = other_names(finding)
    details = [printable(finding.message), *([f"damaged: {found}"] if found else []), *([names] if names else [])]
    details += [printable(finding.step)] if finding.step else []
    return MailEntry(_head(finding), place(finding), tuple(details), next_command(finding), number=finding.id)


def describe_pending(news: PendingIncident) -> MailEntry:
    """Return the entry of a new or changed finding."""
    entry = describe(news.finding)
    details = list(entry.details)
    if news.is_change:
        details.insert(0, "Reported before; it has changed since.")
    if news.coalesced:
        details.append(f"{news.coalesced:,} files that could not be read are not listed one by one.")
    return replace(entry, details=tuple(details))


def describe_end(finding: Finding) -> MailEntry:
    """Return the entry of a resolved finding."""
    return MailEntry(f"{_head(finding)}: {printable(finding.resolution or '')}", place(finding))


def describe_channel(state: ChannelState) -> MailEntry:
    """Return the entry of a failing channel."""
    since = utc_time(state.failing_since) if state.failing_since is not None else "never"
    details = (
        f"since {since}: {printable(state.last_error or '')}",
        f"{state.waiting:,} message{'' if state.waiting == 1 else 's'} waiting",
    )
    return MailEntry(f"alerts by {printable(state.name)} fail", "", details, program.command("alert test"))


def _head(finding: Finding) -> str:
    where = f"  in the copy {printable(finding.copy)}" if finding.copy else ""
    return f"{title(finding)}  [finding {finding.id}]{where}"


def gather(findings: Sequence[Finding], *, are_over: bool = False) -> Iterator[Finding | AlertGroup]:
    """Group similar findings about one copy or folder, at the place of the first one. Yield all others unchanged."""
    groups: dict[SameText, list[Finding]] = {}
    keys = [_key_of(finding, is_over=are_over) for finding in findings]
    for finding, key in zip(findings, keys, strict=True):
        if key is not None:
            groups.setdefault(key, []).append(finding)
    for finding, key in zip(findings, keys, strict=True):
        if key is None or len(groups[key]) <= (_MOST_SINGLE_ABOUT_COPY if key.copy else _MOST_SINGLE):
            yield finding
        elif groups[key][0] is finding:
            yield AlertGroup(key, tuple(groups[key]))


def _key_of(finding: Finding, *, is_over: bool) -> SameText | None:
    together = KINDS[finding.kind].together
    if finding.path is None or (finding.copy is None and not together):
        return None
    folder = b"" if finding.copy is not None else finding.path.rpartition(b"/")[0]
    shared = (finding.root, folder, finding.copy or "", finding.kind)
    if is_over:
        return SameText(*shared, finding.resolution or "", ())
    text = finding.message.partition(f" {DATA_SHOWS}")[0]
    steps = steps_together(finding, folder) if finding.copy is None else (_step_about_copy(finding),)
    return SameText(*shared, text, steps)


def _step_about_copy(finding: Finding) -> NextStep:
    """Return what to do about several findings about a copy that say the same as this one."""
    file, root = shell_path(absolute(finding.root, finding.path)), shell_path(finding.root)
    command = finding.command or "integrity findings"
    if command.startswith("integrity compare --blocks "):  # shows one file
        return NextStep(KINDS[finding.kind].step_of_many, f"integrity findings --kind {finding.kind}")
    command = command.replace(file, root if command.startswith("integrity compare ") else "FILE")
    return NextStep(finding.step or "see all of them", command)


def describe_group(group: AlertGroup) -> MailEntry:
    """Return the entry of a group without what to do: count, folders, examples."""
    same, findings = group
    details = [printable(same.text), *([f"in {_list_folders(findings)}"] if same.copy else [])]
    details += [f"such as {place(finding)}" for finding in findings[:_EXAMPLES]]
    where = f", in the copy {printable(same.copy)}" if same.copy else ""
    head = f"{len(findings):,} findings: {title(findings[0])}{where}"
    return MailEntry(head, show_path(absolute(same.root, same.folder or None)), tuple(details), count=len(findings))


def _advise_group(group: AlertGroup) -> MailEntry:
    """Return the entry of a group with what to do about all of them."""
    entry = describe_group(group)
    if not group.steps:
        return entry
    first, *others = group.steps
    return replace(
        entry,
        details=(*entry.details, printable(first.words)),
        command=printable(first.command or ""),
        others=tuple(printable(f"{step.words}:  {step.command}") for step in others),
    )


def _list_folders(findings: Sequence[Finding]) -> str:
    """Return the folders with the most of these findings: "2019/italy (40), 2020 (12) and 9 more folders"."""
    counts = Counter((finding.path or b"").rpartition(b"/")[0] for finding in findings)
    shown = [f"{show_path(folder) or '.'} ({count:,})" for folder, count in counts.most_common(_FOLDERS)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more folder{'s' if more > 1 else ''}" if more else "")


_PLAN_ONLY = "`integrity repair` only prints a plan; add --apply to carry it out."
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
        make_token: returns the unique part of a Message-ID.
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
            news: at least one.
            now: seconds UTC.
            files: number of recorded files.
            disks: what the disks below damaged files report, a sentence each.
        """
        by_id = {one.finding.id: one for one in news}
        findings = sort_by_gravity(one.finding for one in news)
        section = list_findings("", findings, lambda finding: describe_pending(by_id[finding.id]))
        opening = _open(findings, files, is_known=False, disks=disks)
        if self.is_drill:
            section = Section("", tuple(MailEntry(title(one), details=(printable(one.message),)) for one in findings))
            opening = [*_DRILL, f"Time: {utc_time(now)}"]
        subject = "1 damaged test file" if self.is_drill else sum_up(findings)
        return self._compose(AlertKind.INCIDENT, subject, [section], findings, now, opening)

    def digest(
        self, still: Sequence[Finding], over: Sequence[Finding], now: int, *, files: int = 0, disks: Sequence[str] = ()
    ) -> Message:
        """Return the reminder of open findings and the list of those resolved since the last one; see ``incident``."""
        findings = sort_by_gravity(still)
        sections = [list_findings("Still open", findings, describe), _list_over(over)]
        parts = [f"still {sum_up(findings)}"] if findings else []
        parts += [f"{len(over):,} resolved"] if over else []
        kind = AlertKind.DIGEST if over else AlertKind.REMINDER
        opening = _open(findings, files, is_known=True, over=over, disks=disks)
        return self._compose(kind, "; ".join(parts), sections, [*findings, *over], now, opening)

    def all_clear(self, over: Sequence[Finding], removed: int, now: int) -> Message:
        """
        Return the message that every reported finding is resolved.

        Args:
            over: the resolved ones.
            removed: number of those that no longer exist, because their root was removed.
            now: seconds UTC.
        """
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
        """Return the periodic sign of life, so that a missing mail reveals a dead service."""
        verified = f"{life.files:,} file{'' if life.files == 1 else 's'} ({format_size(life.size_bytes)}) verified"
        facts = [
            MailEntry(f"{verified} by reading them from the disk since {utc_time(life.since)}"),
            MailEntry(f"open findings: {life.open_findings:,}", command=program.command("status")),
        ]
        facts += [describe_channel(state) for state in life.channels if state.failing_since is not None]
        opening = ["The service is running. If this message stops coming, it is not."]
        return self._compose(AlertKind.ALIVE, f"alive: {verified}", [Section("", tuple(facts))], [], now, opening)

    def channel(self, state: ChannelState, now: int) -> Message:
        """Return the message that another channel fails."""
        sections = [Section("", (describe_channel(state),))]
        opening = ["Alerts through this channel do not arrive. They wait until it works again."]
        return self._compose(AlertKind.CHANNEL, f"alerts by {printable(state.name)} fail", sections, [], now, opening)

    def catalog_trouble(self, trouble: str, now: int) -> Message:
        """Return the message that the catalog can't be written, so no finding can be recorded."""
        opening = [
            f"integrity can't write its catalog: {printable(trouble)}",
            "Until it can, nothing is verified and no damage is reported. Your files are not affected.",
            "What to do: check that the catalog's disk is mounted, writable, and not full.",
            f"Time: {utc_time(now)}",
        ]
        sections = [Section("", (MailEntry("see also", command=program.command("status")),))]
        return self._compose(AlertKind.INCIDENT, "the catalog can't be written", sections, [], now, opening)

    def test(self, now: int) -> Message:
        """Return the message of ``integrity alert test``."""
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
            kind=kind,
            subject=subject,
            opening=opening,
            sections=sections,
            facts=[_finding_fields(finding) for finding in findings[:MOST_FACTS]],
            incidents=[int(finding.id) for finding in findings],
            notice="this is a drill" if self.is_drill else "",
        )
        return Layout(self.hostname, self.page_url).write(draft, self.make_token(), now)


def _open(
    findings: Sequence[Finding], files: int, *, is_known: bool, over: Sequence[Finding] = (), disks: Sequence[str]
) -> list[str]:
    """Return the first lines of a message: what happened, how bad it is, what to do, when, and what to know first."""
    (first, *others) = gather(findings)
    steps = [] if others else first.steps if isinstance(first, AlertGroup) else next_steps(first)
    lines = [
        say_what(findings, is_known=is_known),
        say_how_bad(findings, files),
        say_what_to_do(findings, steps),
        f"Found: {utc_time(min(finding.opened_at for finding in findings))}",
    ]
    return lines + _list_hints([*findings, *over], lines, disks)


def _list_hints(findings: Sequence[Finding], lines: Sequence[str], disks: Sequence[str] = ()) -> list[str]:
    """Return what to know before the advice is followed. ``lines``: the opening so far; ``disks``: what they report."""
    commands = [*lines, *(finding.command or "" for finding in findings if finding.resolution is None)]
    repairs = ("integrity repair ", program.command("repair "))
    hints = [_PLAN_ONLY] if any(repair in command for command in commands for repair in repairs) else []
    rot = [_CHECK_HARDWARE] if any(finding.kind in _ROTTEN for finding in findings) else []
    hints += disks or rot
    kinds = [finding.kind for finding in findings if finding.resolution is None]
    return hints + ([f"More about this:  {read_on(kinds)}"] if kinds else [])


def _list_over(over: Sequence[Finding]) -> Section:
    return list_findings("Resolved", over, describe_end, are_over=True)


def _finding_fields(finding: Finding) -> dict[str, object]:
    return {
        "type": "finding",
        "schema": 1,
        "id": finding.id,
        "kind": finding.kind.value,
        "certainty": finding.certainty.value if finding.certainty else None,
        **path_fields("path", absolute(finding.root, finding.path)),
        **path_fields("root", finding.root),
        "opened_at": iso_utc(finding.opened_at),
        "state": finding.state.value,
        "blocks": list(finding.blocks[:_MOST_PLACES]),
        "block_size_bytes": finding.block_size_bytes,
        "ranges": [list(each) for each in finding.ranges[:_MOST_PLACES]],
        "confirmed_reads": finding.confirmed_reads,
        "resolved_at": None if finding.resolved_at is None else iso_utc(finding.resolved_at),
        "resolution": finding.resolution,
        "message": finding.message,
        "copy": finding.copy,
    }
