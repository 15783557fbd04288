"""
Have the service do what the owner decided, and show what was decided before.

I1  Nothing is done without the token of the session, nor while ``[web] actions`` is off.
I2  What changes a baseline or a file needs the password again; after some wrong ones the session has to wait.
I3  The page does nothing itself: it asks the service, which checks the same and writes the history.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CapacityLimiter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from integrity.catalog.findings import get_findings
from integrity.catalog.roots import find_roots
from integrity.catalog.runs import find_actions
from integrity.errors import AppError, CatalogError, printable
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.model import Actor, Finding, FindingId, FindingKind, Job
from integrity.paths import absolute
from integrity.service.control.client import DaemonClient
from integrity.service.control.requests import Act, ActDone, ActVerb, JobRequest, RepairPlanned
from integrity.service.control.socket import find_daemon_of
from integrity.web.query import PAGE_OWNER, find_address, read_at, read_days, read_finding_id, read_form, read_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import FormData
    from starlette.requests import Request

    from integrity.web.passwords import LoginThrottle, PasswordStore
    from integrity.web.site import Site

_PAGE = 100
_AT_ONCE = 4
_PATIENCE_S = 600.0
_DAY_S = 86400
_NOTHING = "nothing"
"""Stands for what a form without its token has shown: no plan has this one."""

Ask = Callable[[DaemonClient], str | ActDone | RepairPlanned]
"""Asks the service for something, and returns what came of it."""


def find_check(finding: Finding) -> Job | None:
    """Return the job that checks again what a finding is about; None if none does for it alone."""
    if finding.kind is FindingKind.ROOT_SUSPENDED:
        return Job.SCAN
    return Job.SCRUB if finding.path and not finding.copy else None


class ActionPages:
    """The forms by which the owner decides."""

    def __init__(self, site: Site, passwords: PasswordStore, throttle: LoginThrottle) -> None:
        self._site = site
        self._passwords = passwords
        self._throttle = throttle
        self._limiter = CapacityLimiter(_AT_ONCE)

    def routes(self) -> Sequence[Route]:
        forms: dict[str, Callable[..., Any]] = {
            "ack": self.acknowledge,
            "mute": self.mute,
            "pause": partial(self.change_root, ActVerb.PAUSE),
            "resume": partial(self.change_root, ActVerb.RESUME),
            "scrub": self.scrub,
            "check": self.check,
            "test-alert": self.test_alert,
            "accept": partial(self.change_file, ActVerb.ACCEPT),
            "plan": self.plan,
            "repair": partial(self.change_file, ActVerb.REPAIR),
        }
        posts = [Route(f"/actions/{name}", form, methods=["POST"]) for name, form in forms.items()]
        return (read_at("/history", self.show_history), *posts)

    def show_history(self, request: Request) -> Response:
        before = read_number(request, "before")
        with self._site.open_catalog() as catalog, catalog.read() as connection:
            found = find_actions(connection, before=before, limit=_PAGE + 1)
        more = f"?before={found[_PAGE - 1].id}" if len(found) > _PAGE else ""
        return self._site.render(request, "history.html", title="History", actions=found[:_PAGE], more=more)

    async def acknowledge(self, request: Request) -> Response:
        number = read_finding_id(await self._read(request))
        return await self._act(request, ActVerb.ACK, f"/findings/{number}", ids=(number,))

    async def mute(self, request: Request) -> Response:
        form = await self._read(request)
        number, until = read_finding_id(form), int(time.time()) + read_days(form) * _DAY_S
        return await self._act(request, ActVerb.MUTE, f"/findings/{number}", ids=(number,), until=until)

    async def change_root(self, verb: ActVerb, request: Request) -> Response:
        root = await self._find_root(await self._read(request))
        return await self._act(request, verb, "/", path=root)

    async def scrub(self, request: Request) -> Response:
        """Read all files of a root again, as soon as it is its turn."""
        root = await self._find_root(await self._read(request))
        done = "The scrub is queued. The overview shows how far it is."
        return await self._ask(request, partial(_queue, Job.SCRUB, root, done), "/")

    async def check(self, request: Request) -> Response:
        """Check again what a finding is about, as soon as it is its turn."""
        number = read_finding_id(await self._read(request))
        finding = await self._find_finding(number)
        job = find_check(finding)
        if job is None:
            raise HTTPException(404)
        path = absolute(finding.root, finding.path) if job is Job.SCRUB else finding.root
        done = "It is checked as soon as it is its turn. If all is well with it, this finding ends by itself."
        return await self._ask(request, partial(_queue, job, path, done), f"/findings/{number}")

    async def test_alert(self, request: Request) -> Response:
        await self._read(request)
        return await self._act(request, ActVerb.TEST_ALERT, "/alerts")

    async def plan(self, request: Request) -> Response:
        """Show what a repair would do, with the form that has it done."""
        number = read_finding_id(await self._read(request))
        path = await self._find_path(number)
        return await self._act(request, ActVerb.PLAN_REPAIR, f"/findings/{number}", path=path)

    async def change_file(self, verb: ActVerb, request: Request) -> Response:
        """Accept the present content of a file, or carry out a repair; with the password again (I2)."""
        form = await self._read(request)
        number = read_finding_id(form)
        path = await self._find_path(number)
        refusal = await self._check_password(request, form)
        if refusal is not None:
            return refusal
        reason, seen = str(form.get("reason", "")), str(form.get("seen") or _NOTHING)
        return await self._act(request, verb, f"/findings/{number}", path=path, reason=reason, seen=seen)

    async def _read(self, request: Request) -> FormData:
        """Return the form, if it may have something done (I1)."""
        form = await read_form(request)
        if not self._site.config.web.actions:
            raise HTTPException(403, "Actions are off. To allow them set `actions = true` in the section [web].")
        return form

    async def _find_root(self, form: FormData) -> bytes:
        text = str(form.get("root", ""))

        def find() -> bytes | None:
            with self._site.open_catalog() as catalog, catalog.read() as connection:
                return next((one.path for one in find_roots(connection) if str(one.id) == text), None)

        path = await run_in_threadpool(find)
        if path is None:
            raise HTTPException(404)
        return path

    async def _find_finding(self, number: FindingId) -> Finding:
        def find() -> list[Finding]:
            with self._site.open_catalog() as catalog, catalog.read() as connection:
                return get_findings(connection, [number])

        found = await run_in_threadpool(find)
        if not found:
            raise HTTPException(404)
        return found[0]

    async def _find_path(self, number: FindingId) -> bytes:
        finding = await self._find_finding(number)
        if not finding.path:
            raise HTTPException(404)
        return absolute(finding.root, finding.path)

    async def _check_password(self, request: Request, form: FormData) -> Response | None:
        """Return the answer to a form without the right password; guesses of others do not make its session wait."""
        session = request.scope["state"]["session"].name
        if self._throttle.begin_attempt(session) > 0:
            return self._site.render_error(request, 429, "Too many wrong passwords", "Try again in some minutes.")
        if not await self._passwords.check(str(form.get("password", ""))):
            return self._site.render_error(request, 403, "That is not the password", "Nothing was done. Go back.")
        self._throttle.note_success(session)
        return None

    async def _act(self, request: Request, verb: ActVerb, back: str, **fields: Any) -> Response:
        act = Act(verb, Actor(PAGE_OWNER, find_address(request)), **fields)
        return await self._ask(request, lambda daemon: daemon.act(act, _PATIENCE_S), back, act)

    async def _ask(self, request: Request, ask: Ask, back: str, act: Act | None = None) -> Response:
        """Ask the service, in threads that no page waits for; show what came of it, or the plan, with the way back."""
        try:
            done = await anyio.to_thread.run_sync(self._ask_daemon, ask, limiter=self._limiter)
        except AppError as error:
            return self._site.render_error(request, 409, "This was not done", printable(str(error)))
        if isinstance(done, RepairPlanned):
            assert act is not None
            has_changed = act.verb is ActVerb.REPAIR
            return self._site.render(
                request,
                "plan.html",
                status_code=409 if has_changed else 200,
                title="Plan of the repair",
                rows=done.rows,
                can_repair=json.loads(done.plan)["standing"] == "repairable",
                headline=done.title.rpartition(": ")[2],
                seen=done.token,
                has_changed=has_changed,
                number=int(back.rpartition("/")[2]),
                file_path=act.path,
            )
        self._site.forget_status()
        message = done if isinstance(done, str) else done.message
        return self._site.render(request, "done.html", title="Done", message=message, back=back)

    def _ask_daemon(self, ask: Ask) -> str | ActDone | RepairPlanned:
        daemon = find_daemon_of(self._site.catalog_path)
        if daemon is None:
            raise CatalogError("the service does not run, and only it can do this; start it: systemctl start integrity")
        with daemon:
            return ask(daemon)


def _queue(job: Job, path: bytes, done: str, daemon: DaemonClient) -> str:
    daemon.queue(JobRequest(job, (path,), scan=ScanOptions(), scrub=ScrubOptions()))
    return done
