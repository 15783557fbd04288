"""
Find signs of a program that destroys files. Pure: numbers and names in, signs out.

Each sign has innocent explanations: an import, a conversion, a tool that tags music. Two at once hardly have one, nor
has an unknown suffix on many files whose old names are gone. Only then is ransomware named: a gate with false alarms is
removed from the backup script. Scans and gates use the same signs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from integrity.jobs.gate.changes import Changes
from integrity.jobs.gate.file_types import ContentLook, find_suffix, is_innocent, may_hold_anything
from integrity.jobs.open_root import LEAST_PATTERN

SIGNS_TO_STOP = 2

RENAMED_SHARE = 0.5
"""
Share of the files gone from their folders that must have returned under the one suffix: in an ordinary week files go
for many reasons. Files that moved elsewhere, as mails do by the thousand, are no evidence about these folders.
"""

LEAST_NOTE_FOLDERS = 5
"""Folders with the same new file: in fewer it may be a template that was copied."""

NOTE_FOLDERS_SHARE = 0.3
"""Share of the folders with rewritten or removed files: a ransom note is in most of them."""

NOTE_SIZES = range(64, 256 << 10)
"""Size in bytes of a ransom note: text, HTML or a picture. Shorter files are markers such as .nomedia."""

LEAST_LOOKED_AT = 8
"""Least number of samples for a share: among fewer, a few odd files are half."""

LOST_SHARE = 0.5
"""Share of the samples of known type. A damaged disk spoils some files, encryption nearly all it has reached."""

RANDOM_SHARE = 0.5
LEAST_RANDOM_TYPES = 3
"""
Different suffixes among random files of unknown types: a folder of one type is some program's encrypted store. One
known type is enough: a photo folder has no other, and no photo is random from its first byte on.
"""


LEAST_REPLACED = 20
REPLACED_SHARE = 0.5
"""Share of the previous files that must be gone: with fewer, a new encrypted store has other reasons."""

ARRIVED_SHARE = 0.8
"""Random new files per removed file: encryption creates one for each, an archive tool a few for all."""


class SignKind(StrEnum):
    """Kinds of sign."""

    REWRITTEN = "rewritten"  # more files were rewritten than the limits of a mass change
    RENAMED = "renamed"  # many files are gone and returned with one new suffix
    REPLACED = "replaced"  # most files are gone, and as many random ones appeared under other names
    NOTES = "notes"  # one small file is new in many folders
    TYPES_LOST = "types_lost"  # file contents do not match the types of their names
    SCRAMBLED = "scrambled"  # files that should not be random look encrypted


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign; ``message`` describes it with its numbers, for people. ``is_enough``: it needs no second sign."""

    kind: SignKind
    message: str
    is_enough: bool = False


def are_enough(signs: Collection[Sign]) -> bool:
    """Return whether there are too many signs for an innocent explanation."""
    return len(signs) >= SIGNS_TO_STOP or any(sign.is_enough for sign in signs)


@dataclass(frozen=True, slots=True)
class AppearedFile:
    """New files of one kind: their number, and samples of some."""

    count: int
    looks: Sequence[ContentLook]

    @property
    def random_count(self) -> int:
        """Estimate how many are random."""
        random = sum(look.is_random for look in self.looks)
        return round(self.count * random / len(self.looks)) if self.looks else 0


