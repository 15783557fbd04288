"""
Make and find the control socket, identify who is at the other end, and ensure one daemon per catalog.

The socket is in the runtime folder. ``CATALOG.control``, beside the catalog, is a symbolic link to it, so that a
command finds the daemon of its catalog, whichever user or runtime folder that daemon has. The socket of a killed daemon
stays behind: only connecting tells whether a daemon listens.
"""

import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.catalog.own_files import CONTROL
from integrity.config.places import default_catalog_path, default_runtime_folder
from integrity.errors import CatalogError, CatalogLocked, ConfigError, show_path
from integrity.paths import shell_path

if TYPE_CHECKING:
    import socket

    from integrity.service.control.client import DaemonClient

SOCKET_NAME = b"control.sock"
SYSTEM_SOCKET = b"/run/integrity/control.sock"
GREETING_S = 10.0
_MODE = 0o660  # members of the service's group may connect
_BACKLOG = 4096
"""The kernel's own limit (somaxconn), so that a client that connects repeatedly does not fill it easily."""
_ASK_TIMEOUT_S = 5
_TIMEVAL = struct.Struct("@ll")
_CREDENTIALS = struct.Struct("iII")  # struct ucred: unix(7)


class Peer(NamedTuple):
    """The process at the other end, as of its connect or listen."""

    pid: int
    uid: int
    gid: int


def default_socket_path() -> bytes:
    """Return the path of the daemon's socket, in systemd's RuntimeDirectory= or in the user's runtime folder."""
    folder = os.environb.get(b"RUNTIME_DIRECTORY", b"").split(b":")[0]
    return (folder or default_runtime_folder()) + b"/" + SOCKET_NAME


def find_linked_socket(catalog: bytes) -> bytes | None:
    """Return the target of the link beside a catalog; None if there is none, or no permission."""
    try:
        return os.readlink(catalog + CONTROL)
    except OSError:
        return None  # no link, folder or permission: opening the catalog itself will report the problem


def connect(path: bytes, timeout_s: int = _ASK_TIMEOUT_S) -> "socket.socket | None":
    """
    Connect to a daemon's socket.

    Returns:
        None if no daemon listens there.

    Raises:
        OSError: a daemon may listen, but can't be reached, for example for lack of permission.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    import socket  # here, for most commands find no service

    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Not settimeout: a non-blocking connect fails at once when the backlog is full, instead of waiting.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(int(timeout_s), 0))
    try:
        with _short_name(path) as name:
            connection.connect(name)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:  # close the descriptor in any case
        connection.close()
        raise
    return connection


def peer_of(connection: "socket.socket") -> Peer:
    import socket

    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(data))


def set_patience(connection: "socket.socket", patience_s: float) -> None:
    """Have each call of a blocking connection fail with ``BlockingIOError`` after that time."""
    import socket

    time = _TIMEVAL.pack(int(patience_s), int(patience_s % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, time)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, time)


def listen(path: bytes, catalog: bytes) -> "socket.socket":
    """
    Open the socket of a catalog's daemon, and make the link to it.

    Raises:
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
        _lay_link(catalog + CONTROL, path)
    except OSError as error:
        listener.close()
        raise _explain(catalog + CONTROL, error) from error
    return listener


def leave(path: bytes, catalog: bytes) -> None:
    """Remove the link if it leads to this socket, and the socket."""
    if find_linked_socket(catalog) == path:
        os.unlink(catalog + CONTROL)
    if os.path.lexists(path):
        os.unlink(path)


