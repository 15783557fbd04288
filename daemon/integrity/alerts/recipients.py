"""Who is told, read from the configuration alone: loading the channels themselves takes a tenth of a second."""

from __future__ import annotations

from integrity.config import Config


def sends_messages(config: Config) -> bool:
    """Return whether messages leave through any channel; the heartbeat carries none."""
    return bool(config.mail.to or config.alerts.apprise or config.alerts.command)