def find_signs(
    changes: Changes,
    groups: Sequence[Collection[ContentLook]],
    arrivals: Sequence[AppearedFile],
    *,
    most_files: int,
    most_percent: int,
) -> list[Sign]:
    """
    Find the signs of a program that destroys files.

    Args:
        changes: since the gate was last passed.
        groups: samples of files that existed before: first rewritten ones, then those that returned under another name,
            then others that may have been renamed.
        arrivals: new files of each kind. They are no sign by themselves, whatever their content: a new file was never a
            photo, so no photo is lost.
        most_files: limit of a mass change; both limits must be exceeded.
        most_percent: limit as a percentage of the files before.
    """
    replaced = _find_replaced(changes, arrivals)
    are_sound = any(map(_are_sound, groups[1:2]))
    found = (
        _find_rewritten(changes, most_files, most_percent),
        _find_renamed(changes, are_sound=are_sound) or replaced,
        _find_notes(changes),
        _first(_find_lost(looks) for looks in groups),
        _first(_find_scrambled(looks) for looks in groups) or (replaced and _say_arrived(arrivals)),
    )
    return [one for one in found if one is not None]


def _first(signs: Iterable[Sign | None]) -> Sign | None:
    return next((sign for sign in signs if sign is not None), None)


def _find_rewritten(changes: Changes, most_files: int, most_percent: int) -> Sign | None:
    """Find a wave of rewritten files. Removed ones are not counted: a rename removes a file and is its own sign."""
    count = changes.rewritten_count
    if count <= most_files or count * 100 <= most_percent * changes.known_before:
        return None
    return Sign(SignKind.REWRITTEN, f"{count} of {changes.known_before} files were rewritten")


def _are_sound(looks: Collection[ContentLook]) -> bool:
    """Return whether most of enough samples are neither lost nor random: these files were not encrypted."""
    bad = sum(look.is_lost or look.is_random for look in looks)
    return len(looks) >= LEAST_LOOKED_AT and bad < LOST_SHARE * len(looks)


def _find_renamed(changes: Changes, *, are_sound: bool) -> Sign | None:
    """Find one suffix on many files that replace removed ones; enough if it is unknown and the files are not sound."""
    returned = find_returned(changes)
    suffixes = Counter(_split(path)[1].lower() for path in returned)
    if not suffixes:
        return None
    suffix, count = suffixes.most_common(1)[0]
    folders = {_folder(path) for path in returned if _split(path)[1].lower() == suffix}
    gone = sum(_folder(path) in folders for path in changes.removed)
    if count < LEAST_PATTERN or count < RENAMED_SHARE * gone:
        return None
    ending = suffix.decode("utf-8", "backslashreplace")
    text = f"{count} files were replaced by files with names ending in .{ending}"
    return Sign(SignKind.RENAMED, text, is_enough=not are_sound and not is_innocent(suffix))


def find_returned(changes: Changes) -> list[bytes]:
    """
    Return the new files that replace a removed one, at most one for each: a file may be cut into many pieces.

    Either a suffix was appended to the whole name (``a.jpg.locked``, with more in between), or its suffix was replaced.
    """
    gone = set(changes.removed)
    stems = Counter(_split(path)[0] for path in changes.removed)
    return [one.path for one in changes.new if _take_returned(one.path, gone, stems)]


def _take_returned(path: bytes, gone: set[bytes], stems: Counter[bytes]) -> bool:
    """Return whether a new file replaces a removed one, and remove that one from the sets."""
    stem, suffix = _split(path)
    if not suffix:
        return False
    if stems[stem] > 0:
        stems[stem] -= 1
        return True
    while suffix:
        if stem in gone:
            gone.remove(stem)
            return True
        stem, suffix = _split(stem)
    return False


def find_arrivals(changes: Changes) -> list[list[bytes]]:
    """
    Return the new files that may be encrypted versions of removed ones; none if most files still exist.

    Files of known types are listed separately: an import of photos must not hide the others.
    """
    typed: list[bytes] = []
    others: list[bytes] = []
    for path, _ in changes.new if _count_emptied(changes) else ():
        suffix, is_typed = find_suffix(path, is_renamed=False)
        if not may_hold_anything(suffix):
            (typed if is_typed else others).append(path)
    return [paths for paths in (typed, others) if paths]


