"""
Who uses the token of a box: one machine, or two.

Two machines with one token (a clone, a golden image, a second `join`) would end each other's findings with each report.
Each process that reports has a random number, its *run*, which is in no catalog and no image. So a run that ended never
comes back, whatever was restored, and two runs that take turns are two machines.

U1  Two runs use a token if the times in which both reported overlap by more than ``SLACK_S``. A new stream, a restart
    or a catalog from a backup is no sign of it.
U2  From then on nothing that either reports is stored, until all others were silent for ``LIVE_S``.
U3  While a run of another machine may be alive, a new run waits: until that one was silent for ``LIVE_S`` if it begins
    another stream, which ends the findings of the present one; for ``BEAT_S`` if it continues the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import CallRefused, printable
from integrity.hub import audit
from integrity.hub.database import replace_rows
from integrity.hub.ingest import CallingBox
from integrity.hub.reported import BoxHeartbeat
from integrity.hub.schema import box, box_run
from integrity.units import format_duration

LIVE_S = 1200
"""A box repeats a report that failed within 15 minutes: one that is silent for longer does not report any more."""

SLACK_S = 120
"""A call that was held up on its way may arrive after its process ended, at most a minute later."""

BEAT_S = 400
"""A box that is well reports every 300 to 330 seconds, unless ``report_every`` says otherwise."""

_MOST_RUNS = 8
"""Runs of a box that are remembered: a stolen token could be used to make up any number."""


class _Run(NamedTuple):
    """See the columns of ``schema.box_run``."""

    run: bytes
    machine: bytes | None
    hostname: str
    address: str
    first_at: int
    seen_at: int
    is_accepted: int

    @property
    def words(self) -> str:
        return f"{printable(self.hostname)} ({printable(self.address)})"

    def overlaps(self, other: _Run) -> bool:
        """Return whether both reported over the same time (U1)."""
        return min(self.seen_at, other.seen_at) - max(self.first_at, other.first_at) > SLACK_S


def note_use(c: sa.Connection, reporter: CallingBox, beat: BoxHeartbeat, now: int) -> CallRefused | None:
    """
    Record who sent a heartbeat, which is to be committed in any case.

    Returns:
        Why the heartbeat may not be stored; None: it may.
    """
    if beat.run is None:
        return None  # of a version that has no number
    columns = box.c.stream, box.c.last_number, box.c.shared_by
    row: Any = c.execute(sa.select(*columns).where(box.c.id == reporter.box_id).with_for_update()).one()
    runs = _load_runs(c, reporter.box_id)
    others = [one for one in runs if one.run != beat.run and one.seen_at >= now - LIVE_S][:_MOST_RUNS]
    own = _see(
        next((one for one in runs if one.run == beat.run and one.seen_at >= now - LIVE_S), None), reporter, beat, now
    )
    refused = _judge(c, reporter, own, others, row, beat, now)
    if refused is None:
        own = own._replace(is_accepted=1)
    replace_rows(c, box_run, [{"box_id": reporter.box_id, **own._asdict()}])
    kept = {own.run, *(one.run for one in others[: _MOST_RUNS - 1])}
    if gone := [one.run for one in runs if one.run not in kept]:
        c.execute(sa.delete(box_run).where(box_run.c.box_id == reporter.box_id, box_run.c.run.in_(gone)))
    return refused


def _judge(
    c: sa.Connection,
    reporter: CallingBox,
    own: _Run,
    others: list[_Run],
    row: Any,
    beat: BoxHeartbeat,
    now: int,
) -> CallRefused | None:
    mine = box.c.id == reporter.box_id
    shared_by = row.shared_by
    if shared_by is not None and not others and now - own.first_at >= LIVE_S:
        c.execute(sa.update(box).where(mine).values(shared_by=None))
        _record(c, reporter, now, f"only {own.words} reports now")
        return None
    rival = next((one for one in others if one.overlaps(own)), None)
    if shared_by is None and rival is not None:
        first, second = sorted((own, rival), key=lambda one: one.first_at)
        shared_by = f"{first.words} and {second.words}"
        _record(c, reporter, now, f"used by two machines: {shared_by}")
    if shared_by is not None:
        sentence = "Two machines use the token of this box, so nothing that they report is stored."
        values = {"shared_by": shared_by, "seen_at": now, "sentence": sentence, "state": "gap"}
        c.execute(sa.update(box).where(mine).values(**values))
        return _refuse(reporter.name, shared_by)
    continues = beat.stream == row.stream and beat.newest >= row.last_number
    waits = [(_find_wait(own, one, now, continues=continues), one) for one in others if one.is_accepted]
    left_s, holder = max(waits, default=(0, own), key=lambda one: one[0])
    return _ask_to_wait(reporter.name, holder, left_s, now) if left_s > 0 else None


def _find_wait(own: _Run, other: _Run, now: int, *, continues: bool) -> int:
    """Return for how many seconds a run has to wait for another one (U3); 0 or less: it may report."""
    silent_s = now - other.seen_at
    if own.is_accepted:  # it was there before, so a later one that was accepted took its place
        return LIVE_S - silent_s if other.first_at > own.first_at else 0
    is_same_machine = own.machine is not None and own.machine == other.machine
    return 0 if is_same_machine else (BEAT_S if continues else LIVE_S) - silent_s


def _ask_to_wait(name: str, holder: _Run, left_s: int, now: int) -> CallRefused:
    ago, left = format_duration(max(1, now - holder.seen_at)), format_duration(left_s)
    return CallRefused(
        409,
        "token_in_use",
        f"{holder.words} reported with the token of {name} {ago} ago. If that was this machine before it was started"
        f" again or restored, wait: its reports are taken in {left}. If not, this machine needs a token of its own: on"
        " the hub, run `integrity hub add BOX` with another name, then here `integrity hub join URL`",
        min(left_s, BEAT_S),  # a second machine is known by what both report meanwhile (U1)
    )


def _refuse(name: str, shared_by: str) -> CallRefused:
    remedy = describe_remedy(name, lambda words: f"integrity {words}")  # the box reads it, not the hub's machine
    return CallRefused(409, "token_in_use", f"two machines use the token of {name}: {shared_by}. {remedy}")


def describe_remedy(name: str, command: Callable[[str], str] = program.command) -> str:
    """
    Return what the owner does about two machines with the token of a box.

    Args:
        command: spells a command of the hub.
    """
    revoke, add, other = (command(f"hub {words}") for words in (f"revoke {name}", f"add {name}", "add OTHER"))
    return (
        f"Run on the hub: `{revoke}`, then `{add}`; on the machine that is {name}: `integrity hub join URL`, with the"
        f" new token. The other machine needs a name and token of its own: `{other}`, then `integrity hub join URL`"
        f" there. If it is not needed, stop its service instead: the reports of {name} are taken again"
        f" {format_duration(LIVE_S)} later."
    )


def require_free(c: sa.Connection, reporter: CallingBox, machine: bytes, now: int) -> None:
    """Require that no other machine reports with a token, before a machine begins to use it, or raise CallRefused."""
    for one in _load_runs(c, reporter.box_id):
        if one.seen_at >= now - LIVE_S and one.machine is not None and one.machine != machine:
            ago = format_duration(max(1, now - one.seen_at))
            raise CallRefused(
                409,
                "token_in_use",
                f"this is the token of {reporter.name}, and another machine uses it: {one.words} reported {ago} ago."
                " Nothing was changed. Each machine needs a token of its own: on the hub, run `integrity hub add BOX`"
                " with another name. If that was this machine before it was started again, wait"
                f" {format_duration(LIVE_S)}, and join again",
            )


def require_sole(c: sa.Connection, reporter: CallingBox) -> None:
    """Require that two machines do not use a token (U2), or raise CallRefused."""
    shared_by = c.execute(sa.select(box.c.shared_by).where(box.c.id == reporter.box_id)).scalar()
    if shared_by is not None:
        raise _refuse(reporter.name, shared_by)


def _load_runs(c: sa.Connection, box_id: int) -> list[_Run]:
    query = sa.select(*(box_run.c[name] for name in _Run._fields)).where(box_run.c.box_id == box_id)
    rows = c.execute(query.order_by(box_run.c.seen_at.desc())).all()
    return [_Run(*row) for row in rows]


def _see(known: _Run | None, reporter: CallingBox, beat: BoxHeartbeat, now: int) -> _Run:
    assert beat.run is not None
    seen = _Run(beat.run, beat.machine, beat.hostname, reporter.address, now, now, 0)
    return seen if known is None else seen._replace(first_at=known.first_at, is_accepted=known.is_accepted)


def _record(c: sa.Connection, reporter: CallingBox, now: int, outcome: str) -> None:
    audit.record_box(c, reporter.name, reporter.address, now, "token_use", reporter.name, outcome)
