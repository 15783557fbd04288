"""Define the interface between ``delivery`` and the channels."""

from __future__ import annotations

from typing import Protocol

from integrity.catalog.outbox import Message


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
