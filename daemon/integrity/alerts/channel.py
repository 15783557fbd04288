"""What a channel is: the one thing that delivery knows of mail servers, programs and web services."""

from __future__ import annotations

from typing import Protocol

from integrity.catalog.outbox import Message


class Channel(Protocol):
    """
    One way out for messages.

    Attributes:
        name: the same from start to start as long as the way is the same, unlike any other's; holds no secrets.
    """

    @property
    def name(self) -> str:
        """Name the channel."""

    def send(self, message: Message) -> None:
        """
        Send a message, as it is; when it returns, somebody else is answerable for it.

        Comes back within about a minute whatever happens, and leaves nothing behind that works on. May be called with
        the same message again.

        Raises:
            ChannelError: it was not taken, or not certainly.
        """
