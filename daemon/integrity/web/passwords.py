"""
The password of the page: its hash in a file, the one-time link that sets it, and the throttle of log-ins.

I1  The folder of the state is the web process's own (mode 0700). The file holds an Argon2id hash, a key that signs
    sessions, and no password.
I2  Setting a password changes the key, so all sessions end.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from integrity.errors import ConfigError, show_path

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
    """What the state file holds: the hash of the password (empty: none set yet), and the key of sessions."""

    password_hash: str
    session_key: str


class PasswordStore:
    """
    The password of the page.

    Args:
        folder: of the state file; created with mode 0700 if it is missing.
        monotonic: seconds.
    """

    def __init__(self, folder: bytes, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._path = os.path.join(folder, _STATE_NAME)
        self._monotonic = monotonic
        self._hasher = PasswordHasher(time_cost=5, memory_cost=_HASH_KIB, parallelism=1)
        self._lock = threading.Lock()
        self._link_token = ""
        self._link_ends_at = 0.0
        self._secrets = self._load()

    @property
    def is_set(self) -> bool:
        """Whether a password was set."""
        return bool(self._secrets.password_hash)

    @property
    def session_key(self) -> str:
        """The key that signs sessions."""
        return self._secrets.session_key

    def make_link_token(self) -> str:
        """Return the token of a new one-time link that sets the password; it replaces the former link."""
        self._link_token = secrets.token_urlsafe(24)
        self._link_ends_at = self._monotonic() + _LINK_LIFE_S
        return self._link_token

    def is_link_valid(self, token: str) -> bool:
        """Return whether a token is that of the one-time link, unused and not older than an hour."""
        known = self._link_token
        return bool(known) and self._monotonic() < self._link_ends_at and hmac.compare_digest(known, token)

    def set_password(self, password: str) -> None:
        """
        Set the password, end all sessions, and withdraw the one-time link.

        Raises:
            ConfigError: it is too short, or the state can't be written.
        """
        if len(password) < SHORTEST_PASSWORD:
            raise ConfigError(f"the password needs at least {SHORTEST_PASSWORD} characters")
        with self._lock:
            new = Secrets(self._hasher.hash(password), secrets.token_hex(32))
            self._save(new)
            self._secrets = new
            self._link_token = ""

    def is_right(self, password: str) -> bool:
        """Return whether a password is the right one. Takes some 50 ms on purpose; one at a time."""
        with self._lock:
            try:
                return self._hasher.verify(self._secrets.password_hash, password)
            except (VerificationError, InvalidHashError):
                return False

    def _load(self) -> Secrets:
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(self._path, "rb") as file:
                stored = json.load(file)
            return Secrets(str(stored["password_hash"]), str(stored["session_key"]))
        except FileNotFoundError:
            return Secrets("", secrets.token_hex(32))
        except OSError as error:
            raise ConfigError(
                f"{show_path(self._path)}: {error.strerror}; the page keeps its password there"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{show_path(self._path)}: damaged; remove the file, start the page again, and set a new password"
            ) from error

    def _save(self, new: Secrets) -> None:
        content = json.dumps({"password_hash": new.password_hash, "session_key": new.session_key}).encode()
        draft = self._path + b".partial"
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(fd)
            os.replace(draft, self._path)
        except OSError as error:
            raise ConfigError(f"{show_path(self._path)}: the password can't be stored: {error.strerror}") from error


class LoginThrottle:
    """
    Slows down guessing: after five failures in a row each further one doubles the pause of that address.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failures: dict[str, tuple[int, float]] = {}  # address: failures in a row, time of the next attempt
        self._lock = threading.Lock()

    def find_pause_s(self, address: str) -> float:
        """Return how many seconds an address has to wait before its next attempt."""
        with self._lock:
            _, next_at = self._failures.get(address, (0, 0.0))
        return max(0.0, next_at - self._monotonic())

    def note_failure(self, address: str) -> None:
        """Record a wrong password."""
        with self._lock:
            failures = self._failures.pop(address, (0, 0.0))[0] + 1
            pause = min(_LONGEST_PAUSE_S, 2.0 ** (failures - _FREE_FAILURES)) if failures >= _FREE_FAILURES else 0.0
            self._failures[address] = (failures, self._monotonic() + pause)
            while len(self._failures) > _MOST_ADDRESSES:
                del self._failures[next(iter(self._failures))]

    def note_success(self, address: str) -> None:
        """Forget the failures of an address."""
        with self._lock:
            self._failures.pop(address, None)
