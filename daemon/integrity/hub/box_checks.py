"""
Check the boxes themselves: who does not report, or stores too much, whose clock is wrong, whose token was revoked.

Silence is never health: a box that was added and never reported counts from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import printable
from integrity.hub import findings
from integrity.hub.database import HubDatabase
from integrity.hub.kinds import HUB_KINDS, HubCertainty, HubFindingKind
from integrity.hub.replica_words import Draft
from integrity.hub.schema import box, box_usage, finding, member
from integrity.hub.token_use import describe_remedy
from integrity.paths import shell_word
from integrity.units import format_size
from integrity.words.text import utc_time

CLOCK_LIMIT_S = 300
"""Clocks that are wrong by more are reported; NTP keeps them within a second, a battery within a few minutes a year."""

_HOUR_S = 3600
_WHAT_TO_CHECK = (
    "What happened on it since is not known. Check that the box is on, that integrity runs there, and that it reaches"
    " the hub: `integrity status` on it says why it does not."
)


class BoxLimits(NamedTuple):
    """What a box may do before it is a finding: be silent for so long, and store so much."""

    silent_after_s: int
    stored_bytes: int


def check_all_boxes(database: HubDatabase, now: int, *, limits: BoxLimits) -> None:
    with database.transaction() as c:
        check_boxes(c, now, limits)


def check_boxes(c: sa.Connection, now: int, limits: BoxLimits) -> None:
    """Bring the findings about boxes up to date. The database finds the boxes that are wrong: most are not."""
    usage = box_usage.c
    is_its = member.c.box_id == box.c.id, member.c.removed_at.is_(None)
    refused = sa.select(sa.func.min(member.c.refused_set)).where(*is_its).scalar_subquery()
    columns = box, usage.full_since, refused.label("refused_set")
    query = sa.select(*columns).outerjoin_from(box, box_usage).where(box.c.revoked_at.is_(None))
    last_at = sa.func.coalesce(box.c.seen_at, box.c.worked_at, box.c.created_at)
    is_wrong = {
        HubFindingKind.BOX_SILENT: now - last_at > limits.silent_after_s,
        HubFindingKind.BOX_FULL: sa.and_(usage.full_since.is_not(None), usage.stored_bytes >= limits.stored_bytes),
        HubFindingKind.CLOCK_WRONG: ~box.c.clock_ahead_s.between(-CLOCK_LIMIT_S, CLOCK_LIMIT_S),
        HubFindingKind.TOKEN_SHARED: box.c.shared_by.is_not(None),
        HubFindingKind.SET_REFUSED: refused.is_not(None),
    }
    is_revoked = sa.exists().where(box.c.id == finding.c.box_id, box.c.revoked_at.is_not(None))
    is_about_box = finding.c.kind.in_([kind.value for kind in (*_CHECKS, HubFindingKind.TREE_OTHER_DISK)])
    over = sa.select(finding.c.id).where(findings.UNRESOLVED, is_about_box, is_revoked)
    findings.resolve_ids(c, c.execute(over).scalars().all(), "the box was revoked", now)
    for kind, (describe, resolution) in _CHECKS.items():
        drafts = [_draft(kind, row, *describe(row, limits)) for row in c.execute(query.where(is_wrong[kind])).all()]
        findings.record_drafts(c, [finding.c.kind == kind.value], drafts, now, resolution)


_Words = tuple[str, dict[str, object]]
"""Why a box is wrong and what to do, and evidence."""


def _describe_silence(row: sa.Row[Any], limits: BoxLimits) -> _Words:  # noqa: ARG001 - as of all checks
    calls = ("It reported last", row.seen_at), ("It read a shared tree last", row.worked_at)
    never = f"It was added {utc_time(row.created_at)}, and never reported"
    told = next((f"{words} {utc_time(at)}" for words, at in calls if at is not None), never)
    return f"{told}. {_WHAT_TO_CHECK}", {"seen_at": row.seen_at}


def _describe_wrong_clock(row: sa.Row[Any], limits: BoxLimits) -> _Words:  # noqa: ARG001 - as of all checks
    ahead_s = row.clock_ahead_s
    wrong = f"It is {_tell_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the clock of the hub."
    return f"{wrong} Set it, and keep it right: timedatectl set-ntp true.", {}


def _describe_full(row: sa.Row[Any], limits: BoxLimits) -> _Words:
    what = f"It has stored {format_size(limits.stored_bytes)} in the database of the hub, all that one box may."
    return f"{what} {_tell_what_to_do_if_full(row.name)}", {}


def _tell_what_to_do_if_full(name: str) -> str:
    forget, add = (program.command(f"hub {words} {name}") for words in ("revoke --forget", "add"))
    return (
        "If it has that many files, raise box_limit in [hub_server] and restart the hub. If not, somebody else may have"
        f" its token: `{forget}` revokes it and removes what was reported with it, `{add}` gives the box a new one."
    )


def _describe_refused_set(row: sa.Row[Any], limits: BoxLimits) -> _Words:  # noqa: ARG001 - as of all checks
    allow = program.command(f"hub allow {shell_word(row.name)} --set {shell_word(row.refused_set)}")
    words = (
        f"Its configuration names the replica set {printable(row.refused_set)}. If it belongs there, run: `{allow}`. If"
        f" not, somebody else may have its token: `{program.command(f'hub revoke {row.name}')}`."
    )
    return words, {"set": row.refused_set}


def _describe_shared_token(row: sa.Row[Any], limits: BoxLimits) -> _Words:  # noqa: ARG001 - as of all checks
    return f"They are {row.shared_by}. {describe_remedy(row.name)}", {"machines": row.shared_by}


_CHECKS: dict[HubFindingKind, tuple[Callable[[sa.Row[Any], BoxLimits], _Words], str]] = {
    HubFindingKind.BOX_SILENT: (_describe_silence, "the box reports again"),
    HubFindingKind.BOX_FULL: (_describe_full, "its reports are taken again"),
    HubFindingKind.CLOCK_WRONG: (_describe_wrong_clock, "the clock is right again"),
    HubFindingKind.TOKEN_SHARED: (_describe_shared_token, "only one machine uses the token now"),
    HubFindingKind.SET_REFUSED: (_describe_refused_set, "it names no set any more that it may not be in"),
}
"""What is checked, and why a finding about it ends."""


def _draft(kind: HubFindingKind, row: sa.Row[Any], explanation: str, evidence: dict[str, object]) -> Draft:
    return Draft(
        kind=kind,
        certainty=HubCertainty.PROVEN,
        box_id=row.id,
        headline=HUB_KINDS[kind].headline.format(box=printable(row.name)),
        explanation=explanation,
        evidence=json.dumps([evidence]),
    )


def _tell_duration(seconds: int) -> str:
    """Write a duration roughly, so that it does not change with every report."""
    if seconds < _HOUR_S:
        return f"about {round(seconds / 300) * 5} minutes"
    hours = round(seconds / _HOUR_S)
    return f"about {hours} hour{'s' if hours > 1 else ''}" if hours < 48 else f"about {round(hours / 24)} days"
