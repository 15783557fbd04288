"""
A real SMTP server that fails to order, for mails that the program sends.

``Rules`` says how: a reply to MAIL, RCPT (for all or for one recipient) or DATA other than "250 OK", so many times or
always, silence, or a connection that is cut after the mail was stored, so that the client cannot know.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import threading
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from support.servers import free_port, make_context


@dataclass
class Rules:
    """
    How the server fails; "" means that it does not.

    Attributes:
        mail: the reply to MAIL.
        rcpt: the replies to RCPT by recipient; "*" stands for all.
        data: the reply to DATA; the mail is not stored then.
        times: how often they are given before all is well; None: always.
        cuts: the connection is cut when the mail is stored, before the reply.
        instead: what is sent in place of lines of replies, by their number in a connection; the greeting is 1.
    """

    mail: str = ""
    rcpt: dict[str, str] = field(default_factory=dict)
    data: str = ""
    times: int | None = None
    cuts: bool = False
    instead: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Received:
    """One mail that the server took, and how it came."""

    recipients: tuple[str, ...]
    mail: EmailMessage
    raw: bytes
    is_tls: bool
    login: str | None

    @property
    def text(self) -> str:
        """The plain text."""
        return self._part("plain")

    @property
    def html(self) -> str:
        """The HTML."""
        return self._part("html")

    def _part(self, kind: str) -> str:
        part = self.mail.get_body((kind,))
        assert part is not None, f"no text/{kind}"
        content = part.get_content()
        assert isinstance(content, str)
        return content.replace("\r\n", "\n")


class _Handler:
    """What aiosmtpd asks; it looks the methods up by name."""

    def __init__(self, *, needs_login: bool, is_tls: bool) -> None:
        self._needs_login = needs_login
        self._is_tls = is_tls  # from the first byte
        self.rules = Rules()
        self.received: list[Received] = []
        self.lock = threading.Lock()

    def _fail(self, reply: str) -> str | None:
        if not reply or self.rules.times == 0:
            return None
        if self.rules.times is not None:
            self.rules.times -= 1
        return reply

    async def handle_MAIL(  # noqa: N802 - its name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self._needs_login and not session.authenticated:
            return "530 log in first"
        failure = self._fail(self.rules.mail)
        if failure:
            return failure
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 - its name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        failure = self._fail(self.rules.rcpt.get(address, self.rules.rcpt.get("*", "")))
        if failure:
            return failure
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - its name
        failure = self._fail(self.rules.data)
        if failure:
            return failure
        raw = envelope.original_content or b""
        mail = email.message_from_bytes(raw, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        login = session.auth_data.login.decode() if isinstance(session.auth_data, LoginPassword) else None
        with self.lock:
            self.received.append(
                Received(tuple(envelope.rcpt_tos), mail, raw, self._is_tls or session.ssl is not None, login)
            )
        if self.rules.cuts:
            assert isinstance(server.transport, asyncio.WriteTransport)
            server.transport.abort()
        return "250 stored"


def mail_toml(port: int, *to: str) -> str:
    """Write the part of a configuration by which mails go to a server of the loopback."""
    names = ", ".join(f'"{name}"' for name in to or ("me@example.org",))
    return f'[mail]\nto = [{names}]\ntransport = "smtp"\nhost = "127.0.0.1"\nport = {port}\n'


class _Liar(SMTP):
    """Replies what the rules say instead of what it should."""

    said = 0

    async def push(self, status: str | bytes) -> None:
        self.said += 1
        await super().push(self.event_handler.rules.instead.get(self.said, status))


class _Controller(Controller):
    def factory(self) -> SMTP:
        return _Liar(self.handler, **self.SMTP_kwargs)


class SmtpSink:
    """
    The server, in a thread of its own, on a free port of the loopback.

    Args:
        auth: ("user", "password") that a client must log in with.
        certificate: of ``servers.make_certificate``: it speaks TLS.
        is_implicit: TLS from the first byte, rather than by STARTTLS.
        port: a given one instead of a free one.
    """

    def __init__(
        self,
        *,
        auth: tuple[str, str] | None = None,
        certificate: Path | None = None,
        is_implicit: bool = False,
        port: int = 0,
    ) -> None:
        self._handler = _Handler(needs_login=auth is not None, is_tls=certificate is not None and is_implicit)
        self.port = port or free_port()

        def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
            is_right = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == auth
            return AuthResult(success=is_right, handled=False, auth_data=data)

        options: dict[str, Any] = {}
        if auth is not None:
            options |= {"authenticator": check, "auth_require_tls": False}
        if certificate is not None:
            tls = make_context(certificate)
            options |= {"ssl_context": tls} if is_implicit else {"tls_context": tls, "require_starttls": True}
        self._controller = _Controller(self._handler, hostname="127.0.0.1", port=self.port, **options)

    @property
    def rules(self) -> Rules:
        """How it fails from now on."""
        return self._handler.rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self._handler.rules = rules

    @property
    def received(self) -> list[Received]:
        """What it took so far."""
        with self._handler.lock:
            return list(self._handler.received)

    def __enter__(self) -> SmtpSink:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()
