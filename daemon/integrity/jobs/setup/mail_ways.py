"""
Find out how mail can leave this machine: the sendmail of a mail program, or a server that answers on this machine.

The service must find the same way. It runs without the right to gain privileges (unless it is a user's own), which the
sendmail of most mail servers needs; they are then reached through their port.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, replace
from pwd import getpwnam, getpwuid
from urllib.parse import unquote, urlsplit

from integrity.alerts.mail import SENDMAIL, needs_privileges
from integrity.config import Mail, MailTls, MailTransport
from integrity.errors import ConfigError

_GREETING_S = 3.0
_ALIASES = "/etc/aliases"
_MOST_BYTES = 1 << 16

_PORTS = {"smtp": 25, "submission": 587, "smtps": 465}
_TLS = {"smtp": MailTls.NONE, "submission": MailTls.STARTTLS, "smtps": MailTls.TLS}


@dataclass(frozen=True, slots=True)
class MailWays:
    """
    How mail can leave.

    Args:
        program: name of the mail program that provides sendmail; empty if there is none.
        has_sendmail: the service can use it.
        has_server: a mail server answers at the configured place, usually this machine's port 25.
        local_name: whose mailbox this machine keeps: the user's.
        forwarded_to: where /etc/aliases sends mail for it; empty if nowhere.
    """

    program: str
    has_sendmail: bool
    has_server: bool
    local_name: str
    forwarded_to: str

    @property
    def is_open(self) -> bool:
        return self.has_sendmail or self.has_server


def find_mail_ways(mail: Mail, *, gains_privileges: bool, program: str = SENDMAIL) -> MailWays:
    """
    Look for a sendmail and a mail server.

    Args:
        mail: the configuration so far; its server is tried.
        gains_privileges: the service that sends the mails may run programs with more rights than its own.
    """
    is_there = os.access(program, os.X_OK)
    name = find_user_name()
    return MailWays(
        program=os.path.basename(os.path.realpath(program)) if is_there else "",
        has_sendmail=is_there and (gains_privileges or not needs_privileges(program)),
        has_server=_answers(mail.host, mail.port),
        local_name=name,
        forwarded_to=_find_alias(name),
    )


def make_mail_settings(before: Mail, to: tuple[str, ...], server: str, ways: MailWays) -> Mail:
    """
    Return the settings with which the service finds the way that was found here.

    Args:
        to: the recipients; empty for none.
        server: URL of a mail server, or empty for this machine's way.

    Raises:
        ConfigError: no URL of a mail server.
    """
    if server:
        return replace(parse_server(server, before), to=to)
    if not to or before.host != Mail().host:
        return replace(before, to=to)
    transport = MailTransport.SENDMAIL if ways.has_sendmail else MailTransport.SMTP
    return replace(before, to=to, transport=transport)


def parse_server(url: str, before: Mail) -> Mail:
    """
    Parse "smtp://host", "submission://user@host" or "smtps://user@host:465".

    Raises:
        ConfigError: it is none of these.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.password is not None:
        raise ConfigError(
            "a mail server is written as submission://USER@HOST (port 587, STARTTLS), smtps://USER@HOST"
            " (port 465, TLS) or smtp://HOST (port 25, no encryption); the password is asked for, or read from a file"
        )
    return replace(
        before,
        transport=MailTransport.SMTP,
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        tls=_TLS[parts.scheme],
        user=unquote(parts.username or ""),
    )


def require_recipient(address: str) -> None:
    """
    Require that somebody can have this address.

    Raises:
        ConfigError: it has no host, and is no user of this machine.
    """
    if "@" in address or _find_alias(address):
        return
    try:
        getpwnam(address)
    except KeyError as error:
        raise ConfigError(
            f'"{address}" is neither an address (name@host) nor a user of this machine; to get no mail: none'
        ) from error


def find_user_name() -> str:
    """Return the name of the user; root's where it has none."""
    try:
        return getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container that runs as a number
        return "root"


def _answers(host: str, port: int) -> bool:
    """Return whether a mail server greets there."""
    try:
        with socket.create_connection((host, port), timeout=_GREETING_S) as connection:
            greeting = connection.recv(4)
            with suppress(OSError):
                connection.sendall(b"QUIT\r\n")
            return greeting.startswith(b"220")
    except OSError:
        return False


def _find_alias(name: str) -> str:
    """Return where aliases(5) sends a user's mail; empty if it says nothing."""
    try:
        with open(_ALIASES, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return ""
    match = re.search(rf"^{re.escape(name)}\s*:\s*(\S.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""
