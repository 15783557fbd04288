"""
Decide which names of a root are left out.

Two lists: a built-in one of names that NAS boxes, desktops and file systems make for themselves, and the user's
patterns in the notation of gitignore(5). The user's come later, so ``!name`` among them brings a built-in name back.
As in git, the last pattern that matches a name decides, a pattern that ends in a slash means folders only, and what
lies in an excluded folder is excluded whatever other patterns say.

The built-in list holds what nobody would restore and what changes or vanishes by itself, so that it would be reported
for nothing: thumbnails, indexes, waste baskets, and snapshots, which repeat the whole tree. Deliberately not in it:
``._*`` (resource forks hold content), ``.stversions`` and ``.git`` (versions that somebody kept), ``*.tmp``, ``*~`` and
caches (one can't tell from the name whose they are).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

from integrity.errors import ConfigError

_FOLDERS = frozenset(
    {
        # Synology: thumbnails and metadata, waste basket, the snapshots' visible door, scratch space of the system
        b"@eaDir",
        b"#recycle",
        b"#snapshot",
        b"@tmp",
        # QNAP: thumbnails, waste basket, snapshots, unfinished uploads
        b".@__thumb",
        b"@Recycle",
        b"@Recently-Snapshot",
        b".@upload_cache",
        # Snapshots of btrfs (snapper), ZFS and NetApp: every file once more for each of them
        b".snapshots",
        b".zfs",
        b".snapshot",
        # What fsck found: only root may look, and it is the administrator's to sort out
        b"lost+found",
        # Windows: waste basket and restore points
        b"$RECYCLE.BIN",
        b"System Volume Information",
        # macOS: waste baskets, search index, journal of changes, scratch space; netatalk's metadata
        b".Trashes",
        b".Spotlight-V100",
        b".fseventsd",
        b".TemporaryItems",
        b".AppleDouble",
    }
)
_FILES = frozenset(
    {
        # Views that Finder and Explorer write anew whenever somebody looks into a folder
        b".DS_Store",
        b"Thumbs.db",
    }
)
_GLOBS = (
    ".Trash-*/",  # freedesktop.org: waste basket of a user, at the top of a disk
    ".nfs0000*",  # deleted on an NFS client while open: gone as soon as it is closed
    ".fuse_hidden*",  # the same by libfuse
    ".*.integrity-*",  # kept by ``repair``: the bytes that were replaced
)

# All globs begin with a dot: nothing else is ever tried against them.
_DOT = ord(".")

KEPT_ID_DIGITS = 16
"""So many hexadecimal digits end the names that ``repair`` gives: ``.NAME.integrity-ID``, ``.new`` while it is made."""

is_kept_by_repair = re.compile(rb"\..+\.integrity-[0-9a-f]{%d}(?:\.new)?" % KEPT_ID_DIGITS, re.DOTALL).fullmatch
_matches_folder_glob = re.compile(rb"\.Trash-.*|\.nfs0000.*|\.fuse_hidden.*|\..*\.integrity-.*", re.DOTALL).fullmatch
_matches_file_glob = re.compile(rb"\.nfs0000.*|\.fuse_hidden.*|\..*\.integrity-.*", re.DOTALL).fullmatch


def _in_notation(name: bytes) -> str:
    # A bare "#" would begin a comment.
    return name.decode().replace("#", "\\#")


BUILTIN: tuple[str, ...] = (
    *sorted(_in_notation(name) + "/" for name in _FOLDERS),
    *sorted(_in_notation(name) for name in _FILES),
    *_GLOBS,
)
"""The built-in list as gitignore patterns, to be shown to people."""


class Excludes:
    """
    Tell what of a root is left out.

    Args:
        patterns: the user's, in the notation of gitignore(5), relative to the root.
        builtin: whether the built-in list holds, too.
        kept: whether what ``repair`` made or kept is left out, whatever the patterns say: the bytes that were replaced
            are no content of anybody's, and damaged ones would be recorded as good.

    Raises:
        ConfigError: a pattern can't be understood or could never match.
    """

    __slots__ = ("_files", "_folders", "_has_globs", "_leaves_kept", "_rules")

    def __init__(self, patterns: Sequence[str] = (), *, builtin: bool = True, kept: bool = True) -> None:
        # Last first: the first that matches decides.
        self._rules = [_compile(pattern) for pattern in reversed(patterns)]
        self._folders = _FOLDERS | _FILES if builtin else frozenset()
        self._files = _FILES if builtin else frozenset()
        self._has_globs = builtin
        self._leaves_kept = kept

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """
        Tell whether one entry is left out, all of whose parent folders are not.

        Args:
            path: relative to the root.
            name: its last component.
            is_folder: whether it is a folder.
        """
        if name[0] == _DOT and self._leaves_kept and is_kept_by_repair(name) and not is_folder:
            return True
        if self._rules:
            verdict = self._ask_user(path, is_folder)
            if verdict is not None:
                return verdict
        if name in (self._folders if is_folder else self._files):
            return True
        if name[0] == _DOT and self._has_globs:
            return (_matches_folder_glob if is_folder else _matches_file_glob)(name) is not None
        return False

    def may_match(self, names: bytes) -> bool:
        """
        Tell, at less cost than by asking for each, whether any of some files in one folder may be left out.

        Args:
            names: with a NUL byte between two of them.
        """
        if self._rules:
            return True
        if self._has_globs and any(name in names for name in _FILES):
            return True
        return (self._has_globs or self._leaves_kept) and (names.startswith(b".") or b"\0." in names)

    def covers(self, path: bytes, *, is_folder: bool = False) -> bool:
        """Tell whether a file (or folder) is left out, by itself or because it lies in a folder that is."""
        end = path.find(b"/")
        start = 0
        while end >= 0:
            if self.matches(path[:end], path[start:end], True):
                return True
            start = end + 1
            end = path.find(b"/", start)
        return self.matches(path, path[start:], is_folder)

    def _ask_user(self, path: bytes, is_folder: bool) -> bool | None:
        # pathspec's expressions use "." and "$", which treat a line feed in a name as an end; names hold no NUL byte,
        # patterns neither, so it can stand in.
        subject = path.decode("utf-8", "surrogateescape").replace("\n", "\0")
        if is_folder:
            subject += "/"
        for fullmatch, is_excluded in self._rules:
            if fullmatch(subject):
                return is_excluded
        return None


_Rule = tuple[Callable[[str], re.Match[str] | None], bool]


def _compile(pattern: str) -> _Rule:
    """
    Translate one pattern with pathspec, into an expression that spans exactly the path of an entry that it means.

    ``GitIgnoreSpec.match_file`` itself asks another question: whether a path or *any of its parents* matches, which
    lets ``!/photos/`` bring back everything below that folder, where git brings back the folder alone.
    """
    if "\n" in pattern or "\0" in pattern:
        raise ConfigError(f"exclude pattern {pattern!r}: write each pattern as a string of its own")
    if pattern.startswith("#"):
        raise ConfigError(f"exclude pattern {pattern!r}: begins a comment; for that name write {chr(92) + pattern!r}")
    if "[:" in pattern:
        raise ConfigError(f"exclude pattern {pattern!r}: classes such as [:alpha:] are not understood; write a range")
    from pathspec import GitIgnoreSpec  # 5 ms, for those who have patterns

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of re: a set that it may come to read differently
            compiled = GitIgnoreSpec.from_lines([_spell_out(pattern)], backend="simple").patterns
    except (ValueError, re.error, FutureWarning) as error:
        raise ConfigError(f"exclude pattern {pattern!r}: {error}; see gitignore(5) for the notation") from error
    regex = compiled[0].regex if compiled else None
    if regex is None:
        raise ConfigError(f"exclude pattern {pattern!r}: can't match anything; see gitignore(5) for the notation")
    return regex.fullmatch, bool(compiled[0].include)


def _spell_out(pattern: str) -> str:
    """
    Write ``*`` and a final ``**`` so that pathspec makes no short cut of them.

    Its short cuts look for any slash in the path, and its ``folder/**`` matches the folder itself.
    """
    if not pattern.endswith("\\ "):
        pattern = pattern.rstrip()
    bang = "!" if pattern.startswith("!") else ""
    segments = ["?*" if segment == "*" else segment for segment in pattern[len(bang) :].split("/")]
    last = len(segments) - 2 if len(segments) > 1 and not segments[-1] else len(segments) - 1
    if segments[last] == "**":
        segments.insert(last + 1, "?*")
    return bang + "/".join(segments)
