"""``/api/v1`` of a hub: each list and each subject of the pages, for programs."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.routing import BaseRoute

from integrity.hub.audit import find_entries
from integrity.hub.box_calls import describe_calls
from integrity.hub.box_reports import page_box_findings, page_events
from integrity.hub.finding_list import page_findings
from integrity.hub.fleet import BoxHealth, BoxOrder, add_details
from integrity.hub.fleet_sentence import load_fleet, sum_up_fleet
from integrity.hub.kinds import HubFindingKind
from integrity.hub.objects import (
    audit_object,
    box_finding_object,
    box_object,
    event_object,
    hub_finding_object,
    open_findings_object,
    sentence_object,
    set_object,
    shard_object,
    tree_object,
)
from integrity.hub.pages.boxes import get_box, page_boxes, read_cursor, write_cursor
from integrity.hub.pages.findings import get_known, read_filter
from integrity.hub.pages.sets import get_set, page_sets
from integrity.hub.pages.site import HubSite
from integrity.hub.pages.trees import get_promise
from integrity.hub.shards.promise import find_promises
from integrity.hub.shared_trees import page_shards
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
        """Return the pages by their path."""
        return {
            "/status": JsonPage(answer=self.show_status, summary="How all boxes are, in one sentence"),
            **self._find_box_pages(),
            **self._find_set_pages(),
            "/findings": JsonPage(
                answer=self.list_findings,
                summary="Findings of the hub, the newest first",
                parameters=(BEFORE, LIMIT, _KIND, _OF_SET, _OF_BOX, _OF_TREE, WITH_RESOLVED),
                entries="findings",
                cursor="next_before",
            ),
            "/findings/{finding_id:int}": JsonPage(
                answer=self.show_finding, summary="One finding of the hub", places={"finding_id": "its number"}
            ),
            "/audit": JsonPage(
                answer=self.list_audit,
                summary="The audit log, the newest entry first",
                parameters=(BEFORE, LIMIT),
                entries="entries",
                cursor="next_before",
            ),
            "/box-calls.json": JsonPage(
                answer=lambda _: describe_calls(), summary="The calls of boxes, in the form of this description"
            ),
        }

    def _find_box_pages(self) -> dict[str, JsonPage]:
        return {
            "/boxes": JsonPage(
                answer=self.list_boxes,
                summary="Boxes",
                parameters=(_AFTER_NAME, LIMIT, _PART, _HEALTH, _SORT),
                entries="boxes",
                cursor="next_after",
            ),
            "/boxes/{name}": JsonPage(answer=self.show_box, summary="One box", places=_BOX),
            "/boxes/{name}/findings": JsonPage(
                answer=self.list_box_findings,
                summary="Findings that a box reported, the newest first",
                parameters=(_BEFORE_REPORTED, LIMIT, WITH_RESOLVED),
                entries="findings",
                cursor="next_before",
                places=_BOX,
            ),
            "/boxes/{name}/events": JsonPage(
                answer=self.list_box_events,
                summary="Runs and actions of a box, the newest first",
                parameters=(BEFORE, LIMIT),
                entries="events",
                cursor="next_before",
                places=_BOX,
            ),
        }

    def _find_set_pages(self) -> dict[str, JsonPage]:
        return {
            "/sets": JsonPage(
                answer=self.list_sets,
                summary="Replica sets",
                parameters=(_AFTER_NAME, LIMIT),
                entries="sets",
                cursor="next_after",
            ),
            "/sets/{name:path}": JsonPage(
                answer=self.show_set, summary="One replica set", places={"name": "its name, percent-encoded"}
            ),
            "/trees": JsonPage(answer=self.list_trees, summary="Shared trees", entries="trees"),
            "/trees/{name:path}": JsonPage(
                answer=self.show_tree,
                summary="One shared tree, with a page of its shards",
                parameters=(_AFTER_SHARD, LIMIT),
                entries="page",
                cursor="next_after",
                places={"name": "its name, percent-encoded"},
            ),
        }

    def show_status(self, _: Request) -> JsonObject:
        now = self._site.now
        with self._site.read() as c:
            fleet = load_fleet(c, now, self._site.silent_after_s)
            sentence = sum_up_fleet(c, fleet, now, self._site.find_failing())
        return {
            "at": iso_time(now),
            **sentence_object(sentence),
            "boxes": sum(one.number for one in fleet.groups),
            "sets": sum(one.number for one in fleet.sets.values()),
            "findings_open": open_findings_object(fleet.found),
        }

    def list_boxes(self, request: Request) -> JsonObject:
        """Return a page of boxes, with the filters and orders of the page."""
        limit = _read_limit(request)
        with self._site.read() as c:
            found = add_details(c, page_boxes(c, self._site, request, limit=limit), self._site.now)
        return {
            "boxes": [box_object(one) for one in found],
            "next_after": found[-1].name if len(found) == limit else None,
        }

    def show_box(self, request: Request) -> JsonObject:
        with self._site.read() as c:
            return box_object(get_box(c, self._site, request))

    def list_box_findings(self, request: Request) -> JsonObject:
        """Return a page of findings that a box reported, the newest first."""
        limit, before = _read_limit(request), read_cursor(request, "before")
        with self._site.read() as c:
            one = get_box(c, self._site, request)
            includes = includes_resolved(request)
            found = page_box_findings(c, one.id, before=before, limit=limit, include_resolved=includes)
        return {
            "findings": [box_finding_object(finding) for finding in found],
            "next_before": write_cursor(found[-1].cursor) if len(found) == limit else None,
        }

    def list_box_events(self, request: Request) -> JsonObject:
        """Return a page of events of a box, the newest first."""
        limit, before = _read_limit(request), read_number(request, "before")
        with self._site.read() as c:
            one = get_box(c, self._site, request)
            found = page_events(c, one.id, before=before, limit=limit)
        return {
            "events": [event_object(event) for event in found],
            "next_before": found[-1].id if len(found) == limit else None,
        }

    def list_sets(self, request: Request) -> JsonObject:
        """Return a page of replica sets."""
        limit = _read_limit(request)
        with self._site.read() as c:
            found = page_sets(c, self._site, request, limit=limit)
        return {
            "sets": [set_object(one) for one in found],
            "next_after": found[-1].name if len(found) == limit else None,
        }

    def show_set(self, request: Request) -> JsonObject:
        with self._site.read() as c:
            return set_object(get_set(c, self._site, request))

    def list_trees(self, _: Request) -> JsonObject:
        now = self._site.now
        with self._site.read() as c:
            return {"trees": [tree_object(one, now) for one in find_promises(c, self._site.lease_s, now)]}

    def show_tree(self, request: Request) -> JsonObject:
        """Return one shared tree, with a page of its shards."""
        limit, after = _read_limit(request), read_number(request, "after") or 0
        with self._site.read() as c:
            promise = get_promise(c, self._site, request.path_params["name"])
            found = page_shards(c, promise.tree_id, after=after, limit=limit)
        return {
            **tree_object(promise, self._site.now),
            "page": [shard_object(one) for one in found],
            "next_after": found[-1].id if len(found) == limit else None,
        }

    def list_findings(self, request: Request) -> JsonObject:
        """Return a page of findings of the hub, the newest first."""
        limit = _read_limit(request)
        with self._site.read() as c:
            found = page_findings(c, read_filter(c, request), before=read_number(request, "before"), limit=limit)
        return {
            "findings": [hub_finding_object(finding) for finding in found],
            "next_before": found[-1].id if len(found) == limit else None,
        }

    def show_finding(self, request: Request) -> JsonObject:
        with self._site.read() as c:
            return hub_finding_object(get_known(c, request))

    def list_audit(self, request: Request) -> JsonObject:
        """Return a page of the audit log, the newest first."""
        limit = _read_limit(request)
        with self._site.read() as c:
            found = find_entries(c, before=read_number(request, "before"), limit=limit)
        return {
            "entries": [audit_object(entry) for entry in found],
            "next_before": found[-1].id if len(found) == limit else None,
        }


def _read_limit(request: Request) -> int:
    return read_limit(request, usual=USUAL_ENTRIES, most=MOST_ENTRIES)
