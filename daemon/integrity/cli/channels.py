"""How the ways that alerts leave by fare, for ``status``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity.cli.objects import iso_time
from integrity.cli.output import JsonObject, Output, printable

if TYPE_CHECKING:
    from integrity.catalog.outbox import ChannelState


def describe_channel(state: ChannelState, output: Output) -> Iterator[str]:
    """Say that alerts do not leave by this channel, and what waits; nothing of one that works."""
    from integrity.cli.words import count, local_time

    if state.failing_since is None:
        return
    waiting = f"; {count(state.waiting, 'message')} waiting for it" if state.waiting else ""
    mark = output.style(f"alerts by {printable(state.name)} fail", "yellow")
    yield f"{mark} since {local_time(state.failing_since)}: {printable(state.last_error or '')}{waiting}"
    yield "  try it when it is mended:  integrity alert test"


def channel_object(state: ChannelState) -> JsonObject:
    """Write how a channel fares."""
    return {
        "name": state.name,
        "is_failing": state.failing_since is not None,
        "failing_since": iso_time(state.failing_since),
        "failed_at": iso_time(state.failed_at),
        "is_permanent": state.is_permanent,
        "good_at": iso_time(state.good_at),
        "waiting": state.waiting,
        "error": state.last_error,
    }
