"""
Resolve ``--with`` and ``--from`` to a copy: where it is, and which folder it is a copy of.

A configured name gives both, and so does the place of a configured copy in any spelling: one place is one copy. A path
or URL that was compared before keeps its folder. Any other is a copy of the folder named with it, as in ``diff -r
FOLDER COPY``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from integrity import program
from integrity.catalog.copies import CopyRecord, find_copies
from integrity.catalog.files import page_files
from integrity.catalog.roots import RootRecord, find_roots
from integrity.config.copy_urls import find_local_path, has_backend_options, is_url, keeps_versions
from integrity.copies.opening import open_copy
from integrity.copies.repository import ArchiveOptions
from integrity.errors import ConfigError, CopyUnreachable, show_path
from integrity.files.excludes import Excludes, make_left_out
from integrity.jobs.targets import is_inside
from integrity.paths import shell_word
from integrity.same_place import get_fs_name, recognise

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config, ConfiguredCopy
    from integrity.copies.protocol import Copy
    from integrity.hashing.stored_digests import Algorithm


@dataclass(frozen=True, slots=True)
class CopySource:
    """
    Location of a copy.

    Args:
        name: in the configuration, or its URL without secrets.
        url: path or URL, as ``open_copy`` accepts it.
        base: absolute path of the folder that is copied.
        verify_every_s: required interval between comparisons; None if not configured.
        behind_s: how far the backup may lag behind the files.
        read_percent: share of the data that each comparison reads back, unless it says otherwise; None: not configured.
        algorithms: the only ones to read from a manifest; empty for all.
        exclude: patterns of the files that the backup leaves out on purpose.
        archive: what is configured of a repository of backups.
        disk: the record of the disk that is meant, where several take turns; None: whichever is there.
    """

    name: str
    url: str
    base: bytes
    verify_every_s: int | None = None
    behind_s: int = 0
    read_percent: float | None = None
    algorithms: tuple[Algorithm, ...] = ()
    exclude: tuple[str, ...] = ()
    archive: ArchiveOptions | None = None
    disk: CopyRecord | None = None

    @property
    def recorded_name(self) -> str:
        """Return the name that findings use: of the one disk, if one is meant."""
        return self.name if self.disk is None else self.disk.name

    @property
    def is_configured(self) -> bool:
        """Return whether it has a name in the configuration, which outlives its path."""
        return self.verify_every_s is not None

    @property
    def path(self) -> bytes | None:
        """Name the folder or file on this machine that it is; None for other kinds."""
        return find_local_path(self.url)

    def open(self, excludes: Excludes | None = None, must_stop: Callable[[], bool] | None = None) -> Copy:
        """
        Create the copy; entering it connects.

        Args:
            excludes: of the root; also left out of a mounted copy.
            must_stop: returns whether waiting for the copy must end with ReadInterrupted.

        Raises:
            ConfigError: an extra is missing, or the URL can't be used.
        """
        copy = open_copy(self.url, root=self.base, excludes=excludes, algorithms=self.algorithms, archive=self.archive)
        if must_stop is not None:
            copy.interrupt_when(must_stop)
        return copy


def find_source(
    catalog: Catalog, config: Config, text: str, paths: Sequence[bytes], endpoint: str | None = None
) -> CopySource:
    """
    Resolve a configured name, a path or a URL to a copy; ``endpoint`` is the address of an S3 server not Amazon's.

    ``paths`` are the real paths to compare with the copy. An unknown copy is a copy of the first.

    Raises:
        ConfigError: the copy can't be determined, or can't be a copy of these paths.
    """
    for configured in config.copies:
        if configured.name == text:
            return make_source(configured, _with_endpoint(configured.url, endpoint))
    with catalog.read() as connection:
        roots = find_roots(connection)
        known = find_copies(connection)
    # Findings and their commands use the recorded name.
    meant = next((one for one in known if one.name == text and _is_address_believed(catalog, one)), None)
    written, disk = (text, None) if meant is None else (meant.url, meant if meant.disk else None)
    url = _with_endpoint(_complete(written, [configured.name for configured in config.copies]), endpoint)
    for configured in config.copies:
        is_meant = all(is_inside(path, configured.of.rstrip(b"/")) for path in paths)
        if is_meant and is_same_place(url, configured.url):
            return replace(make_source(configured, url), disk=disk)
    shown = open_copy(url).shown
    base = _find_base(known, roots, shown, paths)
    if base is None:
        base = _choose_base(catalog, roots, [root.path for root in config.roots], text, paths)
    source = CopySource(shown, url, base, disk=disk)
    _refuse_overlap(source)
    return source


def find_series(catalog: Catalog, config: Config, text: str, path: bytes | None) -> tuple[CopySource, bytes]:
    """
    Return a copy that keeps versions, as ``find_source`` takes it, and the part of its folder that is meant.

    ``path``: a real path; None: all of the copy.

    Raises:
        ConfigError: it keeps none, or is not meant by what was given.
    """
    paths = [] if path is None else [path]
    source = find_source(catalog, config, text, paths)
    (base,) = narrow(source, paths)
    if not keeps_versions(source.url):
        raise ConfigError(f"{source.name}: keeps no versions, as restic:, borg: and snapshots: do")
    return source, base


def find_known_sources(catalog: Catalog, config: Config, path: bytes) -> list[CopySource]:
    """Return the copies that should contain a path: configured ones first, then those compared before."""
    found = [make_source(one, one.url) for one in config.copies if is_inside(path, one.of.rstrip(b"/"))]
    with catalog.read() as connection:
        roots = {root.id: root for root in find_roots(connection)}
        known = find_copies(connection)
    for record in known:
        base = record.find_base(roots[record.root_id].path)
        is_found = any(record.base_name == one.name or is_same_place(record.url, one.url) for one in found)
        if not is_found and is_inside(path, base.rstrip(b"/")) and _is_address_believed(catalog, record):
            found.append(CopySource(record.base_name, record.url, base))
    return found


def _is_address_believed(catalog: Catalog, record: CopyRecord) -> bool:
    """
    Return whether a recorded address may be opened without the user naming it.

    Anyone who can write to a catalog can forge its rows. As root, with root's keys and passwords, only addresses from
    root's own catalog are opened. Options that make rclone run a command or read a password are never taken from a row.
    """
    is_own = os.geteuid() != 0 or os.stat(catalog.path).st_uid == 0
    return is_own and not has_backend_options(record.url)


def make_source(configured: ConfiguredCopy, url: str) -> CopySource:
    """Return a configured copy at its own or another spelling of its place."""
    return CopySource(
        configured.name,
        url,
        configured.of,
        verify_every_s=configured.verify_every_s,
        behind_s=configured.behind_s,
        read_percent=configured.read_percent or None,
        exclude=configured.exclude,
        archive=ArchiveOptions(
            configured.path, configured.host, configured.tags, configured.password_file, configured.password_command
        ),
    )


def is_same_place(one: str, other: str) -> bool:
    """Return whether two paths or URLs name one place now; links are followed, a trailing slash is ignored."""
    return _spell(one) == _spell(other)


def _spell(url: str) -> str:
    return url.rstrip("/") if find_local_path(url) is None else os.path.realpath(url)


def find_record(catalog: Catalog, name: str, path: bytes) -> CopyRecord | None:
    """Return the record of the copy of this name, of one disk where several take turns, that should contain a path."""
    with catalog.read() as connection:
        roots = {root.id: root for root in find_roots(connection)}
        named = [one for one in find_copies(connection) if one.name == name]
    return next((one for one in named if is_inside(path, one.find_base(roots[one.root_id].path).rstrip(b"/"))), None)


def require_disk(record: CopyRecord, copy: Copy) -> None:
    """
    Check that an entered copy is on the disk that it was recorded on.

    Raises:
        CopyUnreachable: another disk, which takes turns with it, is mounted at its place.
    """
    identity = copy.identity()
    if record.identity is None or identity is None:
        return
    if recognise(get_fs_name(record.identity), identity.names) is None:
        raise CopyUnreachable(f"{copy.shown}: another disk than that of {record.name} is there: mount that one")


def place_in_copy(source: CopySource, path: bytes) -> bytes:
    """Return the path in the copy of an absolute path below its base; empty for the base itself."""
    return path[len(source.base.rstrip(b"/")) + 1 :]


def is_left_out(source: CopySource, path: bytes, *, is_folder: bool) -> bool:
    """Return whether a backup leaves out a file or folder on purpose, given its absolute path below the copy's base."""
    left_out, place = make_left_out(source.exclude), place_in_copy(source, path)
    return left_out is not None and place != b"" and left_out.covers(place, is_folder=is_folder)


