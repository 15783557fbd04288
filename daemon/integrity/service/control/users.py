"""
Decide who may ask the service for what, and limit how much of it one user may use.

A user is the uid that the kernel reports for a connection (SO_PEERCRED, unix(7)). The mode and group of the socket
decide who may connect at all; ``MAY_ASK`` is the whole list of rights beyond that. All limits are per user, so a client
that floods the socket harms only its own user.

I1  A user has at most ``connections`` open, ``requests`` queued or running, and ``BUFFER_LIMIT`` bytes of unread
    answers.
I2  A user's connections together use at most a quarter of one CPU for reading and answering: they pause for three
    times what they used.
"""

from __future__ import annotations

import pwd
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.errors import CatalogLocked, ConfigError
from integrity.service.control.requests import Act, AskPicture
from integrity.service.control.wire import (
    BUFFER_LIMIT,
    REQUEST_LIMIT,
    AskAhead,
    AskCovered,
    AskState,
    LendRoots,
    StopJob,
    Submit,
)

if TYPE_CHECKING:
    from integrity.service.control.wire import Question

PAGE_USER = "integrity-web"
"""The user that the page, `integrity web`, runs as."""


class Role(Enum):
    """What a user is to the service."""

    TRUSTED = "root, or the service's own user"
    PAGE = "the user of the page"
    GROUP = "another user who may open the socket"


_COMMANDS = frozenset({Submit, LendRoots, StopJob, AskState, AskCovered, AskAhead})

MAY_ASK: Mapping[Role, frozenset[type[Question]]] = {
    Role.TRUSTED: _COMMANDS | {Act, AskPicture},
    Role.PAGE: frozenset({Submit, AskState, AskCovered, Act, AskPicture}),
    Role.GROUP: _COMMANDS,
}

_CHANGES = frozenset({Submit, Act})
"""What the page may ask only if its actions are switched on."""


def find_page_uid() -> int | None:
    """Return the uid of the page's user; None if there is no such user."""
    try:
        return pwd.getpwnam(PAGE_USER).pw_uid
    except KeyError:
        return None


def require_right(role: Role, question: Question, *, allows_actions: bool) -> None:
    """
    Check that a user may ask a question.

    Args:
        allows_actions: the configuration lets the page have things done.

    Raises:
        ConfigError: not; the message says what to do.
    """
    if type(question) not in MAY_ASK[role]:
        what = "be asked for that by the page" if role is Role.PAGE else "be asked for that by this user; use sudo"
        raise ConfigError(f"the service can't {what}")
    if role is Role.PAGE and type(question) in _CHANGES and not allows_actions:
        raise ConfigError(
            "actions of the page are switched off; to allow them set `actions = true` in the section [web] of the"
            " service's configuration, then: systemctl reload integrity"
        )


_PAUSE_FACTOR = 3.0
_LEAST_PAUSE_S = 0.001  # shorter ones are saved up

_REQUEST_PAUSE_S = 0.1
"""Each request is logged and recorded as a run, so an untrusted user may send at most ten per second."""

_QUEUED_BYTES = 2 * REQUEST_LIMIT
"""Limit for the request lines of one user: a request with many paths takes eight times its line in memory."""


class Limits(NamedTuple):
    """How many connections a user may have open, and how many requests queued or running."""

    connections: int
    requests: int


TRUSTED = Limits(connections=200, requests=1000)
"""Limits for root and the service's own user."""

OTHERS = Limits(connections=32, requests=32)
"""Limits for each other user: more than people and their scripts need, too few to slow down the service."""


def find_role(uid: int, own_uid: int) -> Role:
    """Return what a user is to the service, which runs as ``own_uid``."""
    if uid in (0, own_uid):
        return Role.TRUSTED
    return Role.PAGE if uid == find_page_uid() else Role.GROUP


class User:
    """What one user has and uses. Any thread may call all methods."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.is_trusted = role is Role.TRUSTED
        self.limits = TRUSTED if self.is_trusted else OTHERS
        self._lock = threading.Lock()
        self._connections = 0
        self._requests = 0
        self._request_bytes = 0
        self._unread_bytes = 0
        self._resumes_at = 0.0

    def connect(self) -> None:
        """
        Count a connection, until ``disconnect``.

        Raises:
            CatalogLocked: the user has too many.
        """
        with self._lock:
            if self._connections >= self.limits.connections:
                raise CatalogLocked(
                    "as many commands wait for the service as it takes at a time; see what it does with:"
                    f" {program.command('status')};"
                    " try again when some have ended"
                )
            self._connections += 1

    def disconnect(self) -> None:
        with self._lock:
            self._connections -= 1

    def begin_request(self, size_bytes: int) -> Callable[[], None]:
        """
        Count a request whose line has this size.

        Returns:
            A function to call once when the request has ended.

        Raises:
            CatalogLocked: the user has too many requests.
        """
        with self._lock:
            is_over = self._requests >= self.limits.requests
            if is_over or (self._requests and self._request_bytes + size_bytes > _QUEUED_BYTES):
                raise CatalogLocked(
                    f"{self._requests} requests of yours wait for the service or are being done, and it takes no more"
                    f" from one user at a time; see them with: {program.command('status')}; try again when some"
                    " have ended"
                )
            self._requests += 1
            self._request_bytes += size_bytes

        def end() -> None:
            with self._lock:
                self._requests -= 1
                self._request_bytes -= size_bytes

        return end

    def hold(self, size_bytes: int) -> bool:
        """Count bytes that the user has yet to read; negative when they were sent. Return whether the limit is kept."""
        with self._lock:
            self._unread_bytes += size_bytes
            return self._unread_bytes <= BUFFER_LIMIT

    def pause(self, cost_s: float, *, is_request: bool = False) -> None:
        """Pause a connection that used ``cost_s`` of CPU time, behind the pauses of the user's other connections."""
        least_s = _REQUEST_PAUSE_S if is_request and not self.is_trusted else 0.0
        with self._lock:
            now = time.monotonic()
            self._resumes_at = max(self._resumes_at, now) + max(_PAUSE_FACTOR * cost_s, least_s)
            wait_s = self._resumes_at - now
        if wait_s >= _LEAST_PAUSE_S:
            time.sleep(wait_s)
