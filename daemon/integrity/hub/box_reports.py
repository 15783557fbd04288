"""
What boxes reported: their findings and their events, page by page, the newest first.

A body is an object of ``--json`` as the box sent it. Whoever has its token may send anything, so each value is used
only if it is of the expected type, and as text for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from integrity.errors import ProtocolError, printable
from integrity.hub import schema
from integrity.kinds import INTEGRITY_PROBLEMS, KINDS
from integrity.model import ByteRange, Certainty, FindingKind, Outcome
from integrity.paths import absolute
from integrity.reporting import protocol
from integrity.reporting.protocol import MessageKind, is_number
from integrity.units import format_size
from integrity.views.runs import describe_outcome
from integrity.words.findings import damaged_places
from integrity.words.text import PLAIN, count

JsonObject = Mapping[str, object]

_PLACES_KEPT = 1000
"""Blocks or ranges of one finding that are repeated; its box has all of them."""


def read_body(text: str) -> JsonObject:
    """Read what is stored; what is no object is an empty one."""
    try:
        return protocol.decode(text.encode("utf-8", "surrogatepass"))
    except ProtocolError:
        return {}


def write_box_finding(number: int, kind: str, body: JsonObject) -> JsonObject:
    certainty = read_certainty(body)
    message = body.get("message")
    return {
        "id": number,
        "kind": kind,
        "certainty": certainty.value if certainty else None,
        "blocks": read_blocks(body),
        "block_size_bytes": read_size(body, "block_size_bytes"),
        "ranges": read_ranges(body),
        "opened_at": body.get("opened_at") if isinstance(body.get("opened_at"), str) else None,
        "message": printable(message) if isinstance(message, str) else None,
    }


def find_places(body: JsonObject) -> str | None:
    """Return which blocks or bytes of a file are damaged, in words."""
    return damaged_places(read_blocks(body), read_size(body, "block_size_bytes"), read_ranges(body))


def read_certainty(body: JsonObject) -> Certainty | None:
    word = body.get("certainty")
    return Certainty(word) if isinstance(word, str) and word in set(Certainty) else None


def read_size(body: JsonObject, name: str) -> int | None:
    value = body.get(name)
    return value if protocol.is_number(value) and value > 0 else None


def read_blocks(body: JsonObject) -> list[int]:
    blocks = body.get("blocks")
    return [one for one in blocks if protocol.is_number(one)][:_PLACES_KEPT] if isinstance(blocks, list) else []


def read_ranges(body: JsonObject) -> list[ByteRange]:
    ranges = body.get("ranges")
    pairs = ranges if isinstance(ranges, list) else []
    return [
        (one[0], one[1])
        for one in pairs[:_PLACES_KEPT]
        if isinstance(one, list) and len(one) == 2 and all(map(protocol.is_number, one)) and one[1] > 0
    ]


_LONGEST_TEXT = 1000
_COUNTS = (
    ("files_verified", "verified"),
    ("files_new", "new"),
    ("files_changed", "changed"),
    ("files_missing", "gone"),
    ("files_unreadable", "UNREADABLE"),
    ("files_damaged", "DAMAGED"),
)


class ReportCursor(NamedTuple):
    """The last finding of a page: its number, and when it was opened, for numbers may come a second time."""

    number: int
    opened_at: int


@dataclass(frozen=True, slots=True)
class BoxFindingRecord:
    """A finding of a box; see the columns of ``schema.box_finding``. ``root``: path of its root, None if unknown."""

    number: int
    root: bytes | None
    path: bytes | None
    kind: str
    state: str
    certainty: str | None
    opened_at: int
    resolved_at: int | None
    body: JsonObject

    @property
    def cursor(self) -> ReportCursor:
        """Where the next page begins."""
        return ReportCursor(self.number, self.opened_at)

    @property
    def place(self) -> bytes:
        """The absolute path that it is about, as far as it is known."""
        return absolute(self.root or b"", self.path)

    @property
    def headline(self) -> str:
        """What people read in place of the kind; a newer box may know kinds that the hub does not."""
        return KINDS[FindingKind(self.kind)].headline if self.kind in set(FindingKind) else printable(self.kind)

    @property
    def is_problem(self) -> bool:
        return self.kind not in set(FindingKind) or FindingKind(self.kind) in INTEGRITY_PROBLEMS

    @property
    def message(self) -> str:
        return read_text(self.body, "message")


@dataclass(frozen=True, slots=True)
class BoxEvent:
    """An event of a box; see the columns of ``schema.box_event``. ``root``: path of its root, None if unknown."""

    id: int
    at: int
    kind: str
    root: bytes | None
    body: JsonObject

    @property
    def text(self) -> str:
        return _describe_run(self.body) if self.kind == MessageKind.RUN else _describe_action(self.body)


def page_box_findings(
    c: sa.Connection, box_id: int, *, before: ReportCursor | None, limit: int, include_resolved: bool = False
) -> list[BoxFindingRecord]:
    """Return findings of a box, those with the highest numbers first."""
    found = schema.box_finding
    key = sa.tuple_(found.c.number, found.c.opened_at)
    query = (
        sa.select(found, schema.member.c.path.label("root"))
        .select_from(_with_root(found))
        .where(found.c.box_id == box_id)
        .order_by(found.c.number.desc(), found.c.opened_at.desc())
        .limit(limit)
    )
    if not include_resolved:
        query = query.where(found.c.resolved_at.is_(None))
    if before is not None:
        query = query.where(key < sa.tuple_(*map(sa.literal, before)))
    return [
        BoxFindingRecord(
            *(row.number, row.root, row.path, row.kind, row.state, row.certainty),
            *(row.opened_at, row.resolved_at, read_body(row.body)),
        )
        for row in c.execute(query)
    ]


def page_events(c: sa.Connection, box_id: int, *, before: int | None, limit: int) -> list[BoxEvent]:
    """Return events of a box in the order in which the hub learned of them, the last one first."""
    event = schema.box_event
    query = (
        sa.select(event, schema.member.c.path.label("root"))
        .select_from(_with_root(event))
        .where(event.c.box_id == box_id)
        .order_by(event.c.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(event.c.id < before)
    return [BoxEvent(row.id, row.at, row.kind, row.root, read_body(row.body)) for row in c.execute(query)]


def _with_root(table: sa.Table) -> sa.Join:
    """Join the member that a row is about, if the hub knows it, also one that is not reported any more."""
    member = schema.member
    return table.outerjoin(member, sa.and_(member.c.box_id == table.c.box_id, member.c.root_id == table.c.root_id))


def read_text(body: JsonObject, name: str) -> str:
    """Return a text of an object on one line of bounded length; empty if there is none."""
    value = body.get(name)
    return printable(value[:_LONGEST_TEXT]) if isinstance(value, str) else ""


def read_count(body: JsonObject, name: str) -> int:
    """Return a number of an object; 0 if there is none."""
    value = body.get(name)
    return value if is_number(value) else 0


def _describe_run(body: JsonObject) -> str:
    job, outcome = read_text(body, "job") or "run", read_text(body, "outcome") or "ended"
    if outcome in set(Outcome):
        outcome = describe_outcome(Outcome(outcome), PLAIN)
    parts = [f"{number:,} {word}" for name, word in _COUNTS if (number := read_count(body, name))]
    if number := read_count(body, "findings_opened"):
        parts.append(count(number, "new finding"))
    if number := read_count(body, "bytes_read"):
        parts.append(f"{format_size(number)} read")
    return f"{job}: {outcome}" + (f"; {', '.join(parts)}" if parts else "")


def _describe_action(body: JsonObject) -> str:
    who, verb, outcome = (read_text(body, name) for name in ("who", "verb", "outcome"))
    return f"{verb or 'action'}{f' by {who}' if who else ''}{f': {outcome}' if outcome else ''}"
