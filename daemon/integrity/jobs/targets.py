"""
Resolve the PATHs of a command to roots and parts of them.

A PATH inside a root is that part of the root. A folder outside all roots can become a root. A parent of a root is
refused, and so is a single file outside all roots. Real paths are compared and stored.
"""

import os
import stat
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.catalog.roots import UNSEEN, RootRecord, add_root, find_roots, remove_unseen
from integrity.errors import ConfigError, RootSuspended, show_path
from integrity.model import RootIdentity

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.config import Config, ConfiguredRoot


class Target(NamedTuple):
    """
    A root, or a part of it.

    Args:
        prefix: a folder or one file, relative to the root; empty: the whole root.
        is_named: the path was named; otherwise the command runs on all roots.
    """

    root: RootRecord
    prefix: bytes
    is_named: bool = True


def find_target(connection: "Connection", path: bytes) -> Target:
    """
    Return the root that a PATH lies in.

    Raises:
        ConfigError: the PATH lies in no root, or is the parent of one.
    """
    roots = find_roots(connection)
    target = _find_replaced(connection, roots, path) or _match(roots, os.path.realpath(path))
    if target is None:
        where = f"{show_path(path)}: lies in no recorded folder"
        if not os.path.lexists(path):
            raise ConfigError(f"{where}, and there is no such file or folder")
        raise ConfigError(f"{where}; record it with: {program.command('scan', path)}")
    return target


def _find_replaced(connection: "Connection", roots: Sequence[RootRecord], path: bytes) -> Target | None:
    """Return the recorded file or folder that a symbolic link replaced: the PATH means it, not the link's target."""
    if not os.path.islink(path):
        return None
    folder, name = os.path.split(os.path.abspath(path))
    target = _match(roots, os.path.join(os.path.realpath(folder), name))
    from integrity.catalog.files import page_files  # here, for `status` looks up no file

    if target is None or not page_files(connection, target.root.id, prefix=target.prefix, limit=1):
        return None
    return target


def find_targets(
    catalog: "Catalog", paths: Sequence[bytes], configured: Sequence[bytes], *, now: int, may_add: bool = True
) -> list[Target]:
    """
    Return the targets of a scan or scrub; unknown folders become roots.

    Args:
        catalog: open for writing.
        paths: as given; if empty, all roots including the configured ones.
        configured: absolute paths of the configured roots.
        now: seconds UTC.
        may_add: False refuses a PATH that lies in no root.

    Raises:
        ConfigError: a PATH can't be used; nothing was added for any of them.
    """
    roots = _find_known(catalog, configured, is_all=not paths)
    named = list(dict.fromkeys(os.path.realpath(path) for path in paths))
    wanted = named or _all_roots(roots, configured)
    if not wanted:
        raise ConfigError(f"no folder is recorded yet; name one: {program.command('scan FOLDER')}")
    matches = [(path, _match(roots, path) or _new_root(path, configured)) for path in wanted]
    if named and not may_add:
        _refuse_new([path for path, match in matches if isinstance(match, RootIdentity)])
    _refuse_unknown(catalog, [(path, match) for path, match in matches if isinstance(match, Target)])
    refuse_nested([identity_path for identity_path, match in matches if isinstance(match, RootIdentity)])
    targets: list[Target] = []
    for path, match in matches:
        target = _add(catalog, path, match, now) if isinstance(match, RootIdentity) else match
        target = target._replace(is_named=bool(paths))
        targets.append(target)
    return _without_overlap(targets)


def _add(catalog: "Catalog", path: bytes, identity: RootIdentity, now: int) -> Target:
    """Add a folder as a root, unless another program did so meanwhile."""
    with catalog.transaction() as connection:
        return _match(find_roots(connection), path) or Target(add_root(connection, path, identity, now), b"")


def _find_known(catalog: "Catalog", configured: Sequence[bytes], *, is_all: bool) -> list[RootRecord]:
    """Return the roots. With ``is_all``, first remove roots that never existed and are no longer configured."""
    with catalog.read() as connection:
        roots = find_roots(connection)
    if is_all and any(not root.was_seen and root.path not in configured for root in roots):
        with catalog.transaction() as connection:
            remove_unseen(connection, configured)
            roots = find_roots(connection)
    return roots


