"""
Find the kind of a copy by its URL, and import only that kind.

Some kinds need a package that is an extra; if it is missing, the error contains the command that installs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from stat import S_ISREG
from typing import TYPE_CHECKING, NamedTuple

from integrity.config.copy_urls import Scheme, find_scheme, is_url
from integrity.copies.protocol import Copy
from integrity.errors import ConfigError
from integrity.extras import how_to_install
from integrity.lists.forms import find_payload

if TYPE_CHECKING:
    from integrity.copies.repository import ArchiveOptions
    from integrity.files.excludes import Excludes
    from integrity.hashing.stored_digests import Algorithm


class _Kind(NamedTuple):
    """One kind of copy; its class takes the URL, or the path of a folder or manifest."""

    module: str
    name: str
    package: str = ""  # imported by the module, installed by the extra
    extra: str = ""


_SCHEMES = {
    Scheme.SSH: _Kind("integrity.copies.ssh.copy", "SshCopy", "asyncssh", "sftp"),
    Scheme.S3: _Kind("integrity.copies.s3.copy", "S3Copy", "boto3", "s3"),
    Scheme.RCLONE: _Kind("integrity.copies.rclone.copy", "RcloneCopy"),
    Scheme.RESTIC: _Kind("integrity.copies.restic", "ResticCopy"),
    Scheme.BORG: _Kind("integrity.copies.borg", "BorgCopy"),
    Scheme.SNAPSHOTS: _Kind("integrity.copies.snapshots", "SnapshotsCopy"),
}
_TREE = _Kind("integrity.copies.folder", "TreeCopy")
_MANIFEST = _Kind("integrity.copies.manifest", "ManifestCopy")


def open_copy(
    url: str,
    *,
    endpoint: str | None = None,
    root: bytes = b"",
    excludes: Excludes | None = None,
    algorithms: Sequence[Algorithm] = (),
    archive: ArchiveOptions | None = None,
) -> Copy:
    """
    Make the copy that a URL names; entering it connects.

    Args:
        url: ``ssh://``, ``s3://``, ``rclone:``, ``restic:``, ``borg:``, ``snapshots:``; or the path of a folder or
            manifest file, decoded by os.fsdecode.
        endpoint: the address of an S3 server other than Amazon's.
        root: the absolute path of the original, with which names in a manifest or in an archive may begin.
        excludes: of the root; matching folders of a mounted copy are not walked.
        algorithms: the only ones to read from a manifest; empty for all.
        archive: what is configured of a repository of restic or borg.

    Raises:
        ConfigError: the scheme is unknown, an extra is missing, or the URL is malformed.
    """
    scheme = find_scheme(url)
    if algorithms and (scheme is not None or not _is_file(os.fsencode(url))):
        raise ConfigError("an algorithm is for checksum lists only: leave --algorithm out, or give a manifest file")
    if endpoint is not None and scheme is not Scheme.S3:
        raise ConfigError("an endpoint is for copies at s3:// only: leave --endpoint out, or give an s3:// URL")
    if scheme is not None:
        make = _load(_SCHEMES[scheme])
        if scheme in (Scheme.RESTIC, Scheme.BORG):
            return make(url, root=root, options=archive)
        if scheme is Scheme.SNAPSHOTS:
            return make(url) if excludes is None else make(url, excludes=excludes)
        return make(url) if endpoint is None else make(url, endpoint=endpoint)
    if is_url(url):
        raise ConfigError(
            f"a copy at {url.partition(':')[0]}:// can't be read; give a path, ssh://, s3:// or a manifest file,"
            " or make it a remote of rclone and give rclone:REMOTE:PATH"
        )
    return _open_path(url, root, excludes, algorithms)


def _open_path(url: str, root: bytes, excludes: Excludes | None, algorithms: Sequence[Algorithm]) -> Copy:
    path = os.fsencode(url)
    if _is_file(path):
        tops = _find_tops(path, root) if root else ()
        return _load(_MANIFEST)(path, tops=tops, root=root, wanted=algorithms)
    make = _load(_TREE)
    return make(path) if excludes is None else make(path, excludes=excludes)


def _is_file(path: bytes) -> bool:
    try:
        return S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False  # entering the folder raises the error


def _find_tops(path: bytes, root: bytes) -> tuple[bytes, ...]:
    """
    Find the beginnings of names in a manifest that stand for the root.

    These are the absolute path of the root; its path relative to the manifest's folder, where the program that wrote
    the manifest may have run; and the payload folder of a bag. The last two only where they can't be a folder in the
    root.
    """
    tops = [root]
    above = os.path.dirname(path).rstrip(b"/") + b"/"
    if root.startswith(above) and not _has_folder(root, root[len(above) :]):
        tops.append(root[len(above) :])
    if find_payload(os.path.basename(path)) and not _has_folder(root, b"data"):
        tops.append(b"data")
    return tuple(tops)


def _has_folder(root: bytes, path: bytes) -> bool:
    return os.path.lexists(os.path.join(root, path.partition(b"/")[0]))


def _load(kind: _Kind) -> Callable[..., Copy]:
    try:
        module = import_module(kind.module)
    except ModuleNotFoundError as error:
        if kind.package and (error.name or "").partition(".")[0] == kind.package:
            raise ConfigError(
                f"this kind of copy needs packages that are not installed, such as {kind.package};"
                f" {how_to_install(kind.extra)}"
            ) from error
        raise
    make: Callable[..., Copy] = getattr(module, kind.name)
    return make
