"""What programs ask for: ``/api/v1`` with the objects of ``--json``, ``/metrics`` for Prometheus, ``/healthz``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from integrity.catalog.findings import get_findings
from integrity.catalog.sqlite_errors import find_full_folder
from integrity.errors import AppError, printable, show_path
from integrity.jobs.explain import explain
from integrity.model import FindingId, FindingKind, Job
from integrity.views.copies import copy_object
from integrity.views.explain import file_object
from integrity.views.roots import root_object
from integrity.views.runs import run_object
from integrity.views.service import alerts_object, channel_object, service_object
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
    number_parameter,
    word_parameter,
)
from integrity.web.metrics import CONTENT_TYPE, write_metrics
from integrity.web.pages.findings import ask_findings
from integrity.web.pages.runs import ask_runs
from integrity.web.query import patient, read_limit, read_raw_path
from integrity.words.findings import finding_object
from integrity.words.text import iso_time

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.web.site import Site
    from integrity.words.text import JsonObject


INTERFACE = JsonInterface(
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


def find_json_pages(site: Site) -> dict[str, JsonPage]:
    """Return the pages for programs by their path; an error is an object, too: ``{"error": ...}``."""
    return {
        "/status": JsonPage(
            answer=partial(show_status, site), summary="Roots, copies, channels, alerts, and the service"
        ),
        "/findings": JsonPage(
            answer=partial(list_findings, site),
            summary="Findings, the newest first",
            parameters=(BEFORE, LIMIT, _ROOT, _KIND, _COPY, WITH_RESOLVED),
            entries="findings",
            cursor="next_before",
        ),
        "/findings/{finding_id:number}": JsonPage(
            answer=partial(show_finding, site), summary="One finding", places={"finding_id": "its number"}
        ),
        "/files/{path:path}": JsonPage(
            answer=partial(show_file, site),
            summary="Everything known about one file",
            places={"path": "absolute path, percent-encoded"},
        ),
        "/runs": JsonPage(
            answer=partial(list_runs, site),
            summary="Runs, the newest first",
            parameters=(BEFORE, LIMIT, _ROOT, _JOB),
            entries="runs",
            cursor="next_before",
        ),
    }


def show_status(site: Site, _: Request) -> JsonObject:
    found, live = site.find_status(), site.find_live()
    return {
        "at": iso_time(found.at),
        "roots": [{"id": one.root.id, **root_object(one, found.at)} for one in found.roots],
        "copies": [copy_object(one, live) for one in found.copies],
        "channels": [channel_object(one) for one in found.alerts.channels],
        "alerts": alerts_object(found.alerts, live),
        "service": service_object(live),
    }


def list_findings(site: Site, request: Request) -> JsonObject:
    limit = read_limit(request, usual=USUAL_ENTRIES, most=MOST_ENTRIES)
    with site.open_catalog() as catalog, catalog.read() as connection:
        found = ask_findings(connection, request, request.query_params.get("copy"), limit)
    return {
        "findings": [finding_object(one) for one in found],
        "next_before": found[-1].id if len(found) == limit else None,
    }


def show_finding(site: Site, request: Request) -> JsonObject:
    number = FindingId(request.path_params["finding_id"])
    with site.open_catalog() as catalog, catalog.read() as connection:
        found = get_findings(connection, [number])
    if not found:
        raise HTTPException(404, f"finding {number}: there is none")
    return finding_object(found[0])


def show_file(site: Site, request: Request) -> JsonObject:
    path = b"/" + read_raw_path(request, "/api/v1/files")
    with site.open_catalog() as catalog:
        story = explain(catalog, site.config, path)
    if not story.is_known:
        raise HTTPException(404, "nothing is recorded there")
    return file_object(story)


def list_runs(site: Site, request: Request) -> JsonObject:
    limit = read_limit(request, usual=USUAL_ENTRIES, most=MOST_ENTRIES)
    with site.open_catalog() as catalog, catalog.read() as connection:
        found = ask_runs(connection, request, limit)
    runs: list[dict[str, Any]] = [
        {"id": one.id, "root": one.root_id, "job": one.job.value, **(run_object(one) or {})} for one in found
    ]
    return {"runs": runs, "next_before": found[-1].id if len(found) == limit else None}


def show_metrics(site: Site, _: Request) -> Response:
    status, live = site.find_status(), site.find_live()
    with site.open_catalog() as catalog:
        return Response(write_metrics(catalog, status, live), media_type=CONTENT_TYPE)


def show_health(site: Site, request: Request) -> Response:
    try:
        patient(partial(_open_catalog, site))(request)
    except AppError as error:
        return PlainTextResponse(f"the catalog can't be read: {printable(str(error))}\n", 503)
    folder = find_full_folder(site.catalog_path)
    if folder is not None:
        return PlainTextResponse(f"the disk with the catalog is full: free space on {show_path(folder)}\n", 503)
    live = site.find_live()
    if live.state is None:
        return PlainTextResponse("the service does not answer\n", 503)
    if live.stop_reason:
        return PlainTextResponse(f"the service can't record what it finds: {live.stop_reason}\n", 503)
    return PlainTextResponse("ok\n")


def _open_catalog(site: Site, _: Request) -> None:
    with site.open_catalog() as catalog, catalog.read():
        pass
