"""The shared trees that several boxes read, and one tree: its promise, its workers, and its shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from integrity.hub.finding_list import HubFindingFilter, page_findings
from integrity.hub.fleet_sentence import shorten
from integrity.hub.pages.site import HubSite
from integrity.hub.schema import shared_tree
from integrity.hub.shards.promise import TreePromise, find_promises
from integrity.hub.shared_trees import find_workers, page_shards
from integrity.views.sentence import Gravity
from integrity.web.query import read_at, read_number

_PAGE = 100
_FINDINGS = 50
_CLOCK_SLACK_S = 3600


class TreeView(NamedTuple):
    """A tree with its state in a sentence; a tree that nobody reads now is not green."""

    promise: TreePromise
    sentence: str
    gravity: Gravity


class TreePages:
    """The pages about shared trees."""

    def __init__(self, site: HubSite) -> None:
        self._site = site

    def routes(self) -> Sequence[Route]:
        return (
            read_at("/trees", self.show_list),
            read_at("/trees/{name:path}", self.show_tree),
        )

    def show_list(self, request: Request) -> Response:
        now = self._site.now
        with self._site.read() as c:
            trees = [make_view(one, now) for one in find_promises(c, self._site.lease_s, now)]
        return self._site.render(request, "trees.html", title="Shared trees", trees=trees)

    def show_tree(self, request: Request) -> Response:
        with self._site.read() as c:
            promise = get_promise(c, self._site, request.path_params["name"])
            workers = find_workers(c, promise.tree_id)
            shards = page_shards(c, promise.tree_id, after=read_number(request, "after") or 0, limit=_PAGE + 1)
            findings = page_findings(c, HubFindingFilter(tree_id=promise.tree_id), before=None, limit=_FINDINGS)
        return self._site.render(
            request,
            "tree.html",
            title=shorten(promise.name),
            tree=make_view(promise, self._site.now),
            lost_before=self._site.now - self._site.lease_s,
            workers=workers,
            shards=shards[:_PAGE],
            more=f"?after={shards[_PAGE - 1].id}" if len(shards) > _PAGE else "",
            findings=findings,
        )


def make_view(promise: TreePromise, now: int) -> TreeView:
    is_read = promise.is_surveyed and promise.workers and not promise.unread_shards
    is_time_possible = promise.oldest_at is None or promise.oldest_at <= now + _CLOCK_SLACK_S
    is_well = is_read and promise.is_kept and is_time_possible
    return TreeView(promise, promise.describe(now), Gravity.GOOD if is_well else Gravity.WARNING)


def get_promise(c: sa.Connection, site: HubSite, name: str) -> TreePromise:
    """
    Return the promise of one tree.

    Raises:
        HTTPException: 404, there is none with this name.
    """
    for one in find_promises(c, site.lease_s, site.now, shared_tree.c.name == name):
        return one
    raise HTTPException(404, "there is no shared tree with this name")
