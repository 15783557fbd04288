"""Alerts given to a program of the user's, as JSON on its standard input."""

from __future__ import annotations

from dataclasses import dataclass

from integrity.alerts.programs import TIMEOUT_S, run_program
from integrity.catalog.outbox import Message
from integrity.errors import ChannelError


@dataclass(frozen=True, slots=True)
class CommandChannel:
    """
    One program, started for each message.

    Args:
        argv: the program and its arguments; no shell is involved.
        timeout_s: how long it may take.
    """

    argv: tuple[str, ...]
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        """Name the channel; there is one command."""
        return "command"

    def send(self, message: Message) -> None:
        """Run the program; its exit code says whether it took the message."""
        ended = run_program(self.argv, message.facts.encode() + b"\n", timeout_s=self.timeout_s)
        if ended.code:
            how = f"exit code {ended.code}" if ended.code > 0 else f"ended by signal {-ended.code}"
            raise ChannelError(f"{self.argv[0]}: {how}: {ended.stderr or 'it did not say why'}")