def narrow(source: CopySource, paths: Sequence[bytes]) -> list[bytes]:
    """
    Return the part of each absolute path that the copy covers; without paths, all of the copy.

    Raises:
        ConfigError: the copy covers nothing of one of them.
    """
    base = source.base.rstrip(b"/") or b"/"
    covered = []
    for path in paths or [base]:
        if is_inside(path, base.rstrip(b"/")):
            covered.append(path)
        elif is_inside(base, path.rstrip(b"/")):
            covered.append(base)
        else:
            raise ConfigError(f"{show_path(path)}: {source.name} is a copy of {show_path(base)}, which this is not in")
    return covered


def _with_endpoint(url: str, endpoint: str | None) -> str:
    """Write an endpoint into the URL, so that it is recorded with the copy."""
    if endpoint is None:
        return url
    open_copy(url, endpoint=endpoint)  # refuses URLs that take no endpoint
    return f"{url}{'&' if '?' in url else '?'}endpoint={quote(endpoint, safe=':/')}"


def _complete(text: str, names: Sequence[str]) -> str:
    """
    Make a path absolute; leave URLs as they are.

    Symbolic links are not followed: ``.../latest`` is one copy, whatever it leads to tonight.
    """
    if is_url(text):
        return text
    if "/" not in text and not os.path.lexists(text):
        have = f"there are {', '.join(names)}" if names else "none is configured"
        raise ConfigError(
            f"{text}: no copy of this name is configured ({have}), and there is no such folder or file here;"
            " name a copy, or give a path, a manifest, ssh://, s3://, rclone:REMOTE:PATH, restic:REPOSITORY,"
            " borg:REPOSITORY or snapshots:PATTERN"
        )
    return os.path.abspath(text)


