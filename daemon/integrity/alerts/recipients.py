"""Who is told, read from the configuration alone: loading the channels themselves takes a tenth of a second."""

from __future__ import annotations

from integrity.config import Config

NOBODY = "nobody will be told of damage: no channel is configured"
"""What is wrong where there is no channel."""

HOW_TO_TELL = "set `to` in [mail], or `apprise`, `command` or `heartbeat_url` in [alerts]"
"""What to do about it."""


def sends_messages(config: Config) -> bool:
    """Return whether messages leave through any channel; the heartbeat carries none."""
    return bool(config.mail.to or config.alerts.apprise or config.alerts.command)


def find_recipients(config: Config) -> tuple[str, ...]:
    """List who is told, without secrets: addresses, kinds of services, the program of a command, the heartbeat."""
    alerts = config.alerts
    names = [f"mail:{address}" for address in config.mail.to]
    names += [f"apprise:{url.partition(':')[0]}" for url in alerts.apprise]
    names += [f"command:{alerts.command[0]}"] if alerts.command else []
    names += ["heartbeat"] if alerts.heartbeat_url else []
    return tuple(dict.fromkeys(names))
