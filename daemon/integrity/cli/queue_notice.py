"""What a command waits for while its job is in the service's queue: a line on stderr, or an object with ``--json``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from integrity.cli.output import Output
from integrity.errors import printable, show_path
from integrity.paths import path_fields
from integrity.words.text import JsonObject, iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integrity.model import Job
    from integrity.service.control.wire import AskAhead
    from integrity.service.states import JobAhead

_FIRST_S = 1.0
"""Most jobs begin sooner, because what the service does by itself makes room for them."""

_BETWEEN_S = 5.0
_NAMED = 3

_DOING = {"scan": "scanning", "scrub": "scrubbing", "compare": "comparing"}


class WaitingNotice:
    """
    Say what a job waits for, once it has waited for a second, and again when that changes.

    Args:
        send: to the daemon, which has accepted the job.
        job: which.
    """

    def __init__(
        self,
        output: Output,
        send: Callable[[AskAhead], None],
        job: Job,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output, self._send, self._job, self._monotonic = output, send, job, monotonic
        self._ask_at = monotonic() + _FIRST_S
        self._shown = ""

    def ask(self) -> None:
        """Ask the service what the job waits for, if it is time to; ``show`` takes the answer."""
        from integrity.service.control.wire import AskAhead

        if self._monotonic() >= self._ask_at:
            self._ask_at = self._monotonic() + _BETWEEN_S
            self._send(AskAhead())

    def show(self, ahead: Sequence[JobAhead]) -> None:
        """Say what goes before the job, unless that was said already."""
        text = describe_ahead(ahead)
        if ahead and text != self._shown:
            self._output.note(f"waiting: {text}")
            self._output.give("waiting", {"job": self._job.value, "ahead": ahead_objects(ahead)})
        self._shown = text


def describe_ahead(ahead: Sequence[JobAhead]) -> str:
    """Say in words what goes before a job."""
    from integrity.words.text import local_time

    running = [
        f"{_DOING.get(one.job, one.job)} {_place(one)} (since {local_time(one.began_at)})"
        for one in ahead
        if one.began_at is not None
    ]
    waiting = [f"a {printable(one.job)} of {_place(one)}" for one in ahead if one.began_at is None]
    parts = [f"the service is {_list(running)}"] if running else []
    parts += [f"before this job comes {_list(waiting)}"] if waiting else []
    return "; ".join(parts)


def ahead_objects(ahead: Sequence[JobAhead]) -> list[JsonObject]:
    """Write what goes before a job; ``started_at`` is null for what waits as well."""
    return [
        {
            **path_fields("root", one.root),
            "job": one.job,
            "copy": one.copy or None,
            "started_at": None if one.began_at is None else iso_time(one.began_at),
        }
        for one in ahead
    ]


def _place(one: JobAhead) -> str:
    place = show_path(one.root) if one.root else "several folders"
    return f"{place} with {printable(one.copy)}" if one.copy else place


def _list(parts: Sequence[str]) -> str:
    more = len(parts) - _NAMED
    return ", ".join(parts[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
