"""
SSH connections: parse ``ssh://`` URLs, connect as the ``ssh`` program would, and explain failures.

The ssh config, keys and agent of the user and the system are used. There are no prompts: a daemon has nobody to ask. A
host whose key is unknown is refused, whatever the config says: an attacker between this machine and the copy could make
damage look intact.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import asyncssh

from integrity.config.copy_urls import Scheme
from integrity.copies.ssh.loop import LoopThread
from integrity.errors import ConfigError, CopyUnreachable, show_path


class SshAddress(NamedTuple):
    """
    The address of a copy that SSH reaches.

    Attributes:
        host: a name or address, or a Host of the ssh config.
        user: None takes it from the ssh config.
        port: None takes it from the ssh config.
        folder: absolute, or relative to the user's home folder; the bytes of the other side.
    """

    host: str
    user: str | None
    port: int | None
    folder: bytes

    @property
    def shown(self) -> str:
        """Return the URL for people; it contains no secret."""
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = f":{self.port}" if self.port else ""
        folder = self.folder if self.folder.startswith(b"/") else b"/~/" + self.folder
        return f"{Scheme.SSH.prefix}{user}{host}{port}{show_path(folder)}"


def parse_address(url: str) -> SshAddress:
    """
    Parse ``ssh://[USER@]HOST[:PORT]/FOLDER``.

    Bytes that a URL can't contain are written ``%XX``; ``/~/FOLDER`` is below the user's home folder.

    Raises:
        ConfigError: the URL is malformed or contains a password. The message does not quote it.
    """
    form = "write ssh://USER@HOST/FOLDER, with :PORT behind HOST where it is not 22"
    try:
        parts = urlsplit(url, allow_fragments=False)
        host, user, port, password = parts.hostname, parts.username, parts.port, parts.password
    except ValueError as error:
        raise ConfigError(f"the ssh:// URL of the copy can't be read: {error}; {form}") from error
    if password is not None:
        raise ConfigError(
            "the ssh:// URL of the copy has a password in it, where it can be read by others:"
            " take it out, and log in with a key (ssh-keygen, ssh-copy-id) or the ssh agent"
        )
    if not host or parts.query:
        raise ConfigError(f"the ssh:// URL of the copy has {'a ?' if host else 'no host'} in it; {form}")
    folder = unquote_to_bytes(parts.path.encode("utf-8", "surrogateescape"))
    if not folder or b"\0" in folder:
        raise ConfigError(f"the ssh:// URL of the copy names no folder; {form}")
    if folder == b"/~" or folder.startswith(b"/~/"):
        folder = folder[3:].lstrip(b"/") or b"."
    return SshAddress(unquote(host), unquote(user) if user else None, port, folder.rstrip(b"/") or b"/")


_SYSTEM_CONFIG = "/etc/ssh/ssh_config"
_USER_CONFIG = "~/.ssh/config"
_USER_KNOWN = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")  # the defaults of ssh_config(5)
_SYSTEM_KNOWN = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_KEEPALIVES = 2

# At INFO, which -v turns on, it logs users, hosts and paths.
logging.getLogger("asyncssh").setLevel(logging.WARNING)


_ANSWERS = (asyncssh.SFTPError, asyncssh.ChannelOpenError)
_LOST = (asyncssh.SFTPNoConnection, asyncssh.SFTPConnectionLost)

T = TypeVar("T")


class Line:
    """
    One connection; every failure is explained with its address.

    Args:
        timeout_s: how long the other side may be silent.

    Attributes:
        must_stop: ends all waiting when it returns true.
    """

    def __init__(self, address: SshAddress, timeout_s: float) -> None:
        self.address = address
        self.timeout_s = timeout_s
        self._known = asyncssh.SSHKnownHosts()
        self._host, self._port = address.host, address.port or asyncssh.DEFAULT_PORT  # until the ssh config is read
        self._thread: LoopThread | None = None
        self.must_stop: Callable[[], bool] | None = None
        self._connection: asyncssh.SSHClientConnection | None = None

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        """Return the open connection."""
        assert self._connection is not None, "not connected"
        return self._connection

    @property
    def is_open(self) -> bool:
        """Return whether it was opened and not closed; the connection may be lost all the same."""
        return self._thread is not None

    def open(self) -> None:
        """
        Connect and log in.

        Raises:
            ConfigError: the ssh config or the file of known hosts can't be used.
            CopyUnreachable: connecting failed.
        """
        options = self._make_options()
        self._thread = LoopThread(f"ssh {self.address.host}")
        try:
            self._connection = self.run(asyncssh.connect(self.address.host, options=options))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect; may be called twice."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._connection is not None:
            # Not a graceful close, which waits for an answer: the other side may be gone.
            self._connection.abort()
        thread.close()

    def run(self, work: Awaitable[T], *, patience_s: float | None = None) -> T:
        """
        Run a coroutine on the connection, for at most ``patience_s`` seconds; ``timeout_s`` if left out.

        Raises:
            CopyUnreachable: the connection failed, or the coroutine took too long.
            ReadInterrupted: ``must_stop`` returned true.
            asyncssh.SFTPError: the other side refused a request; the connection is intact.
            asyncssh.ChannelOpenError: the other side does not offer that service.
        """
        assert self._thread is not None, "not connected"
        try:
            return self._thread.run(_limit(work, patience_s or self.timeout_s), self.must_stop)
        except (OSError, asyncssh.Error) as error:
            is_answer = isinstance(error, _ANSWERS) and not isinstance(error, _LOST)
            if is_answer and self._connection is not None and not self._connection.is_closed():
                raise
            raise self.explain(error) from error

    def _make_options(self) -> asyncssh.SSHClientConnectionOptions:
        named = {} if self.address.user is None else {"username": self.address.user}
        ported = {} if self.address.port is None else {"port": self.address.port}
        try:
            options = asyncssh.SSHClientConnectionOptions(
                host=self.address.host,
                config=_find_files((_USER_CONFIG, _SYSTEM_CONFIG)),
                password_auth=False,
                kbdint_auth=False,
                connect_timeout=self.timeout_s,
                login_timeout=self.timeout_s,
                keepalive_interval=self.timeout_s / (_KEEPALIVES + 1),
                keepalive_count_max=_KEEPALIVES,
                **named,
                **ported,
            )
            self._known = _load_known(options.known_hosts)
            self._host, self._port = options.host, options.port
        except (ValueError, OSError) as error:
            raise ConfigError(f"{self.address.shown}: the ssh settings can't be used: {error}") from error
        return asyncssh.SSHClientConnectionOptions(options, known_hosts=self._known)

    def explain(self, error: Exception) -> CopyUnreachable:
        """Return the error that says what failed and what to do."""
        return CopyUnreachable(f"{self.address.shown}: {self._say(error)}")

    def _say(self, error: Exception) -> str:
        host = self.address.host
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return self._say_of_key()
        if isinstance(error, asyncssh.PermissionDenied):
            return f"the login was refused; '{self._command()}' must work without asking anything: check key and user"
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return f"no key or cipher that both sides know: {error.reason}; '{self._command()}' may tell more"
        if isinstance(error, TimeoutError):
            return f"no answer within {self.timeout_s:g} s; is the machine up, and is there a firewall between?"
        if isinstance(error, socket.gaierror):
            return f"the name {host} can't be resolved: {error.strerror}; check the name and this machine's DNS"
        if isinstance(error, ConnectionRefusedError):
            return "the connection was refused; does sshd run there, and is the port right?"
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, asyncssh.Error | ConnectionError):
            return f"the connection was lost: {text}; compare again when it is back"
        return f"the connection failed: {text or type(error).__name__}; try '{self._command()}'"

    def _say_of_key(self) -> str:
        port = self._port if self._port != asyncssh.DEFAULT_PORT else None
        if any(self._known.match(self._host, "", port)[:2]):
            return (
                "its host key has changed: it is not the one in known_hosts, so another machine answers, or it was set"
                " up anew; only if you know why, remove the old key (ssh-keygen -R) and accept the new one:"
                f" '{self._command()}'"
            )
        return f"its host key is not known here, so it could be anybody; check and accept it once: '{self._command()}'"

    def _command(self) -> str:
        port = f"-p {self.address.port} " if self.address.port else ""
        user = f"{self.address.user}@" if self.address.user else ""
        return f"ssh {port}{user}{self.address.host}"


async def _limit(work: Awaitable[T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await work


def _find_files(names: tuple[str, ...] | list[str]) -> list[str]:
    paths = [os.path.expanduser(name) for name in names]
    return [path for path in paths if os.access(path, os.R_OK) and os.path.isfile(path)]


def _load_known(configured: object) -> asyncssh.SSHKnownHosts:
    """
    Read the known hosts: the files that the config names, or the defaults of ssh_config(5).

    ``UserKnownHostsFile none`` (None here) means that no host is known; asyncssh would take it for "trust any host".
    """
    if configured is None:
        return asyncssh.SSHKnownHosts()
    names = [str(name) for name in configured] if isinstance(configured, list | tuple) else []
    known = asyncssh.SSHKnownHosts()
    for path in _find_files([*(names or _USER_KNOWN), *_SYSTEM_KNOWN]):
        with open(path, encoding="utf-8", errors="replace") as file:
            known.load(file.read())
    return known
