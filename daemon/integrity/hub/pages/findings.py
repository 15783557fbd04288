"""The findings of the hub: the list, one with the evidence of each member, and the forms that acknowledge and mute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from integrity.hub import audit, schema
from integrity.hub.findings import (
    UNRESOLVED,
    HubFinding,
    MemberEvidence,
    NoSuchFinding,
    acknowledge,
    get_finding,
    is_problem,
    mute,
    page_findings,
    read_evidence,
    read_examples,
    read_shard_reports,
)
from integrity.hub.fleet import count_open
from integrity.hub.kinds import HUB_KINDS, HubFindingKind
from integrity.hub.pages.site import HubSite
from integrity.hub.schema import finding, shared_tree
from integrity.views.explain import READ_HOW
from integrity.web.drawings import BlockMap, map_damage
from integrity.web.query import (
    PAGE_OWNER,
    find_address,
    includes_resolved,
    read_at,
    read_days,
    read_finding_id,
    read_form,
    read_number,
    read_word,
)
from integrity.words.findings import damaged_places
from integrity.words.text import local_time

_PAGE = 100
_MOST_CHOICES = 1000
_DAY_S = 86400
_SMALLEST_BLOCK = 64 << 10
_LARGEST_NUMBER = (1 << 63) - 1

HOLDINGS = {
    "good": "intact, as far as the box knows",
    "doubtful": "a finding leaves doubt about the content",
    "damaged": "DAMAGED",
    "contested": "changed, though it should not have",
    "lost": "unreadable or gone",
    "absent": "does not have the file",
    "excluded": "excludes the file",
}


class DamageMap(NamedTuple):
    """The damaged blocks of a file on one box, and the same in words."""

    box: str
    blocks: BlockMap
    damage: str


class HubFindingPages:
    """The pages about findings of the hub."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (
            read_at("/findings", self.show_list),
            read_at("/findings/{finding_id:int}", self.show_finding),
            Route("/actions/ack", self.acknowledge, methods=["POST"]),
            Route("/actions/mute", self.mute, methods=["POST"]),
        )

    def show_list(self, request: Request) -> Response:
        with self._site.read() as c:
            found = page_findings(c, *read_filter(c, request), before=read_number(request, "before"), limit=_PAGE + 1)
            counts = count_open(c)
            boxes, sets, trees = (_find_names(c, table) for table in (schema.box, schema.replica_set, shared_tree))
        shown, asked = found[:_PAGE], {key: text for key, text in request.query_params.items() if key != "before"}
        return self._site.render(
            request,
            "hub_findings.html",
            title="Findings",
            findings=shown,
            total=counts.findings.total(),
            kinds=[(kind, HUB_KINDS[kind].phrase.many) for kind in HUB_KINDS],
            sets=sets[:_MOST_CHOICES],
            boxes=boxes,
            trees=trees[:_MOST_CHOICES],
            asked={key: asked.get(key, "") for key in ("kind", "set", "box", "tree", "state")},
            more=f"?{urlencode(asked | {'before': str(shown[-1].id)})}" if len(found) > _PAGE else "",
            query=f"?{urlencode(asked)}" if asked else "",
        )

    def show_finding(self, request: Request) -> Response:
        with self._site.read() as c:
            finding = get_known(c, request)
        evidence = read_evidence(finding)
        return self._site.render(
            request,
            "hub_finding.html",
            title=f"Finding {finding.id}",
            finding=finding,
            is_open=finding.resolved_at is None,
            is_problem=is_problem(finding),
            shard_reports=read_shard_reports(finding),
            evidence=evidence,
            holdings=HOLDINGS,
            read_how=READ_HOW,
            examples=read_examples(finding),
            maps=list(map_blocks_of(evidence)),
        )

    async def acknowledge(self, request: Request) -> Response:
        form = await read_form(request)

        def change(c: sa.Connection, number: int, now: int) -> str:
            acknowledge(c, number, now)
            return "Acknowledged: no more reminders until it changes."

        return await run_in_threadpool(self._decide, request, "acknowledge", read_finding_id(form), change)

    async def mute(self, request: Request) -> Response:
        form = await read_form(request)
        days = read_days(form)

        def change(c: sa.Connection, number: int, now: int) -> str:
            until = now + days * _DAY_S
            mute(c, number, until, now)
            return f"Muted: no reminders until {local_time(until)}."

        return await run_in_threadpool(self._decide, request, "mute", read_finding_id(form), change)

    def _decide(
        self, request: Request, verb: str, number: int, change: Callable[[sa.Connection, int, int], str]
    ) -> Response:
        """Change a finding, and write the audit log in the same transaction."""
        now = self._site.now
        try:
            with self._site.database.transaction() as c:
                done = change(c, number, now)
                audit.record(
                    c,
                    at=now,
                    who=PAGE_OWNER,
                    address=find_address(request),
                    verb=verb,
                    subject=f"finding {number}",
                    outcome=done,
                )
        except NoSuchFinding as error:
            return self._site.render_error(request, 409, "This was not done", str(error))
        return self._site.render(request, "done.html", title="Done", message=done, back=f"/findings/{number}")


def get_known(c: sa.Connection, request: Request) -> HubFinding:
    """Return the finding that a URL names, or raise HTTPException (404)."""
    number = min(int(request.path_params["finding_id"]), _LARGEST_NUMBER)
    try:
        return get_finding(c, number)
    except NoSuchFinding as error:
        raise HTTPException(404, str(error)) from error


def read_filter(c: sa.Connection, request: Request) -> list[sa.ColumnElement[bool]]:
    """
    Return which findings a query asks for: ``kind``, ``set``, ``box``, ``tree`` (names), ``state=all``.

    Raises:
        HTTPException: 400, a word is unknown, or there is no such set, box, or tree.
    """
    tables = {"set": schema.replica_set, "box": schema.box, "tree": shared_tree}
    values: dict[sa.Column[Any], object] = {
        finding.c[f"{key}_id"]: _find_id(c, table, request, key) for key, table in tables.items()
    }
    values[finding.c.kind] = read_word(request, "kind", HubFindingKind)
    wanted = [column == value for column, value in values.items() if value is not None]
    return wanted if includes_resolved(request) else [*wanted, UNRESOLVED]


def _find_names(c: sa.Connection, table: sa.Table) -> Sequence[str]:
    return c.execute(sa.select(table.c.name).order_by(table.c.name)).scalars().all()


def _find_id(c: sa.Connection, table: sa.Table, request: Request, key: str) -> int | None:
    """Return the number of what a query names; None if it names nothing."""
    name = request.query_params.get(key, "")
    if not name:
        return None
    number: int | None = c.execute(sa.select(table.c.id).where(table.c.name == name)).scalar()
    if number is None:
        raise HTTPException(400, f"{key}: there is none with this name.")
    return number


def map_blocks_of(evidence: Sequence[MemberEvidence]) -> Iterable[DamageMap]:
    for member in evidence:
        for report in member.reports:
            size, block = member.size_bytes, report.block_size_bytes
            if size is None or block < _SMALLEST_BLOCK or not (report.blocks or report.ranges):
                continue  # smaller blocks are no box's: it could have the hub draw anything
            inside = [number for number in report.blocks if number * block < size]
            unreadable = report.ranges if report.is_unreadable else ()
            is_elsewhere = any(other.is_source for other in evidence)
            blocks = map_damage(size, block, inside, unreadable, is_elsewhere=is_elsewhere)
            yield DamageMap(member.box, blocks, damaged_places(inside, block, report.ranges) or "")
