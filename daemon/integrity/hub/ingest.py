"""
Store what boxes report: heartbeats, and numbered messages.

I1  A message is stored once: the row of its box is locked while its numbers are compared (H2).
I2  A stream is continued only by messages whose chain fits (protocol I2). One that was replaced is never continued,
    whoever repeats its messages.
I3  What a box resolved stays as it is (H6). What a new stream does not repeat ends as "not reported".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.errors import CallRefused, ProtocolError
from integrity.hub import audit
from integrity.hub.members import find_sets_of_roots, find_wanting, update_members
from integrity.hub.reported import (
    AboutRoot,
    BeginsStream,
    BoxHeartbeat,
    ForgottenFinding,
    MessagesHeader,
    ReportedFinding,
    write_body,
)
from integrity.hub.schema import box, box_event, box_finding, box_stream
from integrity.model import FindingState
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import FIRST_CHAIN, LARGEST, JsonObject, MessageKind, ReportMessage, extend_chain

NOT_REPORTED = "not_reported"
"""State of a finding that was unresolved when its box began a new stream without it."""


def _go_back(message: str) -> CallRefused:
    """Return the refusal of messages that do not continue their stream: the box has to begin a new one."""
    return CallRefused(409, "went_back", message)


class CallingBox(NamedTuple):
    """Who reports: the box of the token, and the address that its request came from."""

    box_id: int
    name: str
    address: str


class HeartbeatStored(NamedTuple):
    """
    What a heartbeat led to.

    Attributes:
        last: number of the last stored message of its stream; None: the box has to begin a new stream.
        trees: the roots, as numbered on the box, whose files have to be reported.
        sets: the replica sets to vote on again.
        refused: names of the sets that it may not be in.
    """

    last: int | None
    trees: list[int]
    sets: set[int]
    refused: list[str]


class MessagesStored(NamedTuple):
    """What messages led to: the number of the last stored one, and the replica sets to vote on again."""

    last: int
    sets: set[int]


def store_heartbeat(c: sa.Connection, reporter: CallingBox, beat: BoxHeartbeat, now: int) -> HeartbeatStored:
    row = _lock_box(c, reporter.box_id)
    values = {
        "seen_at": now,
        "clock_ahead_s": beat.sent_at - now,
        "hostname": beat.hostname,
        "version": beat.version,
        "sentence": beat.sentence,
        "state": beat.state,
    }
    c.execute(sa.update(box).where(box.c.id == reporter.box_id).values(**values))
    if row.seen_at is None:
        audit.record_box(
            c, reporter.name, reporter.address, now, "join", beat.hostname, f"first report, version {beat.version}"
        )
    sets = update_members(c, reporter.box_id, beat.roots, now)
    is_known = row.stream == beat.stream and beat.newest >= row.last_number
    unsettled, refused = find_wanting(c, reporter.box_id)
    return HeartbeatStored(row.last_number if is_known else None, unsettled, sets, refused)


def store_messages(
    c: sa.Connection, reporter: CallingBox, header: MessagesHeader, messages: Sequence[ReportMessage], now: int
) -> MessagesStored:
    """
    Store the messages that are new.

    Raises:
        CallRefused: they do not continue the stream (I2).
        ProtocolError: they are not numbered as the header says, or one has not the form of its kind.
    """
    for number, message in enumerate(messages, header.first):
        if message.number != number:
            raise ProtocolError(f"message {message.number} stands where {number} belongs")
    row = _lock_box(c, reporter.box_id)
    last, chain = row.last_number, row.last_chain
    if row.stream != header.stream:
        _begin_stream(c, reporter, header, messages, now)
        last, chain = 0, FIRST_CHAIN
    new, end_chain = _find_new(header, messages, last, chain)
    roots: set[int] = set()
    for message in new:
        roots |= _store_message(c, reporter.box_id, header.stream, message, now)
    if new:
        values = {"stream": header.stream, "last_number": new[-1].number, "last_chain": end_chain, "seen_at": now}
        c.execute(sa.update(box).where(box.c.id == reporter.box_id).values(**values))
        roots |= _end_former(c, reporter.box_id, now)
    # No more than what was sent: whether later ones of the box are those that are stored is not known yet.
    return MessagesStored(messages[-1].number if messages else last, find_sets_of_roots(c, reporter.box_id, roots))


def _lock_box(c: sa.Connection, box_id: int) -> Any:
    """Return the row of a box, locked until the transaction ends (I1); SQLite has one writer anyway."""
    columns = (box.c.stream, box.c.last_number, box.c.last_chain, box.c.seen_at)
    return c.execute(sa.select(*columns).where(box.c.id == box_id).with_for_update()).one()


def _find_new(
    header: MessagesHeader, messages: Sequence[ReportMessage], last: int, last_chain: bytes
) -> tuple[list[ReportMessage], bytes]:
    """Return the messages behind the last stored one, and the chain up to their end (I2)."""
    if header.first > last + 1:
        raise _go_back(f"message {last + 1} is missing before {header.first}")
    chain, new = bytes(header.chain), []
    for message in messages:
        if message.number == last + 1 and chain != last_chain:
            raise _go_back(f"message {message.number} does not continue what the box sent before")
        chain = extend_chain(chain, message)
        if message.number > last:
            new.append(message)
    return new, chain


def _begin_stream(
    c: sa.Connection, reporter: CallingBox, header: MessagesHeader, messages: Sequence[ReportMessage], now: int
) -> None:
    is_state = bool(messages) and messages[0].kind is MessageKind.STATE
    if header.first != 1 or not is_state:
        raise _go_back("the stream is unknown, and a new one begins with message 1 of kind state")
    known = sa.select(box_stream.c.began_at).where(
        box_stream.c.box_id == reporter.box_id, box_stream.c.stream == header.stream
    )
    if c.execute(known).first() is not None:
        raise _go_back("the stream was replaced by another one before")
    c.execute(sa.insert(box_stream).values(box_id=reporter.box_id, stream=header.stream, began_at=now))
    audit.record_box(
        c,
        reporter.name,
        reporter.address,
        now,
        "new_stream",
        header.stream.hex(),
        "the box sends its open findings again",
    )


def _store_message(c: sa.Connection, box_id: int, stream: bytes, message: ReportMessage, now: int) -> set[int]:
    """Store a message. Return the roots whose findings changed."""
    try:
        match message.kind:
            case MessageKind.STATE:
                findings = read_form(BeginsStream, message.body).findings or 0
                until = min(message.number + findings, LARGEST)  # so many messages repeat findings
                c.execute(sa.update(box).where(box.c.id == box_id).values(repeats_until=until))
                return set()
            case MessageKind.FINDING:
                return _take_finding(c, box_id, stream, message.body, now)
            case MessageKind.RUN | MessageKind.ACTION:
                _store_event(c, box_id, message)
                return set()
    except ProtocolError as error:
        raise ProtocolError(f"message {message.number}: {error}") from error


def _store_event(c: sa.Connection, box_id: int, message: ReportMessage) -> None:
    body = write_body(message.body)
    root_id = read_form(AboutRoot, message.body).root_id
    values = {"box_id": box_id, "at": message.at, "kind": message.kind.value, "root_id": root_id}
    c.execute(sa.insert(box_event).values(body=body, **values))


def _take_finding(c: sa.Connection, box_id: int, stream: bytes, body: JsonObject, now: int) -> set[int]:
    """Store a finding as it is now. Return the root that it is in."""
    if "kind" in body:
        return _store_finding(c, box_id, stream, read_form(ReportedFinding, body), write_body(body), now)
    # The box has forgotten all of it but its number, with the root that it was in.
    which = (
        box_finding.c.box_id == box_id,
        box_finding.c.number == read_form(ForgottenFinding, body).number,
        box_finding.c.resolved_at.is_(None),
    )
    roots = set(c.execute(sa.select(box_finding.c.root_id).where(*which)).scalars())
    c.execute(sa.update(box_finding).where(*which).values(state=FindingState.RESOLVED.value, resolved_at=now))
    return roots - {None}


def _store_finding(
    c: sa.Connection, box_id: int, stream: bytes, found: ReportedFinding, body: str, now: int
) -> set[int]:
    """Insert or update a finding; one that the box resolved before stays as it is (I3)."""
    same_number = (box_finding.c.box_id == box_id) & (box_finding.c.number == found.number)
    rows = c.execute(
        sa.select(box_finding.c.opened_at, box_finding.c.resolved_at, box_finding.c.state).where(same_number)
    ).all()
    values = {
        "stream": stream,
        "root_id": found.root_id,
        "path": found.path,
        "kind": found.kind,
        "state": found.state,
        "certainty": found.certainty,
        "resolved_at": None if found.resolved_at is None else now,
        "body": body,
    }
    if (found.resolved_at is None) == (found.state == FindingState.RESOLVED.value):
        raise ProtocolError("resolved_at and state contradict each other")
    # Another finding with this number: the box was restored from an image that did not have it yet.
    reused = same_number & (box_finding.c.opened_at != found.opened_at) & box_finding.c.resolved_at.is_(None)
    c.execute(sa.update(box_finding).where(reused).values(state=NOT_REPORTED, resolved_at=now))
    known = next((row for row in rows if row.opened_at == found.opened_at), None)
    if known is None:
        c.execute(
            sa.insert(box_finding).values(box_id=box_id, number=found.number, opened_at=found.opened_at, **values)
        )
    elif known.resolved_at is None or known.state == NOT_REPORTED:
        same = same_number & (box_finding.c.opened_at == found.opened_at)
        c.execute(sa.update(box_finding).where(same).values(**values))
    return set() if found.root_id is None else {found.root_id}


def _end_former(c: sa.Connection, box_id: int, now: int) -> set[int]:
    """End what former streams found and the present one, having repeated all, did not (I3). Return the roots."""
    mine = box.c.id == box_id
    row = c.execute(sa.select(box.c.stream).where(mine, box.c.repeats_until <= box.c.last_number)).first()
    if row is None:
        return set()
    c.execute(sa.update(box).where(mine).values(repeats_until=None))
    former = (
        box_finding.c.box_id == box_id,
        box_finding.c.stream != row.stream,
        box_finding.c.resolved_at.is_(None),
    )
    roots = set(c.execute(sa.select(box_finding.c.root_id).where(*former).distinct()).scalars())
    c.execute(sa.update(box_finding).where(*former).values(state=NOT_REPORTED, resolved_at=now))
    return roots - {None}


def _record(c: sa.Connection, reporter: CallingBox, now: int, verb: str, subject: str, outcome: str) -> None:
    audit.record_box(c, reporter.name, reporter.address, now, verb, subject, outcome)
