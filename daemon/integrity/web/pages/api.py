"""``/api/v1``: the objects of ``--json``, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from integrity.catalog.findings import get_findings, page_incidents
from integrity.catalog.runs import find_runs
from integrity.jobs.explain import explain
from integrity.model import FindingId, FindingKind, Job, RootId, RunId
from integrity.views.copies import copy_object
from integrity.views.explain import file_object
from integrity.views.roots import root_object
from integrity.views.runs import run_object
from integrity.views.service import alerts_object, channel_object, service_object
from integrity.web.json_pages import mount_json
from integrity.web.openapi import (
    BEFORE,
    LIMIT,
    MOST_ENTRIES,
    PAGE_ERROR,
    USUAL_ENTRIES,
    WITH_RESOLVED,
    JsonInterface,
    JsonPage,
    Parameter,
    number_parameter,
    word_parameter,
)
from integrity.web.query import includes_resolved, read_limit, read_number, read_raw_path, read_word
from integrity.words.findings import finding_object
from integrity.words.text import iso_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from integrity.web.site import Site
    from integrity.words.text import JsonObject


_INTERFACE = JsonInterface(
    title="integrity",
    description=(
        "The objects of `integrity --json`, read-only. Send the token of [web] token_file as"
        " `Authorization: Bearer TOKEN`."
    ),
    server="/api/v1",
    error=PAGE_ERROR,
    unauthorized="neither logged in, nor the token of [web] token_file",
)
_ROOT = number_parameter("root", "only of the root with this id")
_KIND = word_parameter("kind", "only of this kind", FindingKind)
_COPY = Parameter("copy", "only about the copy of this name")
_JOB = word_parameter("job", "only of this job", Job)


class Api:
    """The pages for programs; an error is an object, too: ``{"error": ...}``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> Sequence[BaseRoute]:
        """Return the routes."""
        return (mount_json(_INTERFACE, self.find_pages()),)

    def find_pages(self) -> dict[str, JsonPage]:
        """Return the pages by their path."""
        return {
            "/status": JsonPage(answer=self.show_status, summary="Roots, copies, channels, alerts, and the service"),
            "/findings": JsonPage(
                answer=self.list_findings,
                summary="Findings, the newest first",
                parameters=(BEFORE, LIMIT, _ROOT, _KIND, _COPY, WITH_RESOLVED),
                entries="findings",
                cursor="next_before",
            ),
            "/findings/{finding_id:number}": JsonPage(
                answer=self.show_finding, summary="One finding", places={"finding_id": "its number"}
            ),
            "/files/{path:path}": JsonPage(
                answer=self.show_file,
                summary="Everything known about one file",
                places={"path": "absolute path, percent-encoded"},
            ),
            "/runs": JsonPage(
                answer=self.list_runs,
                summary="Runs, the newest first",
                parameters=(BEFORE, LIMIT, _ROOT, _JOB),
                entries="runs",
                cursor="next_before",
            ),
        }

    def show_status(self, _: Request) -> JsonObject:
        """Return what ``integrity --json status`` prints, in one object."""
        found, live = self._site.find_status(), self._site.find_live()
        return {
            "at": iso_time(found.at),
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
                include_resolved=includes_resolved(request),
            )
        return {
            "findings": [finding_object(one) for one in found],
            "next_before": found[-1].id if len(found) == limit else None,
        }

    def show_finding(self, request: Request) -> JsonObject:
        """Return one finding."""
        number = FindingId(request.path_params["finding_id"])
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
            found = find_runs(
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
