"""
A copy in an S3 store: ``s3://bucket/prefix``.

One request lists a thousand objects with their ETags, which most comparisons need and no more. ``look_closer`` requests
the headers of one object. Only ``open`` transfers bytes.

Empty objects whose keys end with a slash are left out: programs store them to show empty folders.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault
from integrity.copies.protocol import CopyEntry, Kind, Published, Trouble
from integrity.copies.s3.checksums import StatedChecksums, read_etag, read_stated
from integrity.copies.s3.client import ATTEMPTS, TIMEOUT_S, Listed, Page, Store, parse_address
from integrity.errors import CopyUnreachable, ReadError, Unreadable, Vanished, show_path

_LONGEST_KEY_BYTES = 1024  # the limit of S3
# XML 1.0 section 2.2; a store that does not encode the keys of a listing replaces these by U+FFFD.
_NOT_IN_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffd-\uffff]")
_EMPTY_PAGES: Final = 300
"""Allowed in a row: a page may be empty where many objects were deleted."""
_AHEAD_BYTES: Final = 8 << 20
"""Size of a request when a file is read sequentially: each request costs money and a round trip."""


class S3Copy(BaseCopy):
    """
    The objects below a prefix; see ``protocol.Copy``.

    Args:
        url: as ``client.parse_address`` describes it.
        endpoint: replaces that of the URL.
        timeout_s: how long the store may be silent.
        attempts: how often a request is sent if repeating it can help.
    """

    has_details = True

    def __init__(
        self, url: str, *, endpoint: str | None = None, timeout_s: float = TIMEOUT_S, attempts: int = ATTEMPTS
    ) -> None:
        self._address = parse_address(url, endpoint)
        super().__init__(url, self._address.shown)
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._must_stop: Callable[[], bool] = lambda: False
        self._entered: Store | None = None

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """See ``Copy``."""
        self._must_stop = must_stop

    def __enter__(self) -> Self:
        """Connect; refuse a prefix without objects: it is probably the wrong one, like an empty folder (R5)."""
        store = Store(self._address, timeout_s=self._timeout_s, attempts=self._attempts, must_stop=self._must_stop)
        try:
            self._refuse_empty(store)
        except BaseException:
            store.close()
            raise
        self._entered = store
        return self

    def _refuse_empty(self, store: Store) -> None:
        if not store.list_page(self._address.prefix, most=1).objects:
            raise CopyUnreachable(
                f"{self.shown}: nothing is stored there; correct the bucket or the prefix, or make the copy first"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered is not None:
            self._entered.close()
            self._entered = None

    @property
    def _store(self) -> Store:
        assert self._entered is not None, "entered first"
        return self._entered

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List all objects, or those below one path; see ``Copy.list``."""
        fault = find_fault(prefix) if prefix else None
        if fault is not None:
            yield Trouble(prefix, f"its name {fault}")
        elif not prefix:
            yield from self._list_keys(self._address.prefix)
        elif self.find_name_fault(prefix) is None:
            key = self._address.prefix + prefix
            # An object of this very name comes first among the keys that begin with it.
            for listed in self._store.list_page(key, most=1).objects:
                if listed.key == key:
                    yield from self._make_entries(listed)
            yield from self._list_keys(key + b"/")

    def find_name_fault(self, path: bytes, /) -> str | None:
        """Return why a file of this path can't be in the store; see ``Copy``."""
        if len(self._address.prefix + path) > _LONGEST_KEY_BYTES:
            return f"is longer than the {_LONGEST_KEY_BYTES} bytes that a key of S3 can have"
        try:
            text = path.decode()
        except UnicodeDecodeError:
            return "is not UTF-8, as all keys of S3 are"
        if not self._store.encodes_keys and _NOT_IN_XML.search(text):
            return "has characters in it that this store can't list"
        return None

    def _list_keys(self, prefix: bytes) -> Iterator[CopyEntry | Trouble]:
        for page in self._list_pages(prefix):
            for listed in page.objects:
                if listed.key.startswith(prefix):
                    yield from self._make_entries(listed)
                else:
                    yield Trouble(listed.key, "the store lists it, though it does not lie where the copy is")

    def _list_pages(self, prefix: bytes) -> Iterator[Page]:
        """
        List page by page, until a page names no next one.

        A broken store may name a next page for ever. A working store lists each key once, so a page that begins with
        the first key of an earlier page is the same page.
        """
        first_keys: set[bytes] = set()  # one key of each page
        empty_pages = 0
        page = self._store.list_page(prefix)
        while True:
            yield page
            if page.token is None:
                return
            if page.objects:
                empty_pages = 0
                first_keys.add(page.objects[0].key)
            else:
                empty_pages += 1
            page = self._store.list_page(prefix, page.token)
            if empty_pages > _EMPTY_PAGES or (page.objects and page.objects[0].key in first_keys):
                raise CopyUnreachable(
                    f"{self.shown}: the store lists the same objects, or none, over and over; it is out of order"
                )

    def _make_entries(self, listed: Listed) -> Iterator[CopyEntry | Trouble]:
        """Make the entry of an object; none for an object that only stands for a folder."""
        path = listed.key[len(self._address.prefix) :]
        if listed.size_bytes == 0 and (not path or path.endswith(b"/")):
            return
        fault = find_fault(path) or self.find_name_fault(path)
        if fault is not None:
            yield Trouble(path or b"/", f"its key {fault}")
        elif listed.size_bytes < 0:
            yield Trouble(path, "the store lists it with a size that is none")
        else:
            tag = read_etag(listed.etag, listed.size_bytes, self._address.bucket)
            yield CopyEntry(path, listed.size_bytes, listed.mtime_ns, () if tag is None else (tag,))

    def look_closer(self, path: bytes, *, every_part: bool = False) -> CopyEntry | Trouble:
        """
        Request everything that the store states of one object, without its bytes; takes one request, or two.

        An ETag of the listing may be no digest of the content. A differing ETag proves a different content only if the
        headers state it, too. Only the headers have checksums and the sizes of parts.

        Args:
            path: of a file that ``list`` has named.
            every_part: request the size of each part, one request each; otherwise all parts but the last are taken to
                have one size.

        Raises:
            CopyUnreachable: at any time.
        """
        try:
            key = self._find_key(path)
            stated = self._store.head(key)
            published = read_stated(stated, self._address.bucket)
            sized = tuple(self._add_sizes(key, stated, one, every_part=every_part) for one in published)
        except ReadError as error:
            return Trouble(path, str(error))
        return CopyEntry(path, stated.size_bytes, stated.mtime_ns, sized, encryption=stated.encryption)

    def _add_sizes(self, key: bytes, stated: StatedChecksums, published: Published, *, every_part: bool) -> Published:
        """Add the sizes of the parts to a digest of digests."""
        if published.kind is not Kind.MD5_OF_PARTS or published.part_sizes:
            return published
        first = self._store.head(key, part=1)
        if first.parts != published.parts or first.size_bytes < 1:
            return published
        is_even = -(-stated.size_bytes // first.size_bytes) == published.parts
        if is_even and not every_part:
            return published._replace(part_sizes=(first.size_bytes,))
        sizes = tuple(self._store.head(key, part=number).size_bytes for number in range(1, published.parts + 1))
        return published._replace(part_sizes=sizes) if sum(sizes) == stated.size_bytes else published

    def open(self, path: bytes) -> S3File:
        """Open one object for reading; see ``Copy.open``."""
        fault = find_fault(path)
        if fault is not None:
            raise Unreadable(f"{self.shown}: {show_path(path)} {fault}", errno=errno.EINVAL)
        key = self._find_key(path)
        stated = self._store.head(key)
        return S3File(self._store, key, stated)

    def _find_key(self, path: bytes) -> bytes:
        fault = self.find_name_fault(path)
        if fault is not None:
            raise Vanished(f"{self.shown}: {show_path(path)}: it can't be there: its name {fault}")
        return self._address.prefix + path


class S3File:
    """One object, in the version that it had when it was opened; see ``protocol.CopyFile``."""

    __slots__ = ("_ahead", "_ahead_offset", "_key", "_next_offset", "_stated", "_store")

    def __init__(self, store: Store, key: bytes, stated: StatedChecksums) -> None:
        self._store = store
        self._key = key
        self._stated = stated
        self._ahead = b""
        self._ahead_offset = 0
        self._next_offset = -1

    @property
    def stat(self) -> os.stat_result | None:
        """Return None: an object has no owner, mode or times of this machine."""
        return None

    @property
    def size_bytes(self) -> int:
        """Return the size that the object had when it was opened."""
        return self._stated.size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """Read from any offset; reading on requests larger pieces. See ``CopyFile.read``."""
        length = max(0, min(length, self.size_bytes - offset))
        if offset < self._ahead_offset or offset + length > self._ahead_offset + len(self._ahead):
            if length == 0:
                return b""
            wanted = max(length, _AHEAD_BYTES) if offset == self._next_offset else length
            self._ahead = self._store.get(self._key, self._stated.etag, offset, min(wanted, self.size_bytes - offset))
            self._ahead_offset = offset
        self._next_offset = offset + length
        start = offset - self._ahead_offset
        return self._ahead[start : start + length]

    def close(self) -> None:
        """Release the buffer; may be called twice."""
        self._ahead = b""
