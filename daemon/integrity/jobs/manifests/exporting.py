"""
Write recorded digests in a form that other tools can check; no file is read.

Decides which records are written, under which names, and what is counted of the rest. Names are relative to the root,
so that ``cd ROOT && md5sum -c FILE`` works, or absolute. The syntax of lines is left to ``lists``.

I1  All lines are from one snapshot of the catalog: a concurrent scan shows completely or not at all.
I2  Memory does not grow with the catalog.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from integrity import program
from integrity.catalog.files import find_in_order
from integrity.catalog.roots import find_roots
from integrity.errors import AppError, ConfigError, show_path
from integrity.hashing.algorithms import name_digests
from integrity.hashing.md5 import Md5
from integrity.hashing.stored_digests import MD5
from integrity.jobs.targets import Target, find_target
from integrity.lists.entries import Form
from integrity.lists.forms import write_bagit, write_gnu, write_hashdeep, write_hashdeep_header, write_json

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.rows import FileRecord


PAYLOAD_MANIFEST = b"manifest-md5.txt"
TAG_MANIFEST = b"tagmanifest-md5.txt"
_PAYLOAD = b"data/"
_is_tag_manifest = re.compile(rb"tagmanifest-[^/]*\.txt").fullmatch


class Sink(Protocol):
    """Receives the output."""

    def put(self, data: bytes, /) -> None:
        """Write the next line."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """
    What to write.

    Args:
        targets: roots or parts of them.
        is_absolute: names are absolute, not relative to the root.
        left_out: absolute paths to leave out: the output files themselves.
    """

    targets: tuple[Target, ...]
    form: Form
    is_absolute: bool
    left_out: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class ExportCounts:
    """
    Number of records by result.

    Args:
        files: written.
        in_question: part of ``files`` with an open finding on their content; their baselines are written.
        without_digest: left out because they have no digest of the whole file: very sparse files.
        not_payload: left out of BagIt's manifest because they are outside of ``data/``.
        escaped: part of ``files`` with a percent sign that had to be escaped in BagIt's manifest.
    """

    files: int = 0
    in_question: int = 0
    without_digest: int = 0
    not_payload: int = 0
    escaped: int = 0


def plan_export(
    catalog: Catalog,
    paths: Sequence[bytes],
    form: Form,
    *,
    is_absolute: bool,
    left_out: frozenset[bytes] = frozenset(),
) -> ExportPlan:
    """
    Decide what to write. ``paths``: real ones; without any, all roots.

    Raises:
        ConfigError: a path is not recorded, or the names would be ambiguous.
    """
    with catalog.read() as connection:
        targets = [find_target(connection, path) for path in dict.fromkeys(paths)]
        if not paths:
            targets = [Target(root, b"", is_named=False) for root in find_roots(connection)]
        if not targets:
            raise ConfigError(f"no folder is recorded yet; record one with: {program.command('scan FOLDER')}")
        for target in targets:
            if target.prefix and next(find_in_order(connection, target.root.id, target.prefix), None) is None:
                raise ConfigError(f"{show_path(_path_of(target))}: nothing is recorded there; check the spelling")
    plan = ExportPlan(tuple(_without_overlap(targets)), form, is_absolute, left_out)
    if form is Form.BAGIT:
        _require_bag(catalog, plan)
    elif not is_absolute and len({target.root.id for target in plan.targets}) > 1:
        raise ConfigError("names relative to several roots can't be told apart: name one root, or give --absolute")
    return plan


def export(catalog: Catalog, plan: ExportPlan, sink: Sink, *, tags: Sink | None = None) -> ExportCounts:
    """Write what was planned. ``tags``: receives BagIt's lines about files outside of ``data/``; None: nobody does."""
    counts = ExportCounts()
    bag = _Bag(plan, sink, tags, counts) if plan.form is Form.BAGIT else None
    if plan.form is Form.HASHDEEP:
        folder = b"/" if plan.is_absolute else plan.targets[0].root.path
        command = b"integrity catalog export --format hashdeep" + b" --absolute" * plan.is_absolute
        sink.put(write_hashdeep_header((MD5,), folder, command, is_root=os.geteuid() == 0))
    with closing(_find_records(catalog, plan)) as found:
        for target, record in found:
            path = target.root.path.rstrip(b"/") + b"/" + record.path
            name, md5 = path if plan.is_absolute else record.path, record.digests.md5
            if path in plan.left_out:
                continue
            if md5 is None:
                counts.without_digest += 1
                continue
            if bag is None:
                sink.put(_make_line(plan, name, record, md5))
            elif not bag.put(name, md5):
                continue
            counts.files += 1
            counts.in_question += record.is_frozen
    if bag is not None:
        bag.end()
    return counts


def _find_records(catalog: Catalog, plan: ExportPlan) -> Generator[tuple[Target, FileRecord]]:
    with catalog.read() as connection, connection.snapshot():
        for target in plan.targets:
            for record in find_in_order(connection, target.root.id, target.prefix):
                yield target, record


