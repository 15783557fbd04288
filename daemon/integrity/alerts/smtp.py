"""
Mail through an SMTP server, one recipient a channel.

So each recipient has a delivery of his own: who is refused, greylisted or out of room holds up nobody else, and is
known by name. All of them get the same mail, with all names in its header.
"""

from __future__ import annotations

import os
import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage

from integrity.alerts.mail import address_of, make_mail, sender_of
from integrity.catalog.outbox import Message
from integrity.config import Mail, MailTls
from integrity.errors import ChannelError, show_path

TIMEOUT_S = 30.0
_CREDENTIAL = b"smtp-password"  # as systemd's LoadCredential= names it in our unit


@dataclass(frozen=True, slots=True)
class SmtpChannel:
    """
    Mails for one recipient.

    Args:
        mail: the configuration.
        to: the recipient, one of ``mail.to``.
        hostname: of this machine.
        timeout_s: how long the server may take for each answer.
    """

    mail: Mail
    to: str
    hostname: str
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        """Name the recipient."""
        return f"mail:{self.to}"

    def send(self, message: Message) -> None:
        """Hand the mail to the server."""
        mail = make_mail(message, sender=sender_of(self.mail.sender, self.hostname), to=self.mail.to)
        sender, recipient = address_of(str(mail["From"])), address_of(self.to)
        server = f"{self.mail.host}:{self.mail.port}"
        try:
            self._hand_over(mail, sender, recipient)
        except smtplib.SMTPException as error:
            raise ChannelError(f"{server}: {_say(error)}", is_permanent=_is_permanent(error)) from error
        except ssl.SSLCertVerificationError as error:
            text = f"{server}: its certificate can't be trusted: {error.verify_message}"
            raise ChannelError(text, is_permanent=True) from error
        except TimeoutError as error:
            raise ChannelError(f"{server}: no answer within {self.timeout_s:g} s") from error
        except OSError as error:
            raise ChannelError(f"{server}: {error.strerror or error}") from error
        except UnicodeError as error:
            text = f"{server}: [mail] host, user or an address has letters that the server can't be told"
            raise ChannelError(text, is_permanent=True) from error

    def _hand_over(self, mail: EmailMessage, sender: str, recipient: str) -> None:
        server = self._connect()
        try:
            if self.mail.tls is MailTls.STARTTLS:
                server.starttls(context=ssl.create_default_context())
            if self.mail.user:
                server.login(self.mail.user, read_password(self.mail))
            server.send_message(mail, sender, [recipient])
            # It has the mail. What becomes of the good-bye does not matter: to send it again would be wrong.
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
        finally:
            server.close()

    def _connect(self) -> smtplib.SMTP:
        # The name to say hello with is given, for the library would ask the name service, which may take minutes.
        name = self.hostname if self.hostname.isascii() else "localhost"
        host, port = self.mail.host, self.mail.port
        if self.mail.tls is MailTls.TLS:
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(host, port, local_hostname=name, timeout=self.timeout_s, context=context)
        return smtplib.SMTP(host, port, local_hostname=name, timeout=self.timeout_s)


def read_password(mail: Mail, *, get_variable: Callable[[str], str | None] = os.environ.get) -> str:
    """
    Read the password: the first line of the configured file, or systemd's credential ``smtp-password``.

    Raises:
        ChannelError: there is none.
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
        return password.decode("ascii")  # what smtplib can tell a server
    except UnicodeDecodeError as error:
        text = f"the mail password in {show_path(place)} has letters other than ASCII, which can't be sent"
        raise ChannelError(text, is_permanent=True) from error


def _is_permanent(error: smtplib.SMTPException) -> bool:
    """Tell a refusal for good (5xx) from one that will pass (4xx, RFC 5321 section 4.2.1)."""
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
    """List what the server answered, as far as the error knows."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return [(code, _text(reply)) for code, reply in error.recipients.values()]
    if isinstance(error, smtplib.SMTPResponseException):
        return [(error.smtp_code, _text(error.smtp_error))]
    return []


def _text(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return " ".join(text.split())
