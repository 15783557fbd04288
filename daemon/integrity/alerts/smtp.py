"""
Send mail through an SMTP server, with one channel for each recipient.

A recipient who is refused, greylisted or over quota therefore delays nobody else, and errors name the recipient. All
recipients get the same mail, with all addresses in its header.
"""

from __future__ import annotations

import os
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from types import TracebackType
from typing import Any, NoReturn, Self

from integrity.alerts.mail import address_of, make_mail, sender_of
from integrity.catalog.outbox import Message
from integrity.config import Mail, MailTls
from integrity.errors import ChannelError, show_path

TIMEOUT_S = 30.0
TOTAL_S = 120.0
_LONGEST_REPLY = 500
_CREDENTIAL = b"smtp-password"  # name in LoadCredential= of our systemd unit


@dataclass(frozen=True, slots=True)
class SmtpChannel:
    """
    A channel for one recipient.

    Args:
        to: the recipient, one of ``mail.to``.
        hostname: used in HELO, and replaces HOSTNAME in the sender.
        timeout_s: longest silence of the server.
        total_s: deadline for the whole exchange, because a server may send a byte now and then.
    """

    mail: Mail
    to: str
    hostname: str
    timeout_s: float = TIMEOUT_S
    total_s: float = TOTAL_S

    @property
    def name(self) -> str:
        return f"mail:{self.to}"

    def send(self, message: Message) -> None:
        mail = make_mail(message, sender=sender_of(self.mail.sender, self.hostname), to=self.mail.to)
        sender, recipient = address_of(str(mail["From"])), address_of(self.to)
        server = f"{self.mail.host}:{self.mail.port}"
        try:
            with _Deadline(self.total_s) as deadline:
                self._hand_over(mail, sender, recipient, deadline)
        except OSError as error:  # includes smtplib's exceptions
            if deadline.is_over:
                raise ChannelError(f"{server}: not done within {self.total_s:g} s") from error
            self._refuse(server, error)
        except UnicodeError as error:
            text = f"{server}: [mail] host, user or an address has letters that the server can't be told"
            raise ChannelError(text, is_permanent=True) from error

    def _refuse(self, server: str, error: OSError) -> NoReturn:
        if isinstance(error, smtplib.SMTPException):
            raise ChannelError(f"{server}: {_say(error)}", is_permanent=_is_permanent(error)) from error
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"{server}: its certificate can't be trusted: {error.verify_message}"
            raise ChannelError(text, is_permanent=True) from error
        if isinstance(error, TimeoutError):
            raise ChannelError(f"{server}: no answer within {self.timeout_s:g} s") from error
        raise ChannelError(f"{server}: {error.strerror or error}") from error

    def _hand_over(self, mail: EmailMessage, sender: str, recipient: str, deadline: _Deadline) -> None:
        server = self._connect(deadline)
        try:
            if self.mail.tls is MailTls.STARTTLS:
                server.starttls(context=ssl.create_default_context())
            if self.mail.user:
                server.login(self.mail.user, read_password(self.mail))
            server.send_message(mail, sender, [recipient])
            # The server has accepted the mail. Ignore errors of QUIT: a retry would send the mail twice.
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
        finally:
            server.close()

    def _connect(self, deadline: _Deadline) -> smtplib.SMTP:
        # Pass the HELO name: smtplib would look it up in DNS, which may take minutes.
        name = self.hostname if self.hostname.isascii() else "localhost"
        host, port = self.mail.host, self.mail.port
        if self.mail.tls is MailTls.TLS:
            context = ssl.create_default_context()
            return _TlsServer(deadline, host, port, local_hostname=name, timeout=self.timeout_s, context=context)
        return _Server(deadline, host, port, local_hostname=name, timeout=self.timeout_s)


class _Deadline:
    """Shut a connection down when its time is over, even if another thread blocks on it."""

    def __init__(self, total_s: float) -> None:
        self.is_over = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(total_s, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()

    def watch(self, connection: socket.socket) -> None:
        """Shut this connection down at the deadline, or now if it has passed."""
        with self._lock:
            self._socket = connection
            self._shut_down_if_over()

    def _expire(self) -> None:
        with self._lock:
            self.is_over = True
            self._shut_down_if_over()

    def _shut_down_if_over(self) -> None:
        if self.is_over and self._socket is not None:
            with suppress(OSError):  # already closed
                # Not the TLS socket's own method: after it, the other thread would continue to read unencrypted.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Server(smtplib.SMTP):
    """An SMTP connection that puts every reply under the deadline."""

    def __init__(self, deadline: _Deadline, *args: Any, **options: Any) -> None:
        self._deadline = deadline
        super().__init__(*args, **options)

    def getreply(self) -> tuple[int, bytes]:
        assert self.sock is not None, "connected"
        self._deadline.watch(self.sock)  # STARTTLS replaces the socket
        return super().getreply()


class _TlsServer(_Server, smtplib.SMTP_SSL):
    """The same, with TLS from the first byte."""


def read_password(mail: Mail, *, get_variable: Callable[[str], str | None] = os.environ.get) -> str:
    """
    Return the password: the first line of the configured file, or systemd's credential ``smtp-password``.

    Raises:
        ChannelError: there is no usable password.
    """
    place = mail.password_file
    if not place:
        folder = get_variable("CREDENTIALS_DIRECTORY")
        if not folder:
            text = "[mail] user is set, but there is no password: set password_file, or load the credential"
            raise ChannelError(f"{text} {_CREDENTIAL.decode()} in the systemd unit", is_permanent=True)
        place = os.path.join(os.fsencode(folder), _CREDENTIAL)
    try:
        with open(place, "rb") as file:
            line = file.readline()
    except OSError as error:
        text = f"can't read the mail password in {show_path(place)}: {error.strerror}"
        raise ChannelError(text, is_permanent=True) from error
    password = line.rstrip(b"\r\n")
    if not password:
        raise ChannelError(f"the mail password in {show_path(place)} is empty", is_permanent=True)
    try:
        return password.decode("ascii")  # smtplib can send only ASCII
    except UnicodeDecodeError as error:
        text = f"the mail password in {show_path(place)} has letters other than ASCII, which can't be sent"
        raise ChannelError(text, is_permanent=True) from error


def _is_permanent(error: smtplib.SMTPException) -> bool:
    """Return whether the server refused permanently (5xx), not temporarily (4xx; RFC 5321 section 4.2.1)."""
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return True
    return any(500 <= code < 600 for code, _ in _answers(error))


def _say(error: smtplib.SMTPException) -> str:
    answers = _answers(error)
    if not answers:
        return str(error) or type(error).__name__
    what = "the login was refused" if isinstance(error, smtplib.SMTPAuthenticationError) else "the server said"
    return f"{what}: {answers[0][0]} {answers[0][1]}"


def _answers(error: smtplib.SMTPException) -> list[tuple[int, str]]:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return [(code, _text(reply)) for code, reply in error.recipients.values()]
    if isinstance(error, smtplib.SMTPResponseException):
        return [(error.smtp_code, _text(error.smtp_error))]
    return []


def _text(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())[:_LONGEST_REPLY]
