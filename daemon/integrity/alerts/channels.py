"""Define what a channel is; make the configured ones, test them, and check their configuration."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from integrity import program
from integrity.alerts import apprise
from integrity.alerts.apprise import AppriseChannel
from integrity.alerts.command import CommandChannel
from integrity.alerts.compose import Composer
from integrity.alerts.heartbeat import HEARTBEAT, ping
from integrity.alerts.mail import SENDMAIL, SendmailChannel, address_of, is_usable, sender_of
from integrity.alerts.status import HOW_TO_TELL, NOBODY
from integrity.catalog.outbox import Message
from integrity.config import Config, Mail, MailTransport
from integrity.errors import ChannelError

__all__ = ["Channel", "ChannelError", "describe_no_channels", "find_problems", "make_channels", "send_test"]


def describe_no_channels() -> str:
    return f"{NOBODY}; {HOW_TO_TELL}; a commented sample: {program.command('config sample')}"


def make_channels(config: Config, *, hostname: str | None = None, sendmail_program: str | None = None) -> list[Channel]:
    host = socket.gethostname() if hostname is None else hostname
    channels = _make_mail_channels(config.mail, host, sendmail_program or SENDMAIL)
    channels += [AppriseChannel(url) for url in dict.fromkeys(config.alerts.apprise)]
    if config.alerts.command:
        channels.append(CommandChannel(config.alerts.command))
    return channels


def _make_mail_channels(mail: Mail, hostname: str, program: str) -> list[Channel]:
    if not mail.to:
        return []
    if _uses_sendmail(mail, program):
        return [SendmailChannel(mail, hostname, program)]
    from integrity.alerts.smtp import SmtpChannel  # here, for it needs OpenSSL, as ``ping`` does

    return [SmtpChannel(mail, to, hostname) for to in dict.fromkeys(mail.to)]


def _uses_sendmail(mail: Mail, program: str) -> bool:
    if mail.transport is not MailTransport.AUTO:
        return mail.transport is MailTransport.SENDMAIL
    plain = Mail()
    # A configured server takes precedence over sendmail.
    names_server = (mail.host, mail.port, mail.tls, mail.user) != (plain.host, plain.port, plain.tls, plain.user)
    return not names_server and is_usable(program)


def send_test(
    config: Config,
    *,
    channels: list[Channel] | None = None,
    hostname: str | None = None,
    clock: Callable[[], float] = time.time,
) -> list[tuple[str, str | None]]:
    """
    Send a test message through every channel, and ping the heartbeat.

    Args:
        channels: used instead of those in the config.

    Returns:
        The name of each channel with its error, or None if it worked.
    """
    host = socket.gethostname() if hostname is None else hostname
    message = Composer(host).test(int(clock()))
    tried = make_channels(config, hostname=host) if channels is None else channels
    results = [(channel.name, _try(partial(channel.send, message))) for channel in tried]
    if config.alerts.heartbeat_url:
        results.append((HEARTBEAT, _try(partial(ping, config.alerts.heartbeat_url, ""))))
    return results


def _try(send: Callable[[], object]) -> str | None:
    try:
        send()
    except ChannelError as error:
        return str(error)
    return None


def find_problems(config: Config) -> list[str]:
    """Return the problems of the configured channels that can be found without sending anything."""
    mail = config.mail
    problems = [apprise.find_problem(url) for url in config.alerts.apprise]
    if mail.to:
        addresses = (sender_of(mail.sender, "host"), *mail.to)
        problems += [_try(partial(address_of, text)) for text in addresses]
        if mail.user and not _uses_sendmail(mail, SENDMAIL):
            from integrity.alerts.smtp import read_password

            problems.append(_try(partial(read_password, mail)))
    return [problem for problem in dict.fromkeys(problems) if problem is not None]


class Channel(Protocol):
    """
    A way to send messages.

    Attributes:
        name: unique, stable across restarts while the configuration of the channel is unchanged, without secrets.
    """

    @property
    def name(self) -> str:
        """Return the name of the channel."""

    def send(self, message: Message) -> None:
        """
        Send a message unchanged. On return, the recipient's system is responsible for it.

        Returns within about two minutes and leaves nothing running. May be called again with the same message.

        Raises:
            ChannelError: the message was refused, or it is unknown whether it was accepted.
        """
