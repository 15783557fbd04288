r"""
The same name: whether two paths name one file, after what file systems and tools make of names.

Names change on the way: macOS stores Unicode decomposed (NFD), Windows writes ``\`` between folders, and FAT, NTFS and
macOS take ``A.JPG`` for ``a.jpg``. The names that are known decide: bytes that are equal are the same name; otherwise a
name is another spelling of a known one if it is so of exactly one.

I1  An exact name is always found, and as itself.
I2  A name with two candidates is none of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator

from integrity.errors import show_path


def fold_name(name: bytes, *, ignores_case: bool) -> bytes:
    """Return what all spellings of a name have in common: its NFC, without letter case if that is ignored."""
    if name.isascii():
        return name.lower() if ignores_case else name
    text = unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape"))
    if ignores_case:
        text = unicodedata.normalize("NFC", text.casefold())
    return text.encode("utf-8", "surrogateescape")


class SameNames:
    """
    Known names, such as those of one folder, and the spellings under which they are found.

    Args:
        known: names or paths.
        ignores_case: one side does not tell ``A`` from ``a``.
    """

    def __init__(self, known: Iterable[bytes], *, ignores_case: bool = False) -> None:
        self._known = frozenset(known)
        self._ignores_case = ignores_case
        self._by_fold: list[dict[bytes, bytes | None]] | None = None

    def find(self, name: bytes) -> bytes | None:
        """Return the known name that this is a spelling of; None if it is none, or may be several."""
        if name in self._known:
            return name
        if self._by_fold is None:
            self._by_fold = [self._index(ignores_case=False)]
            if self._ignores_case:
                self._by_fold.append(self._index(ignores_case=True))
        for ignores_case, names in enumerate(self._by_fold):
            fold = fold_name(name, ignores_case=bool(ignores_case))
            if fold in names:
                return names[fold]
        return None

    def _index(self, *, ignores_case: bool) -> dict[bytes, bytes | None]:
        """Index the names by what their spellings have in common; None where several have it."""
        found: dict[bytes, bytes | None] = {}
        for name in self._known:
            fold = fold_name(name, ignores_case=ignores_case)
            found[fold] = None if fold in found else name
        return found


_FOLDERS_AT_MOST = 64


class SamePaths:
    r"""
    Find paths under another spelling, folder by folder.

    Args:
        list_names: returns the names in a folder, files and folders; the top is empty, and ``/`` for absolute paths.
        ignores_case: one side does not tell ``A`` from ``a``.
        has_backslashes: the paths may be of Windows, with ``\`` between folders.
    """

    def __init__(
        self,
        list_names: Callable[[bytes], Iterable[bytes]],
        *,
        ignores_case: bool = False,
        has_backslashes: bool = False,
    ) -> None:
        self._list_names = list_names
        self._ignores_case = ignores_case
        self._has_backslashes = has_backslashes
        self._folders: dict[bytes, SameNames] = {}

    def find(self, path: bytes) -> bytes | None:
        """Return the known path that this is a spelling of; None if it is none, or may be several."""
        found = self._walk(path)
        if found is None and self._has_backslashes and b"\\" in path:
            found = self._walk(path.replace(b"\\", b"/"))
        return found

    def _walk(self, path: bytes) -> bytes | None:
        place = b"/" if path.startswith(b"/") else b""
        for part in path.split(b"/"):
            name = part if part in (b"", b".", b"..") else self._open(place).find(part)
            if name is None:
                return None
            if name not in (b"", b"."):
                place = place + b"/" + name if place.strip(b"/") else place + name
        return place or None

    def _open(self, folder: bytes) -> SameNames:
        """Return the names of a folder; the last few folders are kept."""
        found = self._folders.pop(folder, None)
        if found is None:
            found = SameNames(self._list_names(folder), ignores_case=self._ignores_case)
        if len(self._folders) == _FOLDERS_AT_MOST:
            del self._folders[next(iter(self._folders))]
        self._folders[folder] = found
        return found


class OtherSpellings:
    """
    The names of one list that were found under another spelling, to say so once.

    Attributes:
        count: number of names.
    """

    def __init__(self) -> None:
        self.count = 0
        self._example = (b"", b"")

    def add(self, listed: bytes, found: bytes) -> None:
        """Count a name."""
        self._example = self._example if self.count else (listed, found)
        self.count += 1

    def describe(self) -> Iterator[str]:
        """Yield a sentence if there are any."""
        listed, found = map(show_path, self._example)
        if self.count == 1:
            yield f"1 name in it is spelled otherwise than the file: {listed} is {found}"
        elif self.count:
            yield f"{self.count:,} names in it are spelled otherwise than the files, such as {listed}, which is {found}"