def _all_roots(roots: Sequence[RootRecord], configured: Sequence[bytes]) -> list[bytes]:
    known = [root.path for root in roots]
    return known + [path for path in configured if path not in known]


def _match(roots: Sequence[RootRecord], path: bytes) -> Target | None:
    """Match a real path with the roots; None if it lies in none, an error if it is the parent of one."""
    for root in roots:
        if path == root.path:
            return Target(root, b"")
        if path.startswith(root.path.rstrip(b"/") + b"/"):
            return Target(root, path[len(root.path.rstrip(b"/")) + 1 :])
    for root in roots:
        if root.path.startswith(path.rstrip(b"/") + b"/"):
            raise ConfigError(
                f"{show_path(path)}: contains {show_path(root.path)}, which is recorded by itself; name that"
                f" folder, or take it out first with: {program.command('forget', root.path)}"
            )
    return None


def _new_root(path: bytes, configured: Sequence[bytes]) -> RootIdentity:
    """
    Check that a path can become a root.

    A configured path always can: its absence must be reported, and must not prevent the other roots from running.
    """
    try:
        return _identify_new(path)
    except (ConfigError, RootSuspended):
        if path in configured:
            return UNSEEN  # its run reports the reason
        raise


def _identify_new(path: bytes) -> RootIdentity:
    from integrity.files.capability import identify  # here, for most roots are known
    from integrity.files.open_beneath import open_root

    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISDIR(mode):
            raise ConfigError(f"{show_path(path)}: is a file in no recorded folder; name the folder that it lies in")
        fd = open_root(path)
    except OSError as error:
        raise ConfigError(f"{show_path(path)}: {error.strerror}; check the spelling and the permissions") from error
    try:
        return identify(fd, path)
    finally:
        os.close(fd)


def _refuse_new(paths: Sequence[bytes]) -> None:
    """Refuse to add new roots: a client of the service may not make it read other folders."""
    for path in paths:
        raise ConfigError(refuse_new(path))


def refuse_new(path: bytes) -> str:
    """Return the message that a folder is not watched and who may add it."""
    name = show_path(path)
    return (
        f"{name}: is not watched yet; only root or the service's own user adds it, with:"
        f" {program.sudo_command('scan', path)}"
    )


def _refuse_unknown(catalog: "Catalog", matches: Sequence[tuple[bytes, Target]]) -> None:
    """Refuse a name in a root that neither exists nor is recorded: "all is well" would hide a typo."""
    from integrity.catalog.files import page_files

    for path, target in matches:
        if not target.prefix or os.path.lexists(path):
            continue
        with catalog.read() as connection:
            if page_files(connection, target.root.id, prefix=target.prefix, limit=1):
                continue
        raise ConfigError(f"{show_path(path)}: is not there and was never recorded; check the spelling")


def _without_overlap(targets: Sequence[Target]) -> list[Target]:
    """Drop targets that are named twice or lie in another target, so that each file is covered once."""
    kept: list[Target] = []
    for target in sorted(targets, key=lambda one: len(one.prefix)):
        parts = [one.prefix for one in kept if one.root.id == target.root.id]
        if not any(is_inside(target.prefix, part) for part in parts):
            kept.append(target)
    return sorted(kept, key=targets.index)


def is_inside(path: bytes, folder: bytes) -> bool:
    """Return whether a path is a folder or lies below it. Both are relative to the root; empty is the root."""
    return not folder or path == folder or path.startswith(folder + b"/")


def find_shared_root(config: "Config", path: bytes) -> "ConfiguredRoot | None":
    """Return the shared tree that a real path lies in: its records are in the catalogs of its shards."""
    return next((root for root in config.shared_roots if is_inside(path, root.path)), None)


def find_enclosing(path: bytes, folders: Collection[bytes]) -> bytes | None:
    """Return one of many folders that contains a path (``is_inside``), with one lookup per parent."""
    while path not in folders:
        if not path:
            return None
        path = path.rpartition(b"/")[0]
    return path


def refuse_nested(paths: Sequence[bytes]) -> None:
    """Raise ConfigError if one of several new folders lies in another."""
    for outer in paths:
        for inner in paths:
            if inner != outer and inner.startswith(outer.rstrip(b"/") + b"/"):
                raise ConfigError(f"{show_path(outer)}: contains {show_path(inner)}; name only one of the two")
