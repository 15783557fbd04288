"""
Write what is recorded in a form that others can check files with; no file is read.

Decides which records are written, under which names, and what is counted of the rest. Names are relative to the root,
so that ``cd ROOT && md5sum -c FILE`` works, or absolute. What a name looks like in a line is for the form to say
(``hashing.sums``).

I1  A record whose seal is broken is never written: what it says may be wrong (R9).
I2  All that is written is of one moment: a scan that goes on beside shows wholly or not at all.
I3  Memory does not grow with the catalog.

Write a file so that at any moment either the former one or the whole new one stands under its name.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from integrity.catalog.compiled_sql import snapshot
from integrity.catalog.files import Position, page_in_order
from integrity.catalog.roots import find_roots
from integrity.errors import AppError, ConfigError, show_path
from integrity.hashing.algorithms import MD5
from integrity.hashing.manifests.hashdeep import write_hashdeep, write_hashdeep_header
from integrity.hashing.manifests.json_lines import write_json
from integrity.hashing.manifests.text import write_bagit, write_gnu
from integrity.hashing.md5 import Md5
from integrity.jobs.manifests.entries import known_digests
from integrity.jobs.targets import Target, find_target

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.rows import FileRecord


PAYLOAD_MANIFEST = b"manifest-md5.txt"
TAG_MANIFEST = b"tagmanifest-md5.txt"
_PAYLOAD = b"data/"
_is_tag_manifest = re.compile(rb"tagmanifest-[^/]*\.txt").fullmatch


class ExportForm(StrEnum):
    """The forms that can be written."""

    MD5SUM = "md5sum"
    HASHDEEP = "hashdeep"
    BAGIT = "bagit"
    JSON = "json"


class Sink(Protocol):
    """Takes what is written."""

    def put(self, data: bytes, /) -> None:
        """Take the next line."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """
    What is to be written.

    Args:
        targets: roots or parts of them.
        form: of the lines.
        is_absolute: names are absolute, not relative to the root.
        left_out: absolute paths that no line is written for: the files that the lines go to.
    """

    targets: tuple[Target, ...]
    form: ExportForm
    is_absolute: bool
    left_out: frozenset[bytes] = frozenset()


@dataclass(slots=True)
class ExportCounts:
    """
    What became of the records.

    Args:
        files: written.
        in_question: of which a finding on their content is open; their baselines are written.
        damaged: left out because their rows are damaged.
        without_digest: left out because they have no digest of the whole file: very sparse ones.
        not_payload: left out of BagIt's manifest because they lie outside of ``data/``.
    """

    files: int = 0
    in_question: int = 0
    damaged: int = 0
    without_digest: int = 0
    not_payload: int = 0


def plan_export(
    catalog: Catalog,
    paths: Sequence[bytes],
    form: ExportForm,
    *,
    is_absolute: bool,
    left_out: frozenset[bytes] = frozenset(),
) -> ExportPlan:
    """
    Find what is to be written, or say why it can't be.

    Args:
        catalog: open for reading.
        paths: real ones; without any: all roots.
        form: of the lines.
        is_absolute: names are absolute.
        left_out: absolute real paths of the files that the lines go to.

    Raises:
        ConfigError: a path is not recorded, or the names would be ambiguous.
    """
    with catalog.read() as connection:
        targets = [find_target(connection, path) for path in dict.fromkeys(paths)]
        if not paths:
            targets = [Target(root, b"", is_named=False) for root in find_roots(connection)]
        if not targets:
            raise ConfigError("no folder is recorded yet; record one with: integrity scan FOLDER")
        for target in targets:
            page, _ = page_in_order(connection, catalog.sealer, target.root.id, prefix=target.prefix, limit=1)
            if target.prefix and not page:
                raise ConfigError(f"{show_path(_path_of(target))}: nothing is recorded there; check the spelling")
    plan = ExportPlan(tuple(_without_overlap(targets)), form, is_absolute, left_out)
    if form is ExportForm.BAGIT:
        _require_bag(catalog, plan)
    elif not is_absolute and len({target.root.id for target in plan.targets}) > 1:
        raise ConfigError("names relative to several roots can't be told apart: name one root, or say --absolute")
    return plan


def export(
    catalog: Catalog, plan: ExportPlan, sink: Sink, *, tags: Sink | None = None, tell_damaged: Callable[[bytes], None]
) -> ExportCounts:
    """
    Write what was planned.

    Args:
        catalog: open for reading.
        plan: what.
        sink: takes the lines.
        tags: takes BagIt's lines about what lies outside of ``data/``; without it they are left out.
        tell_damaged: is told the absolute path of each record that is damaged.
    """
    counts = ExportCounts()
    write_line = _BagWriter(plan, sink, tags, counts) if plan.form is ExportForm.BAGIT else _LineWriter(plan, sink)
    write_line.begin()
    with closing(_find_records(catalog, plan)) as found:
        for target, record in found:
            path = target.root.path.rstrip(b"/") + b"/" + record.path
            if path in plan.left_out:
                continue
            if not record.is_sealed:
                counts.damaged += 1
                tell_damaged(path)
            elif record.digests.md5 is None:
                counts.without_digest += 1
            elif write_line.write(path if plan.is_absolute else record.path, record, record.digests.md5):
                counts.files += 1
                counts.in_question += record.is_frozen
    write_line.end()
    return counts


def _find_records(catalog: Catalog, plan: ExportPlan) -> Generator[tuple[Target, FileRecord]]:
    with catalog.read() as connection, snapshot(connection):
        for target in plan.targets:
            after: Position | None = None
            while True:
                page, after = page_in_order(
                    connection, catalog.sealer, target.root.id, prefix=target.prefix, after=after
                )
                if after is None:
                    break
                for record in page:
                    yield target, record


class _LineWriter:
    """Write md5sum's lines, hashdeep's, or objects."""

    def __init__(self, plan: ExportPlan, sink: Sink) -> None:
        self._plan = plan
        self._sink = sink

    def begin(self) -> None:
        """Write what stands before the first file."""
        if self._plan.form is ExportForm.HASHDEEP:
            folder = b"/" if self._plan.is_absolute else self._plan.targets[0].root.path
            command = b"integrity catalog export --format hashdeep" + b" --absolute" * self._plan.is_absolute
            self._sink.put(write_hashdeep_header((MD5,), folder, command, is_root=os.geteuid() == 0))

    def write(self, name: bytes, record: FileRecord, md5: bytes) -> bool:
        """Write a file; say whether it belongs there."""
        self._sink.put(self._make_line(name, record, md5))
        return True

    def _make_line(self, name: bytes, record: FileRecord, md5: bytes) -> bytes:
        if self._plan.form is ExportForm.MD5SUM:
            return write_gnu(b"./-" if name == b"-" else name, MD5, md5)  # a dash alone is standard input for md5sum
        size = record.witness.size_bytes
        if self._plan.form is ExportForm.JSON:
            return write_json(name, size, known_digests(record.digests))
        # As `hashdeep -l .` names what lies below the folder: by other names it would call each file moved.
        return write_hashdeep(name if self._plan.is_absolute else b"./" + name, size, (md5,))

    def end(self) -> None:
        """Write what stands behind the last file: nothing."""


class _BagWriter:
    """Write BagIt's manifests (RFC 8493 §2.1.3 and §2.2.1): the payload's, and that of the files beside it."""

    def __init__(self, plan: ExportPlan, sink: Sink, tags: Sink | None, counts: ExportCounts) -> None:
        (target,) = plan.targets
        self._base_bytes = len(target.prefix) + 1 if target.prefix else 0
        self._sink = sink
        self._tags = tags
        self._counts = counts
        self._md5 = Md5()

    def begin(self) -> None:
        """Write what stands before the first file: nothing."""

    def write(self, name: bytes, _: FileRecord, md5: bytes) -> bool:
        """Write a file into the manifest that it belongs to; say whether there is one."""
        path = name[self._base_bytes :]
        line = write_bagit(path, md5)
        if path.startswith(_PAYLOAD):
            self._sink.put(line)
            self._md5.update(line)
            return True
        if path == PAYLOAD_MANIFEST or _is_tag_manifest(path):
            return False  # the first is written anew, and its line with it; the others list, and are not listed
        if self._tags is None:
            self._counts.not_payload += 1
            return False
        self._tags.put(line)
        return True

    def end(self) -> None:
        """Write the line about the manifest that was just written."""
        if self._tags is not None:
            self._tags.put(write_bagit(PAYLOAD_MANIFEST, self._md5.digest()))


def _require_bag(catalog: Catalog, plan: ExportPlan) -> None:
    """Refuse what can't be a bag: BagIt's names are relative to the folder that holds ``data``."""
    if len(plan.targets) != 1:
        raise ConfigError("a bag is one folder: name the one that holds its data/ folder")
    if plan.is_absolute:
        raise ConfigError("names in BagIt's manifests are relative to the bag: leave out --absolute")
    (target,) = plan.targets
    prefix = target.prefix + b"/data" if target.prefix else b"data"
    with catalog.read() as connection:
        page, _ = page_in_order(connection, catalog.sealer, target.root.id, prefix=prefix, limit=1)
    if not page or page[0].path == prefix:
        raise ConfigError(
            f"{show_path(_path_of(target))}: nothing is recorded in a folder data/ there, so it is no bag: BagIt's"
            " manifests list what lies below data/. Name the folder that holds it, or use another --format"
        )


def _path_of(target: Target) -> bytes:
    return target.root.path.rstrip(b"/") + b"/" + target.prefix if target.prefix else target.root.path


def _without_overlap(targets: Sequence[Target]) -> Iterator[Target]:
    """Leave out what lies in another target: each file is written once."""
    for target in targets:
        others = [one.prefix for one in targets if one.root.id == target.root.id and one.prefix != target.prefix]
        if not any(not prefix or target.prefix.startswith(prefix + b"/") for prefix in others):
            yield target


_CHUNK_BYTES = 1 << 20


class Replacement:
    """
    What shall become the content of a file, or replace that of one.

    A context manager: at the end of the block it is brought to the disk and takes the name, or, if the block is left by
    an exception, it is gone. A symbolic link stays, and what it points to is replaced.

    Args:
        path: of the file.

    Raises:
        ConfigError: there can't be such a file.
        AppError: it can't be written: the disk is full, say. The former file is as it was.
    """

    def __init__(self, path: bytes) -> None:
        self._path = os.path.realpath(path)
        self._folder = os.path.dirname(self._path)
        # Not made of the name, which may be as long as names can be; no scan records a file that is called so.
        self._temporary = os.path.join(self._folder, b".export.integrity-" + secrets.token_hex(8).encode("ascii"))
        try:
            mode = _find_mode(self._path)
            self._fd = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            if mode is not None:
                os.fchmod(self._fd, mode)
        except OSError as error:
            raise ConfigError(f"{show_path(path)}: can't be written: {error.strerror}") from error
        self._chunks: list[bytes] = []
        self._size = 0

    def put(self, data: bytes) -> None:
        """Append."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size >= _CHUNK_BYTES:
            self._write()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_in_place = False
        try:
            if kind is None:
                self._take_place()
                is_in_place = True
        finally:
            os.close(self._fd)
            if not is_in_place:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._temporary)

    def _take_place(self) -> None:
        self._write()
        try:
            os.fsync(self._fd)
            os.rename(self._temporary, self._path)
            folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder_fd)
            finally:
                os.close(folder_fd)
        except OSError as error:
            raise self._explain(error) from error

    def _write(self) -> None:
        data, self._chunks, self._size = memoryview(b"".join(self._chunks)), [], 0
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError) -> AppError:
        return AppError(f"{show_path(self._path)}: can't be written: {error.strerror}; what was there is as it was")


def _find_mode(path: bytes) -> int | None:
    """Find the permissions of the file that is to be replaced; None if there is none."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{show_path(path)}: is no regular file, so it can't be replaced; write to standard output")
    return stat.S_IMODE(mode)
