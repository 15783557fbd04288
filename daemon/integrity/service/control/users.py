"""
Limit how much of the service one user may use.

A user is the uid that the kernel reports for a connection (SO_PEERCRED, unix(7)). All limits are per user, so a client
that floods the socket harms only its own user. Root and the service's own user have a share that others can't use up.

I1  A user has at most ``connections`` open, ``requests`` queued or running, and ``BUFFER_LIMIT`` bytes in memory.
I2  A user takes at most a quarter of the server thread's time: each answer is followed by a pause of three times its
    cost, in which only other users are answered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.errors import CatalogLocked
from integrity.service.control.rights import Role, find_page_uid
from integrity.service.control.wire import BUFFER_LIMIT, REQUEST_LIMIT

if TYPE_CHECKING:
    from integrity.service.control.client_connection import ClientConnection

MOST_CONNECTIONS = 200
"""Limit for all users together, except root and the service's own user."""


_PAUSE_FACTOR = 3.0
_MOST_PAUSE_S = 1.0
"""An answer may have been slow for a reason that is not its user's: a process that was stopped, a disk that waited."""

_REQUEST_PAUSE_S = 0.1
"""Each request is logged and recorded as a run, so an untrusted user may send at most ten per second."""

_QUEUED_BYTES = 2 * REQUEST_LIMIT
"""Limit for the request lines of one user: a request with many paths takes eight times its line in memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections a user may have open, and how many requests queued or running."""

    connections: int
    requests: int


TRUSTED = Limits(connections=200, requests=1000)
"""Limits for root and the service's own user."""

OTHERS = Limits(connections=32, requests=32)
"""Limits for each other user: more than people and their scripts need, too few to slow down the service."""


class User:
    """
    The connections and requests of one user. Only the methods about requests may be called from any thread.

    Args:
        uid: from the kernel.
        role: what it may ask for, and how much of the service it may use.

    Attributes:
        connections: ordered by last answer, oldest first.
        resumes_at: no answers before this time on the monotonic clock.
    """

    def __init__(self, uid: int, role: Role) -> None:
        self.uid = uid
        self.role = role
        self.is_trusted = role is Role.TRUSTED
        self.limits = TRUSTED if self.is_trusted else OTHERS
        self.connections: dict[ClientConnection, None] = {}
        self.resumes_at = 0.0
        self._lock = threading.Lock()
        self._requests = 0
        self._request_bytes = 0

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

    def pause(self, now: float, cost_s: float, *, is_request: bool) -> None:
        """Delay this user's next answer after one that took the server ``cost_s``; by a second at most."""
        least_s = _REQUEST_PAUSE_S if is_request and not self.is_trusted else 0.0
        self.resumes_at = now + min(max(_PAUSE_FACTOR * cost_s, least_s), _MOST_PAUSE_S)

    def next_to_answer(self) -> ClientConnection | None:
        """Return the connection that has waited longest for an answer, or None."""
        return next((one for one in self.connections if one.has_question), None)

    def answered(self, connection: ClientConnection) -> None:
        """Move a connection behind the user's others."""
        if connection in self.connections:
            del self.connections[connection]
            self.connections[connection] = None

    def find_idle(self) -> ClientConnection | None:
        """Return the oldest connection without a job, or None."""
        spare = (one for one in self.connections if not one.has_job or one.is_ending)
        return min(spare, key=lambda one: one.number, default=None)

    def find_over_limit(self) -> ClientConnection | None:
        """Return the user's largest connection if all of them together exceed the memory limit, else None."""
        if sum(one.buffered_bytes for one in self.connections) <= BUFFER_LIMIT:
            return None
        return max(self.connections, key=lambda one: one.buffered_bytes)


class Users:
    """All users who have connected since the start: at most as many as can open the socket."""

    def __init__(self) -> None:
        self._users: dict[int, User] = {}
        self._trusted = {0, os.geteuid()}

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def get(self, uid: int) -> User:
        """Return the user of a uid."""
        if uid not in self._users:
            self._users[uid] = User(uid, self._find_role(uid))
        return self._users[uid]

    def _find_role(self, uid: int) -> Role:
        """Return the role of a uid that connects for the first time."""
        if uid in self._trusted:
            return Role.TRUSTED
        return Role.PAGE if uid == find_page_uid() else Role.GROUP

    def connections(self) -> Iterator[ClientConnection]:
        """Return the connections of all users; they may be dropped while iterating."""
        return (connection for user in self._users.values() for connection in list(user.connections))

    def find_room(self, user: User) -> ClientConnection | None:
        """
        Decide whether a user may open one more connection.

        Returns:
            The connection to drop for it; None if there is room.

        Raises:
            CatalogLocked: there is no room, and no connection can be dropped.
        """
        if len(user.connections) >= user.limits.connections:
            loser = user
        elif not user.is_trusted and self._count_others() >= MOST_CONNECTIONS:
            loser = self._find_largest()
        else:
            return None
        spare = loser.find_idle()
        if spare is None:
            raise CatalogLocked(
                "as many commands wait for the service as it takes at a time; see what it does with:"
                f" {program.command('status')};"
                " try again when some have ended"
            )
        return spare

    def find_spare(self) -> list[ClientConnection]:
        """Return the connections to drop when descriptors run out: idle ones of the user with the most connections."""
        user = self._find_largest()
        return [one for one in user.connections if not one.has_job or one.is_ending]

    def _count_others(self) -> int:
        return sum(len(user.connections) for user in self._users.values() if not user.is_trusted)

    def _find_largest(self) -> User:
        """Return the user with the most connections; a trusted one only if no other user has any."""
        return max(self._users.values(), key=_rank)


def _rank(user: User) -> tuple[bool, int]:
    return bool(user.connections) and not user.is_trusted, len(user.connections)
