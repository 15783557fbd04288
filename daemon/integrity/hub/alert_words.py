"""Write messages about the findings of the hub: what happened on which box, how bad it is, and what to run where."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from integrity.alerts.compose import CHANGED, PLAN_ONLY
from integrity.alerts.layout import MOST_ENTRIES, MOST_FACTS, MailDraft, Section, write_message
from integrity.catalog.outbox import AlertKind, Message
from integrity.errors import printable
from integrity.hub.findings import HubFinding, hub_finding_object
from integrity.hub.kinds import FOUND_BY_BOX, HUB_GRAVITY, HUB_KINDS, HubFindingKind
from integrity.kinds import NextStep
from integrity.words.card import Card
from integrity.words.text import utc_time

_PHRASES_SHOWN = 2
_FACTS = (
    *("id", "kind", "certainty", "set", "box", "path", "path_b64", "opened_at", "state", "headline", "explanation"),
    *("command", "command_box", "resolved_at", "resolution", "evidence"),
)


@dataclass(frozen=True, slots=True)
class HubComposer:
    """
    Write the messages of a hub.

    Args:
        hostname: its first part is used in subjects.
        page_url: of the pages of the hub, without a slash at the end; empty: there are none.
    """

    hostname: str
    page_url: str = ""

    def incident(self, news: Sequence[HubFinding], changed: frozenset[int], now: int) -> Message:
        """Return the message about new and changed findings. ``changed``: numbers of those reported before."""
        found = sort_by_gravity(news)
        entries = tuple(_describe(one, is_changed=one.id in changed) for one in found[:MOST_ENTRIES])
        opening = [f"The hub found {'a problem' if len(found) == 1 else 'problems'}: {sum_up(found)}.", *_open(found)]
        return self._write(AlertKind.INCIDENT, sum_up(found), opening, [_section("", entries, len(found))], found, now)

    def digest(self, still: Sequence[HubFinding], over: Sequence[HubFinding], now: int) -> Message:
        """Return the reminder of unresolved findings, and the list of those that ended since the last one."""
        found = sort_by_gravity(still)
        entries = tuple(_describe(one) for one in found[:MOST_ENTRIES])
        opening = [f"These findings are still open: {sum_up(found)}.", *_open(found)]
        sections = [_section("Still open", entries, len(found)), _list_over(over)]
        subject = f"still {sum_up(found)}" + (f"; {len(over):,} resolved" if over else "")
        kind = AlertKind.DIGEST if over else AlertKind.REMINDER
        return self._write(kind, subject, opening, sections, [*found, *over], now)

    def all_clear(self, over: Sequence[HubFinding], now: int) -> Message:
        subject = f"all clear: {len(over):,} finding{'s' if len(over) != 1 else ''} resolved, none open"
        opening = [
            "All findings of the hub that were reported are resolved.",
            "No finding is open.",
            "There is nothing to do.",
            f"Time: {utc_time(now)}",
        ]
        return self._write(AlertKind.ALL_CLEAR, subject, opening, [_list_over(over)], over, now)

    def _write(
        self,
        kind: AlertKind,
        subject: str,
        opening: Sequence[str],
        sections: Sequence[Section],
        found: Sequence[HubFinding],
        now: int,
    ) -> Message:
        ids = [one.id for one in found]
        # The same after a crash between sending and recording: then mail programs show it once.
        token = hashlib.sha256(repr((kind, [(one.id, one.updated_at) for one in found])).encode()).hexdigest()[:32]
        see = f"see {self.page_url}/findings" if self.page_url else "see the findings on the page of the hub"
        draft = MailDraft(
            hostname=self.hostname,
            page_url=self.page_url,
            list_all=see,
            kind=kind,
            subject=subject,
            opening=opening,
            sections=sections,
            facts=[_facts(one) for one in found[:MOST_FACTS]],
            incidents=ids,
        )
        return write_message(draft, token, now)


def sort_by_gravity(findings: Sequence[HubFinding]) -> list[HubFinding]:
    return sorted(findings, key=lambda one: (HUB_GRAVITY[one.kind], one.id))


def sum_up(findings: Sequence[HubFinding]) -> str:
    """Return the findings in a line: "2 damaged files (nas2); 1 box does not report (nas3)"."""
    groups: dict[HubFindingKind, list[HubFinding]] = {}
    for one in sort_by_gravity(findings):
        groups.setdefault(one.kind, []).append(one)
    parts = [_sum_up_kind(kind, some) for kind, some in list(groups.items())[:_PHRASES_SHOWN]]
    more = sum(len(some) for some in list(groups.values())[_PHRASES_SHOWN:])
    return "; ".join(parts) + (f"; {more:,} more finding{'s' if more > 1 else ''}" if more else "")


def _sum_up_kind(kind: HubFindingKind, some: Sequence[HubFinding]) -> str:
    """Return how many files, boxes or trees have the same thing wrong with them, and on which box if it is one."""
    if len(some) == 1 and some[0].path == b"":
        return some[0].headline
    names = list(dict.fromkeys(printable(one.box_name) for one in some if one.box_name))
    where = f" ({names[0]})" if len(names) == 1 else ""
    return HUB_KINDS[kind].phrase.of(_count_subjects(some)) + where


def _count_subjects(some: Iterable[HubFinding]) -> int:
    return sum(one.subjects for one in some)


def _open(found: Sequence[HubFinding]) -> list[str]:
    """Return how bad it is, what to do first, when it was found, and what to know before."""
    gravest = found[0]
    lines = [_say_how_bad(found), _say_what_to_do(gravest)]
    lines.append(f"Found: {utc_time(min(one.opened_at for one in found))}")
    return lines + ([PLAN_ONLY] if any((one.command or "").startswith("integrity repair ") for one in found) else [])


def _say_how_bad(found: Sequence[HubFinding]) -> str:
    damaged = [one for one in found if one.kind in FOUND_BY_BOX]
    if not damaged:
        return HUB_KINDS[found[0].kind].how_bad
    good = _count_subjects(one for one in damaged if one.command is not None)
    if good == _count_subjects(damaged):
        return "A good copy exists on another box." if good == 1 else "Good copies exist on other boxes."
    return f"Good copies are known of {good:,} of them." if good else "No good copy is known yet."


def _say_what_to_do(finding: HubFinding) -> str:
    if finding.command is None:
        return f"What to do: {printable(finding.explanation)}"
    return f"What to do: on {printable(finding.command_box_name or '')}, run:  {printable(finding.command)}"


def _describe(finding: HubFinding, *, is_changed: bool = False) -> Card:
    where = f", set {printable(finding.set_name)}" if finding.set_name else ""
    details = [CHANGED] if is_changed else []
    details.append(printable(finding.explanation))
    details += [f"on {printable(finding.command_box_name)}:"] if finding.command_box_name else []
    head = f"{printable(finding.headline)}  [finding {finding.id}{where}]"
    steps = (NextStep("", finding.command),)
    return Card(head, lines=tuple(details), steps=steps, number=finding.id)


def _list_over(over: Sequence[HubFinding]) -> Section:
    entries = tuple(
        Card(f"{printable(one.headline)}  [finding {one.id}]: {printable(one.resolution or '')}")
        for one in over[:MOST_ENTRIES]
    )
    return _section("Resolved", entries, len(over))


def _section(title: str, entries: tuple[Card, ...], number: int) -> Section:
    return Section(title, entries, number - len(entries))


def _facts(one: HubFinding) -> dict[str, object]:
    fields = hub_finding_object(one)
    return {"type": "hub_finding", "schema": 1, **{name: fields[name] for name in _FACTS if name in fields}}
