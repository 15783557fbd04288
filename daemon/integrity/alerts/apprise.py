"""
Alerts through the services that apprise knows: chats, telephones, web hooks.

apprise is an extra and takes a tenth of a second to import, so it is imported when it is used.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from importlib.util import find_spec

from integrity.catalog.outbox import Message
from integrity.errors import ChannelError

_MOST_CHARS = 2000  # of the text: these are for telephones
_MISSING = "[alerts] apprise needs a package that is not there; install it: pip install 'integrity[notify]'"


@dataclass(frozen=True, slots=True)
class AppriseChannel:
    """
    One service.

    Args:
        url: as apprise writes it; often holds a token, so it is never shown.
    """

    url: str

    @property
    def name(self) -> str:
        """Name the service, and tell two of a kind apart without showing their tokens."""
        scheme = self.url.partition(":")[0]
        return f"apprise:{scheme}:{hashlib.sha256(self.url.encode()).hexdigest()[:6]}"

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
    """Say why a URL can't be used; None: it can."""
    if find_spec("apprise") is None:
        return _MISSING
    import apprise

    if not apprise.Apprise().add(url):
        scheme = url.partition(":")[0]
        return f"[alerts] apprise: a URL that begins with {scheme}: can't be used; compare it with apprise's manual"
    return None


def _shorten(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return text
    return text[:_MOST_CHARS].rpartition("\n")[0] + "\n... the rest: integrity findings"
