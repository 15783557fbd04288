"""
A copy in any of the stores that the program rclone supports.

Digests that the store keeps are published with the listing. Digests that rclone would have to compute, on a local disk
or by a command over SFTP, are computed only on request. ``rclone cat`` reads a file from any offset.

rclone spells the names of all stores alike: control characters as Unicode's pictures of them (U+2401 for 0x01), bytes
that are not UTF-8 as U+FFFD, and U+201B before what really is such a picture. Only the pictures can be undone. Names
with U+FFFD are ambiguous, and names with U+201B can't be opened on local disks (rclone 1.60): both are refused.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, NoReturn, Self

from integrity.config.copy_urls import Scheme
from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault, require_harmless
from integrity.copies.program import parse_time
from integrity.copies.protocol import DIGEST_BYTES, CopyEntry, Kind, Published, Trouble
from integrity.copies.rclone.program import NOT_FOUND, RcloneRun, Remote
from integrity.errors import ConfigError, Unreadable, Unstable, Vanished, show_path

_PICTURES = {code: chr(0x2400 + code) for code in range(1, 0x20)} | {0x7F: "\u2421"}
_CONTROLS = {ord(picture): chr(code) for code, picture in _PICTURES.items()}
_QUOTE = "\u201b"
_LOST = "\ufffd"


def find_name_fault(path: bytes) -> str | None:
    """Return why rclone can't carry the name of a file of this path; None if it can."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return "is not UTF-8, which rclone can't carry"
    if _LOST in text or _QUOTE in text or not _CONTROLS.keys().isdisjoint(map(ord, text)):
        return "has a character that rclone uses for what it can't carry"
    return None


def to_rclone(path: bytes) -> str:
    """Spell a path without a name fault as rclone does."""
    return path.decode("utf-8").translate(_PICTURES)


def from_rclone(text: str) -> bytes | None:
    """Undo rclone's spelling; None if it is ambiguous."""
    if _LOST in text or _QUOTE in text:
        return None
    return text.translate(_CONTROLS).encode("utf-8", "surrogatepass")


def _find_absence(path: bytes) -> str | None:
    """
    Return why a file may be there although rclone does not find it under its name; None if it would.

    Over SFTP rclone lists control characters as they are, and takes their pictures for other names.
    """
    if to_rclone(path).encode() == path:
        return None
    return "has a control character in its name, which rclone can't carry to this store; compare it another way"


def to_pattern(path: bytes) -> str:
    """Spell a path as a filter of rclone that matches only the path itself."""
    return "".join("\\" + char if char in "*?[]{}\\" else char for char in to_rclone(path))


class RcloneFile:
    """
    One file of a remote; see ``CopyFile``.

    Every jump to another offset starts a program. Reading on streams from one program, so reading a file from its
    beginning to its end starts two.

    Args:
        path: without a name fault.
        size_bytes: as listed; None where the store does not state it, and then the file can't be read.
    """

    def __init__(self, remote: Remote, path: bytes, size_bytes: int | None) -> None:
        if size_bytes is None:
            raise Unreadable(f"cannot open {show_path(path)}: the store does not tell its size", errno=errno.ENOTSUP)
        self.size_bytes = size_bytes
        self.stat: os.stat_result | None = None
        self._remote = remote
        self._path = path
        self._running: RcloneRun | None = None
        self._position = 0
        self._is_counted = False

    def read(self, offset: int, length: int) -> bytes:
        """Read from any offset; see ``CopyFile``."""
        wanted = min(offset + length, self.size_bytes) - offset
        if wanted <= 0:
            return b""
        running = self._running
        if running is None or offset != self._position:
            running = self._begin(offset, wanted)
        parts: list[bytes] = []
        missing = wanted
        while missing:
            part = running.read(missing)
            if not part:
                self._fail(running)
            parts.append(part)
            missing -= len(part)
        self._position = offset + wanted
        if self._is_counted:
            self._stop()
        return b"".join(parts)

    def close(self) -> None:
        """End the program; may be called twice."""
        self._stop()

    def _begin(self, offset: int, wanted: int) -> RcloneRun:
        """Start rclone at an offset: for this piece only at first and after a jump, else to the end of the file."""
        self._stop()
        self._is_counted = offset == 0 or offset != self._position
        flags = [f"--offset={offset}", *([f"--count={wanted}"] if self._is_counted else [])]
        self._running = self._remote.start("cat", *flags, names=[to_rclone(self._path)])
        return self._running

    def _fail(self, running: RcloneRun) -> NoReturn:
        """Raise for a file that ended before its size, with what rclone says of it."""
        code = running.wait()
        reason = self._remote.hide(running.reason())
        self._stop()
        if code == 0:
            raise Unstable(f"{show_path(self._path)} ended before its size; try again")
        raise Unreadable(f"cannot read {show_path(self._path)}: {reason}; try again", errno=errno.EIO)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None