def _find_base(
    known: Sequence[CopyRecord], roots: Sequence[RootRecord], shown: str, paths: Sequence[bytes]
) -> bytes | None:
    """Return the folder that a copy was compared with before, if all paths are in it."""
    by_id = {root.id: root for root in roots}
    for record in known:
        base = record.find_base(by_id[record.root_id].path)
        if record.base_name == shown and all(is_inside(path, base.rstrip(b"/")) for path in paths):
            return base
    return None


def _choose_base(
    catalog: Catalog, roots: Sequence[RootRecord], configured: Sequence[bytes], text: str, paths: Sequence[bytes]
) -> bytes:
    if len(paths) == 1:
        return _folder_of(catalog, roots, paths[0])
    all_roots = list(dict.fromkeys([*(root.path for root in roots), *configured]))
    if not paths and len(all_roots) == 1:
        return all_roots[0]
    if not all_roots:
        raise ConfigError(f"no folder is recorded yet; name one: {program.command('compare FOLDER --with COPY')}")
    command = program.command("compare FOLDER --with", shell_word(text))
    raise ConfigError(f"{text}: name the one folder that it is a copy of: {command}")


def _folder_of(catalog: Catalog, roots: Sequence[RootRecord], path: bytes) -> bytes:
    """Return a folder unchanged, even if it is gone; for a file return its root."""
    if os.path.isdir(path):
        return path
    for root in roots:
        if is_inside(path, root.path.rstrip(b"/")):
            is_folder = not os.path.lexists(path) and _is_recorded_folder(catalog, root, path)
            return path if is_folder else root.path
    return path  # resolving the targets will report the problem


def _is_recorded_folder(catalog: Catalog, root: RootRecord, path: bytes) -> bool:
    prefix = path[len(root.path.rstrip(b"/")) + 1 :]
    with catalog.read() as connection:
        found = page_files(connection, root.id, prefix=prefix, limit=1)
    return any(below != prefix for _, below, _ in found)


def _refuse_overlap(source: CopySource) -> None:
    if source.path is None:
        return
    copy, base = os.path.realpath(source.path).rstrip(b"/"), source.base.rstrip(b"/")
    if not os.path.isdir(copy):
        return  # a manifest may lie anywhere
    if is_inside(copy, base) or is_inside(base, copy):
        raise ConfigError(
            f"{show_path(copy)}: lies in {show_path(base)}, or the other way round; a copy has to be somewhere else"
        )
