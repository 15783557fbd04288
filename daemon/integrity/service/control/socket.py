"""
Where the control socket is, who is at its other end, and that there is one daemon for a catalog.

The socket lies in the runtime folder. Beside the catalog, ``CATALOG.control`` is a symbolic link to it, so that a
command meets the daemon of the catalog that it would use, whoever runs it and wherever that one's runtime folder is.
A socket of a daemon that was killed stays behind: only connecting tells whether somebody listens.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from integrity.catalog.own_files import control_path
from integrity.config.places import default_runtime_folder
from integrity.errors import CatalogLocked, ConfigError, show_path

SOCKET_NAME = b"control.sock"
SYSTEM_SOCKET = b"/run/integrity/control.sock"
_MODE = 0o660  # whoever is in the group of the service may ask
_BACKLOG = 4096
"""The kernel's own limit (somaxconn): a client that connects again and again fills it less easily."""
_ASK_TIMEOUT_S = 5
_TIMEVAL = struct.Struct("@ll")
_CREDENTIALS = struct.Struct("iII")  # struct ucred: unix(7)


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end when it connected, or when it began to listen."""

    pid: int
    uid: int
    gid: int


def default_socket_path() -> bytes:
    """Name the daemon's socket: systemd says where (RuntimeDirectory=), else it is where this user's things are."""
    folder = os.environb.get(b"RUNTIME_DIRECTORY", b"").split(b":")[0]
    return (folder or default_runtime_folder()) + b"/" + SOCKET_NAME


def find_linked_socket(catalog: bytes) -> bytes | None:
    """Return where the link beside a catalog leads; None if there is none, or it may not be looked at."""
    try:
        return os.readlink(control_path(catalog))
    except OSError:
        return None  # no link, no folder, no permission: whoever needs the catalog itself is told by opening it


def connect(path: bytes, timeout_s: int = _ASK_TIMEOUT_S) -> socket.socket | None:
    """
    Connect to a daemon's socket.

    Returns:
        None if nobody listens there.

    Raises:
        OSError: somebody may, but can't be reached: PermissionError most of all.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Not settimeout, which makes the socket non-blocking: where many connect at once it would not wait for its turn.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(timeout_s), 0))
    try:
        with _short_name(path) as name:
            connection.connect(name)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:  # whatever it is, the descriptor must not stay open
        connection.close()
        raise
    return connection


def peer_of(connection: socket.socket) -> Peer:
    """Tell who is at the other end, as the kernel noted it."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(data))


def listen(path: bytes, catalog: bytes) -> socket.socket:
    """
    Open the socket of the daemon of a catalog, and lay the link to it.

    Raises:
        CatalogLocked: another daemon is there.
        ConfigError: the socket can't be made.
    """
    try:
        _make_folder(os.path.dirname(path))
        with _locked(os.path.dirname(path)):
            for place in (find_linked_socket(catalog), path):
                if place is not None:
                    _refuse_live(place)
            listener = _bind(path)
    except OSError as error:
        raise _explain(path, error) from error
    try:
        _lay_link(control_path(catalog), path)
    except OSError as error:
        listener.close()
        raise _explain(control_path(catalog), error) from error
    return listener


def leave(path: bytes, catalog: bytes) -> None:
    """Take away the link and the socket, if they are still those of this daemon."""
    if find_linked_socket(catalog) == path:
        os.unlink(control_path(catalog))
    if os.path.lexists(path):
        os.unlink(path)


@contextmanager
def _short_name(path: bytes) -> Iterator[bytes]:
    """Give a name for a path that is as long as it likes: the kernel takes 107 bytes (unix(7))."""
    folder = os.open(os.path.dirname(path) or b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield b"/proc/self/fd/%d/%s" % (folder, os.path.basename(path))
    finally:
        os.close(folder)


@contextmanager
def _locked(folder: bytes) -> Iterator[None]:
    """Keep two daemons that start at once from taking each other's socket for a stale one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make_folder(folder: bytes) -> None:
    """Make the runtime folder, and refuse one that somebody else laid in its place: the fallback is in /tmp."""
    os.makedirs(folder, mode=0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
    found = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{show_path(folder)}: belongs to somebody else; remove it, or set XDG_RUNTIME_DIR")


def _refuse_live(path: bytes) -> None:
    """Refuse to go on if somebody listens there."""
    connection = connect(path)
    if connection is not None:
        with connection:
            pid = peer_of(connection).pid
        raise CatalogLocked(f"{show_path(path)}: another daemon runs already (process {pid}); stop that one first")


def _bind(path: bytes) -> socket.socket:
    """Bind in the place of a stale socket; nobody can connect before ``listen``, when its mode is right."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        with _short_name(path) as name:
            listener.bind(name)
            os.chmod(name, _MODE)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:  # whatever it is, the descriptor must not stay open
        listener.close()
        raise
    return listener


def _clear(path: bytes) -> None:
    """Remove a stale socket, and nothing else."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise ConfigError(f"{show_path(path)}: is no socket; move it away")
    os.unlink(path)


def _lay_link(link: bytes, path: bytes) -> None:
    """Lay the link in the place of a stale one."""
    new = link + b".partial"
    if os.path.lexists(new):
        os.unlink(new)
    os.symlink(path, new)
    os.replace(new, link)


def _explain(path: bytes, error: OSError) -> ConfigError:
    return ConfigError(
        f"{show_path(path)}: the control socket can't be made: {error.strerror or error}; check its folder"
    )
