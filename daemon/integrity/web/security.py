"""
What each request passes before a page sees it: host names, sessions, tokens of forms, limits, and headers.

I1  No page is made for a request whose Host header is not in the list (DNS rebinding), or without a session. Exempt are
    ``/login``, ``/healthz``, and the static files. ``/metrics`` and ``/api`` also take the bearer token.
I2  A POST is accepted only with the token of its session (CSRF), from the same origin.
I3  A session cookie is signed and names a random session; a log-in makes a new one (session fixation). A log-out ends
    the session here: the cookie opens nothing any more, whoever has kept it.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from itsdangerous import BadSignature, TimestampSigner
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from integrity.web.passwords import is_same

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from integrity.web.passwords import PasswordStore

SESSION_LIFE_S = 7 * 86400
LARGEST_BODY = 64 * 1024
_COOKIE = "integrity_session"
_OPEN_PATHS = frozenset({"/login", "/welcome", "/healthz"})
_TOKEN_PATHS = ("/metrics", "/api/")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class BrowserSession(NamedTuple):
    """A log-in: its random name, and the token that its forms carry."""

    name: str
    csrf: str


class Sessions:
    """Makes and reads the cookies of sessions. They survive a restart of the process: those that ended are stored."""

    def __init__(self, passwords: PasswordStore, clock: Callable[[], float] = time.time) -> None:
        self._passwords = passwords
        self._clock = clock

    def find(self, cookie: str | None) -> BrowserSession | None:
        """Return the session of a cookie; None if it is missing, forged, older than a week, or has ended."""
        if not cookie or not self._passwords.is_set:
            return None
        try:
            name = self._signer().unsign(cookie, max_age=SESSION_LIFE_S).decode()
        except BadSignature:
            return None
        session = self._make(name)
        return session if self.holds(session) else None

    def open(self) -> tuple[str, BrowserSession]:
        name = secrets.token_urlsafe(24)
        return self._signer().sign(name).decode(), self._make(name)

    def end(self, session: BrowserSession) -> None:
        """
        End a session, for as long as its cookie could be used.

        Raises:
            ConfigError: the state can't be written; the session goes on.
        """
        now = int(self._clock())
        self._passwords.end_session(session.name, now, forget_before=now - SESSION_LIFE_S)

    def holds(self, session: BrowserSession) -> bool:
        """Return whether a session still holds: neither a log-out nor a new password has ended it."""
        passwords = self._passwords
        return passwords.is_set and not passwords.has_ended(session.name) and self._make(session.name) == session

    def _make(self, name: str) -> BrowserSession:
        key = self._passwords.session_key.encode()
        return BrowserSession(name, hmac.new(key, b"csrf:" + name.encode(), sha256).hexdigest())

    def _signer(self) -> TimestampSigner:
        return TimestampSigner(self._passwords.session_key, salt="session", digest_method=sha256)


def set_cookie(response: Response, cookie: str, *, is_secure: bool) -> None:
    """Add the cookie of a session to a response; an empty one ends the session."""
    response.set_cookie(
        cookie_name(is_secure=is_secure),
        cookie,
        max_age=SESSION_LIFE_S if cookie else 0,
        httponly=True,
        samesite="strict",
        secure=is_secure,
        path="/",
    )


def cookie_name(*, is_secure: bool) -> str:
    """Return the cookie's name; the prefix makes browsers refuse one that another host or plain HTTP has set."""
    return f"__Host-{_COOKIE}" if is_secure else _COOKIE


class GuardAdvice(NamedTuple):
    """How refusals advise: what to do for a host name that is right, and which key of the configuration has a token."""

    for_host: str
    token_key: str


class Guard:
    """
    ASGI middleware that enforces I1 to I3 and adds the security headers.

    Args:
        app: gets the requests that passed; ``scope["state"]["session"]`` is the session or None.
        hosts: names in lower case, without port, under which the page may be asked for.
        token: bearer token of ``/metrics`` and ``/api``; empty: none.
        is_secure: the browser comes by HTTPS.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str],
        sessions: Sessions,
        advice: GuardAdvice,
        token: str = "",
        is_secure: bool = False,
    ) -> None:
        self._app = app
        self._hosts = frozenset(hosts)
        self._sessions = sessions
        self._advice = advice
        self._token = token
        self._is_secure = is_secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        session = self._sessions.find(request.cookies.get(cookie_name(is_secure=self._is_secure)))
        scope.setdefault("state", {})["session"] = session
        refusal = self._refuse(request, session)
        secured = self._with_headers(send)
        if refusal is not None:
            await refusal(scope, receive, secured)
        else:
            await self._app(scope, LimitedBody(receive), secured)

    def _refuse(self, request: Request, session: BrowserSession | None) -> Response | None:
        """Return the answer to a request that may not pass."""
        host = _host_name(request.headers.get("host", ""))
        if host not in self._hosts:
            return PlainTextResponse(
                f"This page does not answer under this name. If the name is right, {self._advice.for_host} in"
                " integrity.toml and restart the page.\n",
                421,
            )
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return PlainTextResponse("The request is too large.\n", 413, headers={"Connection": "close"})
        path = request.scope["path"]  # and not request.url, a part of which is the Host header
        if request.method not in ("GET", "HEAD") and not self._is_same_origin(request):
            return PlainTextResponse("The request comes from another site and was refused.\n", 403)
        if session is not None or path in _OPEN_PATHS or path.startswith("/static/"):
            return None
        if path.startswith(_TOKEN_PATHS):
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            is_known = bool(self._token) and scheme.lower() == "bearer" and is_same(self._token, token.strip())
            if is_known and request.method in ("GET", "HEAD"):
                return None
            return PlainTextResponse(
                f"Log in, or send the token of {self._advice.token_key} as a bearer token.\n",
                401,
                headers={"WWW-Authenticate": "Bearer"},
            )
        return RedirectResponse("/login", 303)

    def _is_same_origin(self, request: Request) -> bool:
        """Return whether a browser says that a form comes from this page; programs send no Origin."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = request.headers.get("origin")
        return origin is None or origin.partition("://")[2].lower() == request.headers.get("host", "").lower()

    def _with_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if self._is_secure:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await send(message)

        return send_with_headers


class BodyTooLarge(Exception):
    """A body without a Content-Length went over the limit."""


class LimitedBody:
    """Receives a request and raises ``BodyTooLarge`` once its body exceeds the limit."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > LARGEST_BODY:
            raise BodyTooLarge
        return message


def is_form_valid(session: BrowserSession | None, token: object) -> bool:
    """Return whether a form carries the token of its session (I2)."""
    return session is not None and isinstance(token, str) and is_same(session.csrf, token)


def _host_name(header: str) -> str:
    """Return the name of a Host header without its port, in lower case."""
    name = header.strip().lower()
    if name.startswith("["):
        address, bracket, _ = name.partition("]")
        return address + bracket
    return name.partition(":")[0].rstrip(".")