_KINDS = {
    "md5": Kind.MD5,
    "sha1": Kind.SHA1,
    "sha256": Kind.SHA256,
    "sha512": Kind.SHA512,
    "crc32": Kind.CRC32,
    "blake3": Kind.BLAKE3,
    "xxh128": Kind.XXH3_128,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_AT_ONCE = 1000  # files that one rclone digests
_COARSEST_NS = 1_000_000_000_000  # coarser times mean nothing: stores without times state a precision of 100 years
_COMPUTING_S = 12 * 3600.0  # for one file, during which rclone prints nothing


class _Item(NamedTuple):
    """One object of rclone's listing; ``path`` in rclone's spelling."""

    path: str
    size_bytes: int | None
    mtime_ns: int | None
    digests: Mapping[str, str]


class RcloneCopy(BaseCopy):
    """
    A folder of an rclone remote as a copy; see ``Copy``.

    Args:
        url: ``rclone:remote:path``.
        program: rclone's name or path.
        timeout_s: how long a connection of rclone may be silent.
        idle_s: how long rclone itself may be silent.
    """

    def __init__(self, url: str, *, program: str = "rclone", timeout_s: float = 30.0, idle_s: float = 300.0) -> None:
        spec = url.removeprefix(Scheme.RCLONE.prefix)
        if not spec or "\0" in spec or spec.startswith("-"):
            raise ConfigError("a copy of rclone is written rclone:REMOTE:PATH; see: rclone listremotes")
        if ",...:" in spec:
            raise ConfigError(
                f"{url}: its options are not kept, for passwords may be among them: name it by its whole URL,"
                " or make it a remote of rclone's configuration: rclone config"
            )
        self._remote = Remote(spec, program=program, timeout_s=timeout_s, idle_s=idle_s)
        # rclone prints nothing while it computes.
        self._computing = Remote(spec, program=program, timeout_s=timeout_s, idle_s=max(idle_s, _COMPUTING_S))
        super().__init__(self._remote.shown, self._remote.shown)
        self._listing_flags: tuple[str, ...] = ("--recursive", "--files-only", "--no-mimetype")

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """See ``Copy``."""
        self._remote.must_stop = self._computing.must_stop = must_stop

    def __enter__(self) -> Self:
        """Ask rclone for the abilities of the store; see ``Copy``."""
        with self._remote.start("backend features") as running:
            answer = b"".join(running.lines())
            if running.wait() != 0:
                raise self._remote.failed(running.reason())
        try:
            told = json.loads(answer)
            features, hashes, precision = told["Features"], told["Hashes"] or [], told["Precision"]
            names = [name for name in hashes if name in _KINDS]
            is_slow, is_slow_time = features["SlowHash"], features["SlowModTime"]
            self.keeps_times = not is_slow_time and precision < _COARSEST_NS
        except (ValueError, KeyError, TypeError) as error:
            raise self._remote.failed(f"rclone's answer can't be understood ({error})") from error
        # Such a store has the time of the upload at hand, and needs a request for each file to show the file's own.
        flags = ["--use-server-modtime"] if is_slow_time else []
        if is_slow:
            self.remote_kinds = frozenset(_KINDS[name] for name in names)
        elif names:
            flags += ["--hash", *(f"--hash-type={name}" for name in names)]
        self._listing_flags = (*self._listing_flags, *flags)
        return self

    def find_name_fault(self, path: bytes, /) -> str | None:
        """Return why rclone can't carry the name of a file of this path; see ``Copy``."""
        return find_name_fault(path)

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List by ``rclone lsjson``; see ``Copy``."""
        fault = (find_fault(prefix) or find_name_fault(prefix)) if prefix else None
        if fault is not None:
            yield Trouble(prefix, fault)
            return
        # By a filter, not by a longer path, which would follow a link and wait for a FIFO.
        limits = (f"--include=/{to_pattern(prefix)}", f"--include=/{to_pattern(prefix)}/**") if prefix else ()
        is_empty = True
        with self._remote.start("lsjson", *self._listing_flags, *limits) as running:
            for item in self._items(running):
                is_empty = False
                yield _translate(item)
            for trouble in self._end_listing(running):
                is_empty = False
                yield trouble
        if is_empty and not prefix:
            raise self._remote.failed("is empty, or not there: nothing was ever copied there, or what holds it is gone")

    def digest(self, paths: Sequence[bytes], kind: Kind) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """Compute digests by rclone; see ``Copy``."""
        if kind not in self.remote_kinds:
            raise ValueError(f"{self.shown}: no digest of kind {kind} can be computed there")
        remaining = iter(paths)
        while batch := list(islice(remaining, _AT_ONCE)):
            yield from self._digest_batch(batch, kind)

    def open(self, path: bytes) -> RcloneFile:
        """Look up a file that ``rclone cat`` then reads; see ``Copy``."""
        require_harmless(path)
        fault = find_name_fault(path)
        if fault is not None:
            raise Unreadable(f"cannot open {show_path(path)}: its name {fault}", errno=0)
        name = to_rclone(path)
        flags = ("--recursive", "--files-only", "--no-mimetype", "--no-modtime")
        with self._remote.start("lsjson", *flags, names=[name]) as running:
            found = {item.path: item for item in self._items(running)}
            troubles = list(self._end_listing(running))
        if name in found:
            return RcloneFile(self._remote, path, found[name].size_bytes)
        if troubles:
            raise Unreadable(f"cannot open {show_path(path)}: {troubles[0].message}", errno=0)
        absence = _find_absence(path)
        if absence is not None:
            raise Unreadable(f"cannot open {show_path(path)}: it {absence}", errno=0)
        raise Vanished(f"cannot open {show_path(path)}: no such file in {self.shown}; compare again")

    def _digest_batch(self, batch: Sequence[bytes], kind: Kind) -> Iterator[tuple[bytes, bytes | Trouble]]:
        faults = {path: find_fault(path) or find_name_fault(path) for path in batch}
        names = [to_rclone(path) for path in batch if faults[path] is None]
        flags = (
            "--recursive",
            "--files-only",
            "--no-mimetype",
            "--no-modtime",
            "--hash",
            f"--hash-type={_NAMES[kind]}",
        )
        digests: dict[str, bytes | None] = {}
        why: dict[str, str] = {}
        if names:
            with self._computing.start("lsjson", *flags, names=names) as running:
                for item in self._items(running):
                    found = _find_published(item)
                    digests[item.path] = found[0].value if found else None
                for _ in self._end_listing(running):
                    pass  # yielded below, with the files that have no digest
                why = {complaint.about: self._remote.hide(complaint.message) for complaint in running.complaints()}
        for path in batch:
            fault = faults[path]
            name = "" if fault else to_rclone(path)
            digest = digests.get(name)
            if digest is not None:
                yield path, digest
            elif name in digests:
                yield path, Trouble(path, why.get(name, "its digest can't be computed there"))
            else:
                reason = fault or why.get(name) or _find_absence(path) or "there is no such file in the copy"
                yield path, Trouble(path, reason)

    def _items(self, running: RcloneRun) -> Iterator[_Item]:
        """Parse the output of lsjson: one object a line, between brackets."""
        is_whole = False
        for line in running.lines():
            text = line.strip().removesuffix(b",")
            is_whole = text == b"]"
            if text in (b"", b"[", b"]"):
                continue
            item = _read_item(text)
            if item is None:
                raise self._remote.failed("a line of rclone's listing can't be understood")
            yield item
        if not is_whole and running.wait() == 0:
            raise self._remote.failed("rclone's listing ends in the middle")

    def _end_listing(self, running: RcloneRun) -> Iterator[Trouble]:
        """
        Yield what a listing has omitted.

        Raises:
            CopyUnreachable: rclone failed as a whole, or does not say for what.
        """
        code = running.wait()
        is_told = False
        for about, message in running.complaints():
            if message.startswith("Failed to read hash"):
                continue  # the file itself was listed
            if about:
                is_told = True
                path = from_rclone(about)
                yield Trouble(about.encode("utf-8", "replace") if path is None else path, self._remote.hide(message))
            elif message.startswith("error listing"):
                raise self._remote.failed(message)
        if code == NOT_FOUND and not is_told:
            raise self._remote.failed("there is no such folder")
        if code != 0 and not is_told:
            raise self._remote.failed(running.reason())


def _read_item(text: bytes) -> _Item | None:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("Path"), str):
        return None
    size, digests = fields.get("Size"), fields.get("Hashes") or {}
    is_size = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    if not isinstance(digests, dict) or not all(isinstance(value, str) for value in digests.values()):
        return None
    return _Item(fields["Path"], size if is_size else None, parse_time(fields.get("ModTime")), digests)


def _translate(item: _Item) -> CopyEntry | Trouble:
    path = from_rclone(item.path)
    if path is None:
        shown = item.path.encode("utf-8", "replace")
        return Trouble(shown, "has a name that rclone can't carry, so it can't be told which file it is")
    fault = find_fault(path)
    if fault is not None:
        return Trouble(path, fault)
    return CopyEntry(path, item.size_bytes, item.mtime_ns, tuple(_find_published(item)))


def _find_published(item: _Item) -> Sequence[Published]:
    """Return the digests of known kinds and of the right length."""
    found: list[Published] = []
    for name, digits in item.digests.items():
        kind = _KINDS.get(name)
        if kind is None or len(digits) != 2 * DIGEST_BYTES[kind]:
            continue
        try:
            found.append(Published(kind, bytes.fromhex(digits)))
        except ValueError:
            continue
    return found
