"""
The password of the page: its hash in a file, the one-time link that sets it, and the throttle of log-ins.

I1  The folder of the state is the web process's own (mode 0700). The file holds an Argon2id hash, a key that signs
    sessions, and no password.
I2  Setting a password changes the key, so all sessions end, and withdraws the link; also if another process sets it,
    which is noticed with the next request. While the file can't be read, there are no sessions.
I3  A session that was logged out stays ended for as long as its cookie could be used, also after a restart.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace

import anyio.to_thread
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from integrity.errors import ConfigError, show_path
from integrity.web.certificate import replace_private_file
from integrity.web.endpoint import find_address_group

_log = logging.getLogger(__name__)

SHORTEST_PASSWORD = 10
_HASH_KIB = 7 * 1024
"""Argon2id as OWASP advises, in its variant with the least memory and five passes (Password Storage Cheat Sheet)."""

_STATE_NAME = b"password.json"
_LINK_LIFE_S = 3600.0
_FREE_FAILURES = 5
_LONGEST_PAUSE_S = 300.0
_MOST_ADDRESSES = 1000


@dataclass(frozen=True, slots=True)
class Secrets:
    """
    What the state file holds.

    Attributes:
        password_hash: empty: no password was set yet.
        ended_sessions: when each was logged out, seconds UTC, by its name.
    """

    password_hash: str
    session_key: str
    ended_sessions: Mapping[str, int] = field(default_factory=dict)


class PasswordStore:
    """
    The password of the page.

    Args:
        folder: of the state file; made with mode 0700 when a password is set.
    """

    def __init__(self, folder: bytes, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._path = os.path.join(folder, _STATE_NAME)
        self._monotonic = monotonic
        self._hasher = PasswordHasher(time_cost=5, memory_cost=_HASH_KIB, parallelism=1)
        self._lock = threading.Lock()
        self._limiter = anyio.CapacityLimiter(1)
        self._link_token = ""
        self._link_ends_at = 0.0
        self._state = self._identify()
        self._secrets = self._load()

    @property
    def is_set(self) -> bool:
        return bool(self._find_secrets().password_hash)

    @property
    def session_key(self) -> str:
        return self._find_secrets().session_key

    def make_link_token(self) -> str:
        """Return the token of a new one-time link that sets the password; it replaces the former link."""
        self._link_token = secrets.token_urlsafe(24)
        self._link_ends_at = self._monotonic() + _LINK_LIFE_S
        return self._link_token

    def is_link_valid(self, token: str) -> bool:
        """Return whether a token is that of the one-time link, unused and not older than an hour."""
        self._find_secrets()
        known = self._link_token
        return bool(known) and self._monotonic() < self._link_ends_at and is_same(known, token)

    def set_password(self, password: str) -> None:
        """
        Set the password, end all sessions, and withdraw the one-time link.

        Raises:
            ConfigError: it is too short, or the state can't be written.
        """
        if len(password) < SHORTEST_PASSWORD:
            raise ConfigError(f"the password needs at least {SHORTEST_PASSWORD} characters")
        with self._lock:
            self._store(Secrets(self._hasher.hash(password), secrets.token_hex(32)))
            self._link_token = ""

    def end_sessions(self) -> None:
        """
        End all sessions; the password stays.

        Raises:
            ConfigError: the state can't be read or written.
        """
        with self._lock:
            self._store(Secrets(self._load().password_hash, secrets.token_hex(32)))

    def end_session(self, name: str, now: int, *, forget_before: int) -> None:
        """
        End one session (I3).

        Args:
            forget_before: sessions that ended earlier are forgotten: their cookies are too old to be used.

        Raises:
            ConfigError: the state can't be read or written.
        """
        with self._lock:
            known = self._load()
            ended = {one: at for one, at in known.ended_sessions.items() if at >= forget_before}
            self._store(replace(known, ended_sessions=ended | {name: now}))

    def has_ended(self, name: str) -> bool:
        return name in self._find_secrets().ended_sessions

    async def check(self, password: str) -> bool:
        """Return what ``is_right`` does, in a thread of its own: guesses take none from those that make pages."""
        return await anyio.to_thread.run_sync(self.is_right, password, limiter=self._limiter)

    def is_right(self, password: str) -> bool:
        """Return whether a password is the right one. Takes some 50 ms on purpose; one at a time."""
        with self._lock:
            try:
                return self._hasher.verify(self._find_secrets().password_hash, password)
            except (VerificationError, InvalidHashError):
                return False

    def _find_secrets(self) -> Secrets:
        """Return what is stored; what another process has stored since is read (I2)."""
        state = self._identify()
        if state != self._state:
            try:
                self._secrets = self._load()
            except ConfigError as error:
                _log.error("%s", error)
                self._secrets = Secrets("", secrets.token_hex(32))
            self._state, self._link_token = state, ""
        return self._secrets

    def _identify(self) -> tuple[int, int] | None:
        """Return inode and time of change of the state file; None if there is none."""
        try:
            seen = os.stat(self._path)
        except OSError:
            return None
        return seen.st_ino, seen.st_ctime_ns

    def _load(self) -> Secrets:
        try:
            with open(self._path, "rb") as file:
                stored = json.load(file)
            ended = {str(name): int(at) for name, at in stored.get("ended_sessions", {}).items()}
            return Secrets(str(stored["password_hash"]), str(stored["session_key"]), ended)
        except FileNotFoundError:
            return Secrets("", secrets.token_hex(32))
        except OSError as error:
            raise ConfigError(
                f"{show_path(self._path)}: {error.strerror}; the page keeps its password there"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{show_path(self._path)}: damaged; remove the file, start the page again, and set a new password"
            ) from error

    def _store(self, new: Secrets) -> None:
        """Write the state file; requests see what it holds from now on."""
        content = json.dumps(asdict(new)).encode()
        try:
            replace_private_file(self._path, content)
        except OSError as error:
            raise ConfigError(
                f"{show_path(self._path)}: can't be written: {error.strerror}; the page keeps its password and ended"
                " sessions there"
            ) from error
        self._secrets, self._state = new, self._identify()


def is_same(secret: str, given: str) -> bool:
    """Compare a secret with what was given, which may be any text, in constant time."""
    return hmac.compare_digest(secret.encode(), given.encode(errors="replace"))


class LoginThrottle:
    """Slows down guessing: after five failures in a row each further one doubles the pause of that address."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: dict[str, tuple[int, float]] = {}  # address: failures in a row, time of the next attempt
        self._lock = threading.Lock()

    def begin_attempt(self, address: str) -> float:
        """
        Count an attempt as a failure before its password is checked, so that many at once are no more than one by one.

        Returns:
            0, or how many seconds the address has to wait; then nothing was counted, and nothing may be checked.
        """
        group, now = find_address_group(address), self._monotonic()
        with self._lock:
            failures, next_at = self._failures.get(group, (0, 0.0))
            if next_at > now:
                return next_at - now
            failures += 1
            pause = min(_LONGEST_PAUSE_S, 2.0 ** (failures - _FREE_FAILURES)) if failures >= _FREE_FAILURES else 0.0
            self._failures.pop(group, None)
            self._failures[group] = (failures, now + pause)
            while len(self._failures) > _MOST_ADDRESSES:
                del self._failures[next(iter(self._failures))]
        return 0.0

    def note_success(self, address: str) -> None:
        with self._lock:
            self._failures.pop(find_address_group(address), None)