def _count_emptied(changes: Changes) -> int:
    """Return the number of removed files of known types if they were most of all files; else 0."""
    if not changes.known_before:
        return 0
    typed = sum(find_suffix(path, is_renamed=False)[1] for path in changes.removed)
    count = round(typed * changes.removed_count / len(changes.removed)) if typed else 0
    return count if count >= max(LEAST_REPLACED, REPLACED_SHARE * changes.known_before) else 0


def _find_replaced(changes: Changes, arrivals: Sequence[AppearedFile]) -> Sign | None:
    """
    Find files that are gone while about as many random ones appeared, under unrelated names.

    The removed files must be of known types: a store of encrypted data replaces its files by similar ones.
    """
    gone = _count_emptied(changes)
    arrived = sum(one.random_count for one in arrivals)
    looked_at = sum(len(one.looks) for one in arrivals)
    if not gone or looked_at < LEAST_LOOKED_AT or arrived < ARRIVED_SHARE * gone:
        return None
    text = f"{gone} of {changes.known_before} files are gone, and about {arrived} other files appeared"
    return Sign(SignKind.REPLACED, text)


def _say_arrived(arrivals: Sequence[AppearedFile]) -> Sign:
    looks = max(arrivals, key=lambda one: one.random_count).looks
    count = sum(look.is_random for look in looks)
    text = f"{count} of {len(looks)} sampled new files look encrypted"
    return Sign(SignKind.SCRAMBLED, text)


def _split(path: bytes) -> tuple[bytes, bytes]:
    """Split off the last suffix, which may be empty; a leading dot of the name starts no suffix."""
    dot = path.rfind(b".", path.rfind(b"/") + 2)
    return (path[:dot], path[dot + 1 :]) if dot >= 0 else (path, b"")


def _find_notes(changes: Changes) -> Sign | None:
    """Find one small new file that is identical in many of the folders with rewritten or removed files."""
    touched = {_folder(path) for path in changes.rewritten} | {_folder(path) for path in changes.removed}
    folders: dict[tuple[bytes, int, bytes], set[bytes]] = {}
    for path, content in changes.new:
        folder, name = _folder(path), path.rpartition(b"/")[2]
        if content.md5 is not None and content.size_bytes in NOTE_SIZES and folder in touched:
            folders.setdefault((name, content.size_bytes, content.md5), set()).add(folder)
    if not folders:
        return None
    (name, _, _), where = max(folders.items(), key=lambda item: len(item[1]))
    if len(where) < LEAST_NOTE_FOLDERS or len(where) < NOTE_FOLDERS_SHARE * len(touched):
        return None
    text = name.decode("utf-8", "backslashreplace")
    return Sign(SignKind.NOTES, f"the same new file {text} is in {len(where)} of {len(touched)} folders with changes")


def _folder(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _find_lost(looks: Collection[ContentLook]) -> Sign | None:
    typed = [look for look in looks if look.is_typed]
    lost = sum(look.is_lost for look in typed)
    if len(typed) < LEAST_LOOKED_AT or lost < LOST_SHARE * len(typed):
        return None
    suffixes = _name(Counter(look.suffix for look in typed if look.is_lost))
    return Sign(SignKind.TYPES_LOST, f"{lost} of {len(typed)} sampled files are no longer valid {suffixes}")


def _find_scrambled(looks: Collection[ContentLook]) -> Sign | None:
    random = [look for look in looks if look.is_random]
    typed = sum(look.is_typed for look in random)
    is_mixed = len({look.suffix for look in random}) >= LEAST_RANDOM_TYPES
    count = len(random) if is_mixed else typed
    if len(looks) < LEAST_LOOKED_AT or count < RANDOM_SHARE * len(looks):
        return None
    text = f"{count} of {len(looks)} sampled files look encrypted"
    return Sign(SignKind.SCRAMBLED, text)


def _name(suffixes: Counter[bytes]) -> str:
    names = [suffix.decode("utf-8", "backslashreplace") for suffix, _ in suffixes.most_common(3)]
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else names[0]
