"""
Decide which names of a root are excluded.

Two lists apply: a built-in one of names that NAS boxes, desktops and file systems create, and the user's gitignore(5)
patterns. The user's patterns come later, so ``!name`` re-includes a built-in name. As in git, the last matching pattern
decides, a trailing slash limits a pattern to folders, and everything in an excluded folder is excluded.

The built-in list holds what nobody restores and what changes or vanishes by itself, so that it causes no false reports:
thumbnails, indexes, trash, and snapshots, which repeat the whole tree. Deliberately not listed: ``._*`` (resource forks
hold content), ``.stversions`` and ``.git`` (kept versions), ``*.tmp``, ``*~`` and caches (the name does not show the
owner).

A scope is the part of a tree that a shard covers: some folders, without the folders in them that other shards cover.
Every name of a tree belongs to exactly one shard: the one with the deepest folder above it. So a new folder belongs to
the shard of the folder that it was made in, without anybody deciding so.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

from integrity.errors import ConfigError

_FOLDERS = frozenset(
    {
        # Synology: thumbnails and metadata, trash, the visible entry to snapshots, system scratch space
        b"@eaDir",
        b"#recycle",
        b"#snapshot",
        b"@tmp",
        # QNAP: thumbnails, trash, snapshots, unfinished uploads
        b".@__thumb",
        b"@Recycle",
        b"@Recently-Snapshot",
        b".@upload_cache",
        # Snapshots of btrfs (snapper), ZFS and NetApp: each repeats every file
        b".snapshots",
        b".zfs",
        b".snapshot",
        # Recovered by fsck: readable by root only, for the administrator to sort out
        b"lost+found",
        # Windows: trash and restore points
        b"$RECYCLE.BIN",
        b"System Volume Information",
        # macOS: trash, search index, change journal, scratch space; netatalk's metadata
        b".Trashes",
        b".Spotlight-V100",
        b".fseventsd",
        b".TemporaryItems",
        b".AppleDouble",
    }
)
_FILES = frozenset(
    {
        # View settings that Finder and Explorer rewrite whenever a folder is opened
        b".DS_Store",
        b"Thumbs.db",
    }
)
_GLOBS = (
    ".Trash-*/",  # freedesktop.org: a user's trash, at the top of a disk
    ".nfs0000*",  # deleted on an NFS client while open; vanishes when closed
    ".fuse_hidden*",  # the same, by libfuse
    ".*.integrity-*",  # kept by ``repair``: the replaced bytes
)

# All globs begin with a dot: other names are never tested against them.
_DOT = ord(".")

KEPT_ID_DIGITS = 16
"""Hexadecimal digits at the end of names made by ``repair``: ``.NAME.integrity-ID``, plus ``.new`` while it is being
made."""

is_kept_by_repair = re.compile(rb"\..+\.integrity-[0-9a-f]{%d}(?:\.new)?" % KEPT_ID_DIGITS, re.DOTALL).fullmatch
_matches_folder_glob = re.compile(rb"\.Trash-.*|\.nfs0000.*|\.fuse_hidden.*|\..*\.integrity-.*", re.DOTALL).fullmatch
_matches_file_glob = re.compile(rb"\.nfs0000.*|\.fuse_hidden.*|\..*\.integrity-.*", re.DOTALL).fullmatch


def _in_notation(name: bytes) -> str:
    # A bare "#" would start a comment.
    return name.decode().replace("#", "\\#")


BUILTIN: tuple[str, ...] = (
    *sorted(_in_notation(name) + "/" for name in _FOLDERS),
    *sorted(_in_notation(name) for name in _FILES),
    *_GLOBS,
)
"""The built-in list as gitignore patterns, for display."""


class Excludes:
    """
    Decide which names of a root are excluded.

    Args:
        patterns: the user's gitignore(5) patterns, relative to the root.
        builtin: also apply the built-in list.
        kept: exclude what ``repair`` made or kept, whatever the patterns say: the replaced bytes are nobody's content,
            and damaged ones would be recorded as good.

    Raises:
        ConfigError: a pattern is invalid or can never match.
    """

    __slots__ = ("_files", "_folders", "_has_globs", "_leaves_kept", "_rules")

    def __init__(self, patterns: Sequence[str] = (), *, builtin: bool = True, kept: bool = True) -> None:
        # Reversed, so that the first match decides.
        self._rules = [_compile(pattern) for pattern in reversed(patterns)]
        self._folders = _FOLDERS | _FILES if builtin else frozenset()
        self._files = _FILES if builtin else frozenset()
        self._has_globs = builtin
        self._leaves_kept = kept

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """
        Return whether an entry is excluded, given that none of its parent folders is.

        Args:
            path: relative to the root.
            name: its last component.
        """
        if name[0] == _DOT and self._leaves_kept and is_kept_by_repair(name) and not is_folder:
            return True
        if self._rules:
            verdict = self._match_user_rules(path, is_folder)
            if verdict is not None:
                return verdict
        if name in (self._folders if is_folder else self._files):
            return True
        if name[0] == _DOT and self._has_globs:
            return (_matches_folder_glob if is_folder else _matches_file_glob)(name) is not None
        return False

    def may_match(self, names: bytes) -> bool:
        """
        Return whether any of several files of one folder may be excluded; cheaper than testing each.

        Args:
            names: separated by NUL bytes.
        """
        if self._rules:
            return True
        if self._has_globs and any(name in names for name in _FILES):
            return True
        return (self._has_globs or self._leaves_kept) and (names.startswith(b".") or b"\0." in names)

    def covers(self, path: bytes, *, is_folder: bool = False) -> bool:
        """Return whether a file (or folder) is excluded, by its own name or by a parent folder's."""
        end = path.find(b"/")
        start = 0
        while end >= 0:
            if self.matches(path[:end], path[start:end], True):
                return True
            start = end + 1
            end = path.find(b"/", start)
        return self.matches(path, path[start:], is_folder)

    def _match_user_rules(self, path: bytes, is_folder: bool) -> bool | None:
        # pathspec's expressions use "." and "$", which treat a line feed as an end. Names and patterns contain no NUL
        # byte, so NUL replaces the line feed.
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
    Translate one pattern with pathspec into an expression that matches exactly the path of an entry.

    ``GitIgnoreSpec.match_file`` instead matches a path or *any of its parents*: with it, ``!/photos/`` re-includes
    everything below that folder, while git re-includes the folder alone.
    """
    if "\n" in pattern or "\0" in pattern:
        raise ConfigError(f"exclude pattern {pattern!r}: write each pattern as a string of its own")
    if pattern.startswith("#"):
        raise ConfigError(f"exclude pattern {pattern!r}: begins a comment; for that name write {chr(92) + pattern!r}")
    if "[:" in pattern:
        raise ConfigError(f"exclude pattern {pattern!r}: classes such as [:alpha:] are not understood; write a range")
    from pathspec import GitIgnoreSpec  # 5 ms, paid only if there are patterns

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # from re: a set whose meaning may change
            compiled = GitIgnoreSpec.from_lines([_translate_pattern(pattern)], backend="simple").patterns
    except (ValueError, re.error, FutureWarning) as error:
        raise ConfigError(f"exclude pattern {pattern!r}: {error}; see gitignore(5) for the notation") from error
    regex = compiled[0].regex if compiled else None
    if regex is None:
        raise ConfigError(f"exclude pattern {pattern!r}: can't match anything; see gitignore(5) for the notation")
    return re.compile(_bound_backtracking(regex.pattern)).fullmatch, bool(compiled[0].include)


_MIDDLE, _TOP, _STAR = "(?:/.+)?", "^(?:.+/)?", "[^/]*"
_PLAIN_PART = r"((?:\\.|[^(\\])+)"
_ONE_CHARACTER = r"(?:\\.|\[\^?\]?(?:\\.|[^\]\\])*\](?!\*)|[^/()\[\]\\*?+.|^$])"
_BOUNDS = (
    (rf"(?:{re.escape(_STAR)}){{2,}}", _STAR),
    (rf"{re.escape(_TOP)}{_PLAIN_PART}(?={re.escape(_MIDDLE)})", r"^(?>(?:.+?/)??\1(?=/))"),
    (rf"{re.escape(_MIDDLE)}{_PLAIN_PART}(?={re.escape(_MIDDLE)})", r"(?>(?:/.+?)??\1(?=/))"),
    (rf"{re.escape(_STAR)}({_ONE_CHARACTER}+)(?={re.escape(_STAR)})", r"(?>[^/]*?\1)"),
)


def _bound_backtracking(expression: str) -> str:
    """
    Make an expression of pathspec take the first place where each part between two wildcards fits, and no other one.

    A later place can't match where the first one does not, for a wildcard follows. Without this, the time grows with
    the length of a name to the power of the number of wildcards: ``*a*a*a*a*b`` takes hours for a hundred "a".
    """
    for find, put in _BOUNDS:
        expression = re.sub(find, put, expression)
    return expression


def _translate_pattern(pattern: str) -> str:
    """
    Rewrite ``*`` and a final ``**`` so that pathspec does not optimize them.

    Its shortcuts look for any slash in the path, and its ``folder/**`` matches the folder itself.
    """
    if not pattern.endswith("\\ "):
        pattern = pattern.rstrip()
    bang = "!" if pattern.startswith("!") else ""
    segments = ["?*" if segment == "*" else segment for segment in pattern[len(bang) :].split("/")]
    last = len(segments) - 2 if len(segments) > 1 and not segments[-1] else len(segments) - 1
    if segments[last] == "**":
        segments.insert(last + 1, "?*")
    return bang + "/".join(segments)


def make_left_out(patterns: Sequence[str]) -> Excludes | None:
    """
    Return what a backup leaves out on purpose, for paths relative to the copy; None if it leaves out nothing.

    Raises:
        ConfigError: a pattern is invalid.
    """
    return Excludes(patterns, builtin=False, kept=False) if patterns else None


class TreeScope:
    """
    The folders of a shard.

    Args:
        folders: relative to the tree, at least one; empty bytes: its top. They may lie in each other.
        left_out: folders of other shards inside them.
    """

    def __init__(self, folders: Iterable[bytes], left_out: Iterable[bytes] = ()) -> None:
        self.folders = frozenset(folders)
        self.left_out = frozenset(left_out)
        above = {parent for folder in self.folders for parent in find_parents(folder)}
        self.passages = frozenset(folder for folder in above if not self.covers(folder))
        """Folders that only lead to the shard's: their own names belong to others."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole tree."""
        return b"" in self.folders and not self.left_out

    def covers(self, folder: bytes) -> bool:
        """Return whether the names directly in a folder belong to the shard."""
        for place in (folder, *find_parents(folder)):
            if place in self.folders:
                return True
            if place in self.left_out:
                return False
        return False

    def covers_name(self, path: bytes) -> bool:
        """Return whether a file belongs to the shard."""
        return self.covers(path.rpartition(b"/")[0])


def find_parents(path: bytes) -> Iterator[bytes]:
    """Yield the folders above a path relative to the tree, from the inside; the last one is empty."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


class ScopeExcludes(Excludes):
    """Exclude what belongs to other shards, besides what other excludes do."""

    __slots__ = ("_excludes", "_scope")

    def __init__(self, excludes: Excludes, scope: TreeScope) -> None:
        super().__init__()
        self._excludes = excludes
        self._scope = scope

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Return whether an entry is excluded, given that none of its parent folders is; see ``Excludes``."""
        scope = self._scope
        is_passage = is_folder and path in scope.passages
        if is_folder and path in scope.left_out and not is_passage:
            return True
        if path[: -len(name) - 1] in scope.passages and not (is_folder and (is_passage or path in scope.folders)):
            return True
        return self._excludes.matches(path, name, is_folder)

    def may_match(self, names: bytes) -> bool:
        """Return whether any of these files may be excluded; see ``Excludes``."""
        return bool(self._scope.passages) or self._excludes.may_match(names)
