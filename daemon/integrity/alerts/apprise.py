"""
Send alerts through the services that apprise supports: chats, phones, web hooks.

apprise is an optional extra and takes 0.1 s to import, so it is imported on first use.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from importlib.util import find_spec

from integrity import program
from integrity.catalog.outbox import Message
from integrity.config.copy_urls import find_service, hide_address
from integrity.errors import ChannelError
from integrity.extras import how_to_install

# apprise logs whole URLs, which hold tokens. What it says of a message is captured; the rest is for nobody.
_LOG_OF_APPRISE = logging.getLogger("apprise")
_LOG_OF_APPRISE.propagate = False
_LOG_OF_APPRISE.addHandler(logging.NullHandler())

_MOST_CHARS = 2000  # of the text: most of these services are read on phones


@dataclass(frozen=True, slots=True)
class AppriseChannel:
    """A channel for one apprise URL, which is never shown, because it often holds a token."""

    url: str

    @property
    def name(self) -> str:
        """Return the scheme and a short hash of the URL: unique among services of one kind, without their tokens."""
        return f"apprise:{find_service(self.url) or 'unknown'}:{hashlib.sha256(self.url.encode()).hexdigest()[:6]}"

    def send(self, message: Message) -> None:
        """Send the subject and the beginning of the text."""
        complaint = find_problem(self.url)
        if complaint is not None:
            raise ChannelError(complaint, is_permanent=True)
        import apprise

        service = apprise.Apprise()
        service.add(self.url)
        with apprise.LogCapture(level=logging.WARNING) as captured:  # type: ignore[no-untyped-call]
            was_taken = service.notify(title=message.subject, body=_shorten(message.body))
            said = " ".join(captured.getvalue().replace(self.url, self.name).split())
        if not was_taken:
            raise ChannelError(f"{self.name}: not taken: {said[-300:] or 'apprise does not say why'}")


def find_problem(url: str) -> str | None:
    """Return why a URL can't be used, or None."""
    if find_spec("apprise") is None:
        return f"[alerts] apprise needs packages that are not installed; {how_to_install('notify')}"
    import apprise

    if not apprise.Apprise().add(url):
        return f"[alerts] apprise: {hide_address(url)} can't be used; compare it with apprise's manual"
    return None


def _shorten(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return text
    return text[:_MOST_CHARS].rpartition("\n")[0] + f"\n... the rest: {program.command('findings')}"
