"""``/api/v1``: the objects of ``--json``, for programs."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from integrity.catalog.findings import get_findings, page_incidents
from integrity.catalog.runs import page_runs
from integrity.jobs.explain import explain
from integrity.model import FindingId, FindingKind, Job, RootId, RunId
from integrity.views.alerts import alerts_object, channel_object
from integrity.views.copies import copy_object
from integrity.views.explain import file_object
from integrity.views.objects import finding_object, iso_time
from integrity.views.roots import root_object, run_object
from integrity.views.service import service_object
from integrity.web.json_pages import MOST_ENTRIES, USUAL_ENTRIES, mount_json
from integrity.web.query import read_limit, read_number, read_raw_path, read_word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from integrity.views.objects import JsonObject
    from integrity.web.site import Site


class Api:
    """The pages for programs; an error is an object, too: ``{"error": ...}``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes."""
        pages: dict[str, Callable[[Request], JsonObject]] = {
            "/status": self.show_status,
            "/findings": self.list_findings,
            "/findings/{finding_id:int}": self.show_finding,
            "/files/{path:path}": self.show_file,
            "/runs": self.list_runs,
            "/openapi.json": lambda _: read_description(),
        }
        return (mount_json(pages),)

    def show_status(self, _: Request) -> JsonObject:
        """Return what ``integrity --json status`` prints, in one object."""
        known, live = self._site.find_status(), self._site.find_live()
        found = known.status
        return {
            "at": iso_time(known.at),
            "roots": [{"id": one.root.id, **root_object(one)} for one in found.roots],
            "copies": [copy_object(one, live) for one in found.copies],
            "channels": [channel_object(one) for one in found.alerts.channels],
            "alerts": alerts_object(found.alerts, live),
            "service": service_object(live),
        }

    def list_findings(self, request: Request) -> JsonObject:
        """Return a page of findings, the newest first."""
        before, root = read_number(request, "before"), read_number(request, "root")
        limit = read_limit(request, usual=USUAL_ENTRIES, most=MOST_ENTRIES)
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = page_incidents(
                connection,
                before=None if before is None else FindingId(before),
                limit=limit,
                root_id=None if root is None else RootId(root),
                kind=read_word(request, "kind", FindingKind),
                copy=request.query_params.get("copy"),
                include_resolved=request.query_params.get("state") == "all",
            )
        return {
            "findings": [finding_object(one) for one in found],
            "next_before": found[-1].id if len(found) == limit else None,
        }

    def show_finding(self, request: Request) -> JsonObject:
        """Return one finding."""
        number = FindingId(min(int(request.path_params["finding_id"]), (1 << 63) - 1))
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = get_findings(connection, [number])
        if not found:
            raise HTTPException(404, f"finding {number}: there is none")
        return finding_object(found[0])

    def show_file(self, request: Request) -> JsonObject:
        """Return what ``integrity --json explain`` prints; the path is the absolute one."""
        path = b"/" + read_raw_path(request, "/api/v1/files")
        with self._site.open_catalog() as catalog:
            story = explain(catalog, self._site.config, path)
        if not story.is_known:
            raise HTTPException(404, "nothing is recorded there")
        return file_object(story)

    def list_runs(self, request: Request) -> JsonObject:
        """Return a page of runs, the newest first."""
        before, root = read_number(request, "before"), read_number(request, "root")
        limit = read_limit(request, usual=USUAL_ENTRIES, most=MOST_ENTRIES)
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = page_runs(
                connection,
                before=None if before is None else RunId(before),
                limit=limit,
                root_id=None if root is None else RootId(root),
                job=read_word(request, "job", Job),
            )
        runs: list[dict[str, Any]] = [
            {"id": one.id, "root": one.root_id, "job": one.job.value, **(run_object(one) or {})} for one in found
        ]
        return {"runs": runs, "next_before": found[-1].id if len(found) == limit else None}


@cache
def read_description() -> JsonObject:
    """Return the OpenAPI description."""
    import json

    text = (resources.files("integrity.web") / "openapi.json").read_text(encoding="utf-8")
    described: JsonObject = json.loads(text)
    return described
