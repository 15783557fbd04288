"""Log in, log out, and set the first password with the one-time link."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from integrity.errors import ConfigError
from integrity.units import format_duration
from integrity.web.passwords import SHORTEST_PASSWORD, LoginThrottle, PasswordStore
from integrity.web.security import Sessions, cookie_name, is_form_valid, set_cookie

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.web.rendering import Renderer


class Access:
    """The pages of log-in. ``is_secure``: the browser comes by HTTPS."""

    def __init__(
        self, site: Renderer, passwords: PasswordStore, sessions: Sessions, throttle: LoginThrottle, *, is_secure: bool
    ) -> None:
        self._site = site
        self._passwords = passwords
        self._sessions = sessions
        self._is_secure = is_secure
        self._throttle = throttle

    def routes(self) -> Sequence[Route]:
        return (
            Route("/login", self.show_login, methods=["GET"]),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
            Route("/welcome", self.show_welcome, methods=["GET"]),
            Route("/welcome", self.set_password, methods=["POST"]),
        )

    async def show_login(self, request: Request) -> Response:
        """Show the form; whoever is logged in already is sent on."""
        if request.scope["state"]["session"] is not None:
            return RedirectResponse("/", 303)
        return self._render_login(request)

    async def log_in(self, request: Request) -> Response:
        """Check the password and begin a session; after some wrong ones an address has to wait."""
        address = request.client.host if request.client else ""
        form = await request.form()
        pause = self._throttle.begin_attempt(address)
        if pause > 0:
            return self._render_login(
                request,
                f"Too many wrong passwords from your address. Try again in {format_duration(ceil(pause))}.",
                429,
                retry_after_s=ceil(pause),
            )
        if not await self._passwords.check(str(form.get("password", ""))):
            return self._render_login(request, "That is not the password.", 403)
        self._throttle.note_success(address)
        return self._begin_session()

    async def log_out(self, request: Request) -> Response:
        """End the session of this browser, or those of all browsers."""
        form, session = await request.form(), request.scope["state"]["session"]
        if not is_form_valid(session, form.get("csrf")):
            text = "Your log-in has changed since. Load the page again, and repeat it."
            return self._site.render_error(request, 403, "This form is too old", text)
        end = self._passwords.end_sessions if form.get("everywhere") else partial(self._sessions.end, session)
        try:
            await run_in_threadpool(end)
        except ConfigError as refusal:
            return self._site.render_error(request, 503, "This was not done", str(refusal))
        response = RedirectResponse("/login", 303)
        response.delete_cookie(cookie_name(is_secure=self._is_secure), path="/")
        return response

    async def show_welcome(self, request: Request) -> Response:
        token = request.query_params.get("token", "")
        if not self._passwords.is_link_valid(token):
            return self._refuse_link(request)
        return self._render_welcome(request, token)

    async def set_password(self, request: Request) -> Response:
        form = await request.form()
        token, password = str(form.get("token", "")), str(form.get("password", ""))
        if not self._passwords.is_link_valid(token):
            return self._refuse_link(request)
        error = "" if password == form.get("again") else "The two passwords are not the same."
        if not error:
            try:
                await run_in_threadpool(self._passwords.set_password, password)
            except ConfigError as refusal:
                error = str(refusal)
        if error:
            return self._render_welcome(request, token, error, 400)
        return self._begin_session()

    def _begin_session(self) -> Response:
        cookie, _ = self._sessions.open()
        response = RedirectResponse("/", 303)
        set_cookie(response, cookie, is_secure=self._is_secure)
        return response

    def _render_login(
        self, request: Request, error: str = "", status_code: int = 200, *, retry_after_s: int = 0
    ) -> Response:
        response = self._site.render(
            request,
            "login.html",
            status_code=status_code,
            title="Log in",
            error=error,
            is_password_set=self._passwords.is_set,
        )
        if retry_after_s:
            response.headers["Retry-After"] = str(retry_after_s)
        return response

    def _render_welcome(self, request: Request, token: str, error: str = "", status_code: int = 200) -> Response:
        texts = {"title": "Set a password", "token": token, "error": error}
        return self._site.render(request, "welcome.html", status_code=status_code, shortest=SHORTEST_PASSWORD, **texts)

    def _refuse_link(self, request: Request) -> Response:
        return self._site.render_error(
            request,
            403,
            "This link does not hold (any more)",
            "A link to set the password can be used once, within an hour. Restart the page for a new one:"
            f" systemctl restart {self._site.unit}; journalctl -u {self._site.unit} -n 5",
        )