@contextmanager
def _short_name(path: bytes) -> Iterator[bytes]:
    """Return a short name for a path of any length: the kernel accepts 107 bytes (unix(7))."""
    folder = os.open(os.path.dirname(path) or b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield b"/proc/self/fd/%d/%s" % (folder, os.path.basename(path))
    finally:
        os.close(folder)


@contextmanager
def _locked(folder: bytes) -> Iterator[None]:
    """Lock the folder, so that two daemons that start together don't take each other's socket for a stale one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _make_folder(folder: bytes) -> None:
    """Make the runtime folder. Refuse one that another user made, because the fallback is in /tmp."""
    os.makedirs(folder, mode=0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
    found = os.stat(folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{show_path(folder)}: belongs to somebody else; remove it, or set XDG_RUNTIME_DIR")


def _refuse_live(path: bytes) -> None:
    connection = connect(path)
    if connection is not None:
        with connection:
            pid = peer_of(connection).pid
        raise CatalogLocked(f"{show_path(path)}: another daemon runs already (process {pid}); stop that one first")


def _bind(path: bytes) -> "socket.socket":
    """Replace a stale socket. Clients can connect only after ``listen``, when the mode is already set."""
    import socket

    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        with _short_name(path) as name:
            listener.bind(name)
            os.chmod(name, _MODE)
        listener.listen(_BACKLOG)
    except BaseException:  # close the descriptor in any case
        listener.close()
        raise
    return listener


def _clear(path: bytes) -> None:
    """Remove a stale socket. Refuse any other file."""
    if not os.path.lexists(path):
        return
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        raise ConfigError(f"{show_path(path)}: is not a socket; move it away")
    os.unlink(path)


def _lay_link(link: bytes, path: bytes) -> None:
    """Make the link, atomically replacing a stale one."""
    new = link + b".partial"
    if os.path.lexists(new):
        os.unlink(new)
    os.symlink(path, new)
    os.replace(new, link)


def _explain(path: bytes, error: OSError) -> ConfigError:
    return ConfigError(
        f"{show_path(path)}: the control socket can't be made: {error.strerror or error}; check its folder"
    )


def greet(path: bytes, catalog: bytes | None, patience_s: float) -> "DaemonClient | None":
    """
    Connect to a daemon; None if there is none, or it is not to be believed, or serves another catalog.

    Args:
        catalog: that it must serve; None for any.
        patience_s: how long it may take to answer.
    """
    try:
        connection = connect(path, timeout_s=max(1, int(patience_s / 2)))
    except PermissionError as error:
        raise CatalogError(_say_denied(path)) from error
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: the service can't be asked: {error.strerror or error}") from error
    if connection is None:
        return None
    if not _is_believed(connection, path, catalog):
        connection.close()
        return None
    from integrity.service.control.client import DaemonClient  # here, for most commands find no service

    daemon = DaemonClient(connection, patience_s=patience_s)
    if catalog in (None, daemon.catalog):
        return daemon
    with daemon:
        return None


def _is_believed(connection: "socket.socket", path: bytes, catalog: bytes | None) -> bool:
    """Say whether who listens may speak for the catalog: anybody can lay a socket into a folder that is open to all."""
    believed = {0, os.geteuid()}
    if catalog is not None and os.path.exists(catalog):
        believed.add(os.stat(catalog).st_uid)
    return path == SYSTEM_SOCKET or peer_of(connection).uid in believed


def _say_denied(path: bytes) -> str:
    try:
        group = _name_group(os.stat(path).st_gid)
    except OSError:
        group = "integrity"
    return (
        f"{show_path(path)}: a service watches here, and this user may not ask it; join its group"
        f" (sudo usermod -aG {group} $USER, then log in again), or use sudo. To have a catalog"
        " of your own, name it once, for folders that the service does not watch:"
        f" {program.find_program()} --catalog {shell_path(default_catalog_path())} scan FOLDER"
    )


def _name_group(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def find_daemon_of(catalog: bytes, *, patience_s: float = GREETING_S) -> "DaemonClient | None":
    """
    Find the daemon of a catalog: the link beside the catalog tells, or it is this user's own.

    Args:
        catalog: real path.

    Returns:
        It, to be closed; None if there is none.

    Raises:
        CatalogError: there is one, and this user may not reach it, or it does not answer.
    """
    linked = find_linked_socket(catalog)
    if linked is not None:
        daemon = greet(linked, catalog, patience_s)
        if daemon is not None:
            return daemon
    own = default_runtime_folder() + b"/" + SOCKET_NAME
    if own not in (linked, SYSTEM_SOCKET):
        with suppress(CatalogError):  # what does not let its own user in serves another catalog
            return greet(own, catalog, patience_s)
    return None
