"""
``/api/v1`` of a hub: each list and each subject of the pages, for programs.

The fields of objects are pinned, so programs can rely on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from starlette.requests import Request
from starlette.routing import BaseRoute

from integrity.hub.api import describe_calls
from integrity.hub.audit import find_entries
from integrity.hub.box_reports import BoxEvent, BoxFindingRecord, page_box_findings, page_events
from integrity.hub.findings import hub_finding_object, page_findings
from integrity.hub.fleet import (
    BoxHealth,
    BoxOrder,
    BoxRoot,
    BoxStatus,
    OpenFindings,
    SetStatus,
    add_details,
    describe_agreement,
)
from integrity.hub.fleet_sentence import load_fleet, sum_up_fleet
from integrity.hub.kinds import HubFindingKind
from integrity.hub.pages.findings import get_known, read_filter
from integrity.hub.pages.fleet import get_box, get_promise, get_set, page_boxes, page_sets, read_cursor, write_cursor
from integrity.hub.pages.site import HubSite
from integrity.hub.shards.promise import ShardView, find_promises, page_shards, tree_object
from integrity.paths import absolute, path_fields
from integrity.web.json_pages import (
    BEFORE,
    LIMIT,
    MOST_ENTRIES,
    PAGE_ERROR,
    USUAL_ENTRIES,
    WITH_RESOLVED,
    JsonInterface,
    JsonPage,
    Parameter,
    mount_json,
    number_parameter,
    word_parameter,
)
from integrity.web.query import includes_resolved, read_limit, read_number
from integrity.words.text import JsonObject, iso_time


def box_object(one: BoxStatus) -> JsonObject:
    return {
        "name": one.name,
        "health": one.health.value,
        "is_silent": one.is_silent,
        "created_at": iso_time(one.created_at),
        "revoked_at": iso_time(one.revoked_at),
        "seen_at": iso_time(one.seen_at),
        "worked_at": iso_time(one.worked_at),
        "clock_ahead_s": one.clock_ahead_s,
        "hostname": one.hostname,
        "version": one.version,
        "state": one.state,
        "sentence": one.sentence,
        "files": one.files,
        "bytes": one.bytes,
        "oldest_verified_at": iso_time(one.oldest_at),
        "findings_open": one.finding_count,
        "hub_findings_open": open_findings_object(one.hub_found),
        "roots": [box_root_object(root) for root in one.roots],
    }


def box_root_object(root: BoxRoot) -> JsonObject:
    return {
        "root_id": root.root_id,
        "box": root.box_name,
        **path_fields("path", root.path),
        "set": root.set_name,
        "url": root.url,
        "policy": root.policy,
        "verify_every_s": root.verify_every_s,
        "files": root.file_count,
        "bytes": root.byte_count,
        "oldest_verified_at": iso_time(root.oldest_at),
        "age": root.age,
        "is_complete": root.is_complete,
        "settled_at": iso_time(root.settled_at),
    }


def set_object(one: SetStatus) -> JsonObject:
    return {
        "name": one.name,
        "created_at": iso_time(one.created_at),
        "voted_at": iso_time(one.voted_at),
        "vote_ms": one.vote_ms,
        "findings_open": open_findings_object(one.found),
        "agreement": describe_agreement(one).text,
        "members": [box_root_object(root) for root in one.members],
    }


def shard_object(one: ShardView) -> JsonObject:
    """Write a shard; ``folders``: the first ones."""
    return {
        "id": one.id,
        "folders": [path_fields("path", path) for path in one.folders.first],
        "folder_count": one.folders.total,
        "files": one.file_count,
        "bytes": one.byte_count,
        "oldest_verified_at": iso_time(one.oldest_at),
        "visited_at": iso_time(one.visited_at),
        "due_at": iso_time(one.due_at),
        "worker": one.worker,
        "trouble": one.trouble,
    }


def box_finding_object(finding: BoxFindingRecord) -> JsonObject:
    """Write a finding of a box; ``body``: the object that the box sent."""
    return {
        "number": finding.number,
        "kind": finding.kind,
        "certainty": finding.certainty,
        **path_fields("path", absolute(finding.root or b"", finding.path)),
        "state": finding.state,
        "opened_at": iso_time(finding.opened_at),
        "resolved_at": iso_time(finding.resolved_at),
        "body": _write_body(finding.body),
    }


def event_object(event: BoxEvent) -> JsonObject:
    """Write an event of a box; ``body``: the object that the box sent."""
    return {
        "id": event.id,
        "at": iso_time(event.at),
        "kind": event.kind,
        **({} if event.root is None else path_fields("root", event.root)),
        "body": _write_body(event.body),
    }


def _write_body(body: Mapping[str, object]) -> JsonObject:
    """Return what a box sent; an empty object if it is none that can be sent on: infinite numbers, bottomless lists."""
    try:
        json.dumps([[[[body]]]], allow_nan=False)
    except (ValueError, RecursionError):
        return {}
    return dict(body)


def open_findings_object(found: OpenFindings) -> JsonObject:
    return {kind.value: number for kind, number in sorted(found.findings.items())}


_INTERFACE = JsonInterface(
    title="integrity hub",
    description=(
        "What the pages of a hub show, read-only. Send the token of [hub_server] token_file as"
        " `Authorization: Bearer TOKEN`."
    ),
    server="/api/v1",
    error=PAGE_ERROR,
    unauthorized="neither logged in, nor the token of [hub_server] token_file",
)
_BOX = {"name": "its name"}
_ENCODED = {"name": "its name, percent-encoded"}
_AFTER_NAME = Parameter("after", "only what comes behind this name: next_after of the page before")
_AFTER_SHARD = number_parameter("after", "only shards with a larger id: next_after of the page before")
_BEFORE_REPORTED = Parameter("before", "next_before of the page before")
_PART = Parameter("name", "only boxes with this in their name")
_HEALTH = word_parameter("health", "only boxes that are like this", BoxHealth)
_SORT = word_parameter("sort", "their order", BoxOrder)
_KIND = word_parameter("kind", "only of this kind", HubFindingKind)
_OF_SET = Parameter("set", "only of the replica set of this name")
_OF_BOX = Parameter("box", "only of the box of this name")
_OF_TREE = Parameter("tree", "only of the shared tree of this name")


class HubApi:
    """The pages for programs. Lists come in pages: ``next_after`` or ``next_before`` is null on the last one."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[BaseRoute]:
        return (mount_json(_INTERFACE, self.find_pages()),)

    def find_pages(self) -> dict[str, JsonPage]:
        site = self._site
        return {
            "/status": self._page("How all boxes are, in one sentence", self._find_status),
            **self._find_box_pages(),
            "/sets": self._list(
                *("sets", "Replica sets", set_object, lambda one: one.name),
                lambda c, asked, limit: page_sets(c, site, asked, limit=limit),
                parameters=(_AFTER_NAME, LIMIT),
            ),
            "/sets/{name:path}": self._page(
                "One replica set", lambda c, asked: set_object(get_set(c, site, asked)), _ENCODED
            ),
            "/trees": JsonPage(answer=self.list_trees, summary="Shared trees", entries="trees"),
            "/trees/{name:path}": JsonPage(
                answer=self.show_tree,
                summary="One shared tree, with a page of its shards",
                parameters=(_AFTER_SHARD, LIMIT),
                entries="page",
                cursor="next_after",
                places=_ENCODED,
            ),
            "/findings": self._list(
                *("findings", "Findings of the hub, the newest first", hub_finding_object, _by_id),
                lambda c, asked, limit: page_findings(c, *read_filter(c, asked), before=_before(asked), limit=limit),
                parameters=(BEFORE, LIMIT, _KIND, _OF_SET, _OF_BOX, _OF_TREE, WITH_RESOLVED),
            ),
            "/findings/{finding_id:int}": self._page(
                "One finding of the hub",
                lambda c, asked: hub_finding_object(get_known(c, asked)),
                {"finding_id": "its number"},
            ),
            "/audit": self._list(
                *("entries", "The audit log, the newest entry first"),
                *(lambda one: {**one._asdict(), "at": iso_time(one.at)}, _by_id),
                lambda c, asked, limit: find_entries(c, before=_before(asked), limit=limit),
                parameters=(BEFORE, LIMIT),
            ),
            "/box-calls.json": JsonPage(
                answer=lambda _: describe_calls(), summary="The calls of boxes, in the form of this description"
            ),
        }

    def _find_box_pages(self) -> dict[str, JsonPage]:
        site = self._site

        def find_findings(c: sa.Connection, asked: Request, limit: int) -> list[BoxFindingRecord]:
            before, includes = read_cursor(asked, "before"), includes_resolved(asked)
            return page_box_findings(
                c, get_box(c, site, asked).id, before=before, limit=limit, include_resolved=includes
            )

        return {
            "/boxes": self._list(
                *("boxes", "Boxes", box_object, lambda one: one.name),
                lambda c, asked, limit: add_details(c, page_boxes(c, site, asked, limit=limit), site.now),
                parameters=(_AFTER_NAME, LIMIT, _PART, _HEALTH, _SORT),
            ),
            "/boxes/{name}": self._page("One box", lambda c, asked: box_object(get_box(c, site, asked)), _BOX),
            "/boxes/{name}/findings": self._list(
                *("findings", "Findings that a box reported, the newest first", box_finding_object),
                *(lambda one: write_cursor(one.cursor), find_findings),
                parameters=(_BEFORE_REPORTED, LIMIT, WITH_RESOLVED),
                places=_BOX,
            ),
            "/boxes/{name}/events": self._list(
                *("events", "Runs and actions of a box, the newest first", event_object, _by_id),
                lambda c, asked, limit: page_events(c, get_box(c, site, asked).id, before=_before(asked), limit=limit),
                parameters=(BEFORE, LIMIT),
                places=_BOX,
            ),
        }

    def _page(
        self,
        summary: str,
        find: Callable[[sa.Connection, Request], JsonObject],
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> JsonPage:

        def answer(asked: Request) -> JsonObject:
            with self._site.read() as c:
                return find(c, asked)

        return JsonPage(answer=answer, summary=summary, places=places)

    def _list(
        self,
        name: str,
        summary: str,
        write: Callable[[Any], JsonObject],
        get_cursor: Callable[[Any], object],
        find: Callable[[sa.Connection, Request, int], Sequence[object]],
        *,
        parameters: tuple[Parameter, ...],
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> JsonPage:
        """Return a page with a list that comes in pages; the next one is asked for with the first of ``parameters``."""
        cursor = f"next_{parameters[0].name}"

        def answer(asked: Request) -> JsonObject:
            limit = _read_limit(asked)
            with self._site.read() as c:
                found = find(c, asked, limit)
            return {
                name: [write(one) for one in found],
                cursor: get_cursor(found[-1]) if len(found) == limit else None,
            }

        return JsonPage(
            answer=answer, summary=summary, parameters=parameters, entries=name, cursor=cursor, places=places
        )

    def _find_status(self, c: sa.Connection, _: Request) -> JsonObject:
        now = self._site.now
        fleet = load_fleet(c, now, self._site.silent_after_s)
        sentence = sum_up_fleet(c, fleet, now, self._site.find_failing())
        return {
            "at": iso_time(now),
            "gravity": sentence.gravity.name.lower(),
            "sentence": sentence.text,
            "more": list(sentence.more),
            "boxes": sum(one.number for one in fleet.groups),
            "sets": sum(one.number for one in fleet.sets.values()),
            "findings_open": open_findings_object(fleet.found),
        }

    def list_trees(self, _: Request) -> JsonObject:
        now = self._site.now
        with self._site.read() as c:
            return {"trees": [tree_object(one, now) for one in find_promises(c, self._site.lease_s, now)]}

    def show_tree(self, request: Request) -> JsonObject:
        limit, after = _read_limit(request), read_number(request, "after") or 0
        with self._site.read() as c:
            promise = get_promise(c, self._site, request.path_params["name"])
            found = page_shards(c, promise.tree_id, after=after, limit=limit)
        return {
            **tree_object(promise, self._site.now),
            "page": [shard_object(one) for one in found],
            "next_after": found[-1].id if len(found) == limit else None,
        }


def _read_limit(request: Request) -> int:
    return read_limit(request, usual=USUAL_ENTRIES, most=MOST_ENTRIES)


def _before(request: Request) -> int | None:
    return read_number(request, "before")


def _by_id(one: Any) -> object:
    return one.id