def _make_line(plan: ExportPlan, name: bytes, record: FileRecord, md5: bytes) -> bytes:
    if plan.form is Form.LINES:
        return write_gnu(b"./-" if name == b"-" else name, MD5, md5)  # md5sum reads a bare dash as standard input
    size = record.witness.size_bytes
    if plan.form is Form.OBJECTS:
        return write_json(name, size, name_digests(record.digests))
    # `hashdeep -l .` uses these names: with others it would report each file as moved.
    return write_hashdeep(name if plan.is_absolute else b"./" + name, size, (md5,))


class _Bag:
    """Write BagIt's manifests (RFC 8493 §2.1.3 and §2.2.1): the payload's, and that of the files beside it."""

    def __init__(self, plan: ExportPlan, sink: Sink, tags: Sink | None, counts: ExportCounts) -> None:
        (target,) = plan.targets
        self._base_bytes = len(target.prefix) + 1 if target.prefix else 0
        self._sink = sink
        self._tags = tags
        self._counts = counts
        self._md5 = Md5()

    def put(self, name: bytes, md5: bytes) -> bool:
        """Write a file into its manifest; return whether there is one."""
        path = name[self._base_bytes :]
        line = write_bagit(path, md5)
        self._counts.escaped += b"%25" in line
        if path.startswith(_PAYLOAD):
            self._sink.put(line)
            self._md5.update(line)
            return True
        if path == PAYLOAD_MANIFEST or _is_tag_manifest(path):
            return False  # the payload manifest is rewritten now; tag manifests are never listed
        if self._tags is None:
            self._counts.not_payload += 1
            return False
        self._tags.put(line)
        return True

    def end(self) -> None:
        """Write the tag line about the payload manifest."""
        if self._tags is not None:
            self._tags.put(write_bagit(PAYLOAD_MANIFEST, self._md5.digest()))


def _require_bag(catalog: Catalog, plan: ExportPlan) -> None:
    """Raise if the target can't be a bag: BagIt's names are relative to the folder that contains ``data``."""
    if len(plan.targets) != 1:
        raise ConfigError("a bag is one folder: name the one that holds its data/ folder")
    if plan.is_absolute:
        raise ConfigError("names in BagIt's manifests are relative to the bag: leave out --absolute")
    (target,) = plan.targets
    prefix = target.prefix + b"/data" if target.prefix else b"data"
    with catalog.read() as connection:
        first = next(find_in_order(connection, target.root.id, prefix), None)
    if first is None or first.path == prefix:
        raise ConfigError(
            f"{show_path(_path_of(target))}: nothing is recorded in a folder data/ there, so it is not a bag: BagIt's"
            " manifests list what lies below data/. Name the folder that holds it, or use another --format"
        )


def _path_of(target: Target) -> bytes:
    return target.root.path.rstrip(b"/") + b"/" + target.prefix if target.prefix else target.root.path


def _without_overlap(targets: Sequence[Target]) -> Iterator[Target]:
    """Yield the targets that are in no other target: each file is written once."""
    for target in targets:
        others = [one.prefix for one in targets if one.root.id == target.root.id and one.prefix != target.prefix]
        if not any(not prefix or target.prefix.startswith(prefix + b"/") for prefix in others):
            yield target


_CHUNK_BYTES = 1 << 20


class _FileSink:
    """Write to a file; ``path``: for errors."""

    def __init__(self, path: bytes, file: BinaryIO) -> None:
        self._path, self._file = path, file

    def put(self, data: bytes) -> None:
        with self.explained():
            self._file.write(data)

    @contextmanager
    def explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AppError(
                f"{show_path(self._path)}: can't be written: {error.strerror}; what was there is as it was"
            ) from error


@contextmanager
def replacing(path: bytes) -> Iterator[Sink]:
    """
    Write a file that replaces another atomically: its name always leads to the old or to the complete new content.

    On success the data is flushed to the disk and renamed; on an exception it is removed. A symbolic link stays, and
    its target is replaced.

    Raises:
        ConfigError: there can't be such a file.
        AppError: writing failed, for example on a full disk. The old file is unchanged.
    """
    real = os.path.realpath(path)
    folder = os.path.dirname(real)
    # Not derived from the name, which may have maximum length; scans exclude names of this form.
    temporary = os.path.join(folder, b".export.integrity-" + secrets.token_hex(8).encode("ascii"))
    try:
        mode = _find_mode(real)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if mode is not None:
            os.fchmod(fd, mode)
    except OSError as error:
        raise ConfigError(f"{show_path(path)}: can't be written: {error.strerror}") from error
    file = open(fd, "wb", _CHUNK_BYTES)  # noqa: SIM115 - closing flushes, which may fail like writing
    sink = _FileSink(real, file)
    try:
        yield sink
        with sink.explained():
            file.flush()
            os.fsync(fd)
            os.rename(temporary, real)
            folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder_fd)
            finally:
                os.close(folder_fd)
    finally:
        with suppress(OSError):  # what could not be written was told before
            file.close()
        with suppress(FileNotFoundError):  # it is in place
            os.unlink(temporary)


def _find_mode(path: bytes) -> int | None:
    """Return the permissions of the file to replace; None if there is none."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ConfigError(
            f"{show_path(path)}: is not a regular file, so it can't be replaced; write to standard output"
        )
    return stat.S_IMODE(mode)
