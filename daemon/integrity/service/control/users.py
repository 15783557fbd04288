"""
The users of the control socket, and how much of the service one of them may take.

A user is the uid that the kernel reports for a connection (SO_PEERCRED, unix(7)). All limits are per user, so a client
that floods the socket harms its own user alone. Root and the service's own user have a share that others can't use up.

I1  A user has at most ``connections`` open, ``requests`` queued or running, and ``BUFFER_LIMIT`` bytes in memory.
I2  A user takes at most a quarter of the server thread's time: each answer is followed by a pause of three times what
    it took, in which only others are answered.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.errors import CatalogLocked
from integrity.service.control.wire import BUFFER_LIMIT, REQUEST_LIMIT

if TYPE_CHECKING:
    from integrity.service.control.client_connection import Connection

MOST_CONNECTIONS = 200
"""Of all users together, root and the service's own user not counted."""


_PAUSE_FACTOR = 3.0
_REQUEST_PAUSE_S = 0.1
"""Each request is logged and recorded as a run: a user who is not trusted makes at most ten a second."""

_QUEUED_BYTES = 2 * REQUEST_LIMIT
"""Of the lines of one user's requests: a request of many paths takes eight times its line in memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections a user may have open, and how many requests queued or running."""

    connections: int
    requests: int


TRUSTED = Limits(connections=200, requests=1000)
"""Of root and of the service's own user."""

OTHERS = Limits(connections=32, requests=32)
"""Of every other user: more than people and their scripts need, fewer than would be felt."""


class User:
    """
    One user, and what he has of the service. Only the methods about requests may be called from any thread.

    Args:
        uid: of the user.
        is_trusted: it is root or the service's own user.

    Attributes:
        connections: his, the one that was answered longest ago first.
        resumes_at: nothing is answered before this moment of the monotonic clock.
    """

    def __init__(self, uid: int, *, is_trusted: bool) -> None:
        self.uid = uid
        self.is_trusted = is_trusted
        self.limits = TRUSTED if is_trusted else OTHERS
        self.connections: dict[Connection, None] = {}
        self.resumes_at = 0.0
        self._lock = threading.Lock()
        self._requests = 0
        self._request_bytes = 0

    def begin_request(self, size_bytes: int) -> Callable[[], None]:
        """
        Count a request whose line has so many bytes.

        Returns:
            What is called once when the request has ended.

        Raises:
            CatalogLocked: the user has too many already.
        """
        with self._lock:
            is_over = self._requests >= self.limits.requests
            if is_over or (self._requests and self._request_bytes + size_bytes > _QUEUED_BYTES):
                raise CatalogLocked(
                    f"{self._requests} requests of yours wait for the service or are being done, and it takes no more"
                    " from one user at a time; see them with: integrity status; try again when some have ended"
                )
            self._requests += 1
            self._request_bytes += size_bytes

        def end() -> None:
            with self._lock:
                self._requests -= 1
                self._request_bytes -= size_bytes

        return end

    def pause(self, now: float, cost_s: float, *, is_request: bool) -> None:
        """Have others answered first, after something of this user's took the server so long."""
        least_s = _REQUEST_PAUSE_S if is_request and not self.is_trusted else 0.0
        self.resumes_at = now + max(_PAUSE_FACTOR * cost_s, least_s)

    def next_to_answer(self) -> Connection | None:
        """Return the connection that has waited longest for an answer; None if none waits."""
        return next((one for one in self.connections if one.has_question), None)

    def answered(self, connection: Connection) -> None:
        """Put a connection behind the user's others."""
        if connection in self.connections:
            del self.connections[connection]
            self.connections[connection] = None

    def find_idle(self) -> Connection | None:
        """Return the oldest connection that no job is done for; None if there is none."""
        spare = (one for one in self.connections if not one.has_job or one.is_ending)
        return min(spare, key=lambda one: one.number, default=None)

    def find_over_limit(self) -> Connection | None:
        """Return the connection that takes most memory, if all of the user's together take too much."""
        if sum(one.buffered_bytes for one in self.connections) <= BUFFER_LIMIT:
            return None
        return max(self.connections, key=lambda one: one.buffered_bytes)


class Users:
    """All users who have connected since the start. Their number is that of those who can open the socket."""

    def __init__(self) -> None:
        self._users: dict[int, User] = {}
        self._trusted = {0, os.geteuid()}

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def get(self, uid: int) -> User:
        """Return the user of a uid."""
        if uid not in self._users:
            self._users[uid] = User(uid, is_trusted=uid in self._trusted)
        return self._users[uid]

    def connections(self) -> Iterator[Connection]:
        """List the connections of all users; they may be dropped meanwhile."""
        return (connection for user in self._users.values() for connection in list(user.connections))

    def find_room(self, user: User) -> Connection | None:
        """
        Find out whether a user may have one more connection.

        Returns:
            The connection that is to be given up for it; None if there is room.

        Raises:
            CatalogLocked: there is no room, and none can be made.
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
                "as many commands wait for the service as it takes at a time; see what it does with: integrity status;"
                " try again when some have ended"
            )
        return spare

    def find_spare(self) -> list[Connection]:
        """List what may be given up where no more descriptors can be had: the idle ones of who has most of them."""
        user = self._find_largest()
        return [one for one in user.connections if not one.has_job or one.is_ending]

    def _count_others(self) -> int:
        return sum(len(user.connections) for user in self._users.values() if not user.is_trusted)

    def _find_largest(self) -> User:
        """Find the user with most connections; one whom the service trusts only if nobody else has any."""
        return max(self._users.values(), key=_rank)


def _rank(user: User) -> tuple[bool, int]:
    return bool(user.connections) and not user.is_trusted, len(user.connections)
