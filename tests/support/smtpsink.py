"""
A real SMTP server that fails to order, for mails that the program sends.

``Rules`` says how: a reply to MAIL, RCPT (for all or for one recipient) or DATA other than "250 OK", so many times or
always, silence, or a connection that is cut after the mail was stored, so that the client cannot know.
"""

from __future__ import annotations

import asyncio
import email
import email.policy
import socket
import ssl
import subprocess
import threading
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


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
        tls: context of the server's certificate (``make_certificate``).
        is_implicit: TLS from the first byte, rather than by STARTTLS.
        port: a given one instead of a free one.
    """

    def __init__(
        self,
        *,
        auth: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        is_implicit: bool = False,
        port: int = 0,
    ) -> None:
        self._handler = _Handler(needs_login=auth is not None, is_tls=tls is not None and is_implicit)
        self.port = port or free_port()

        def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
            is_right = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == auth
            return AuthResult(success=is_right, handled=False, auth_data=data)

        options: dict[str, Any] = {}
        if auth is not None:
            options |= {"authenticator": check, "auth_require_tls": False}
        if tls is not None:
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._controller.stop()


class SilentServer:
    """A server that takes connections and never says a word."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._clients: list[socket.socket] = []

    def __enter__(self) -> SilentServer:
        return self

    def wait_for_client(self, timeout_s: float = 30.0) -> None:
        """Wait until somebody has connected; who did is kept waiting."""
        self._socket.settimeout(timeout_s)
        self._clients.append(self._socket.accept()[0])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (*self._clients, self._socket):
            each.close()


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def make_certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for localhost, and return the context of a server with it and the certificate's file."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "30", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context, certificate
