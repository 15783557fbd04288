"""
What changes that nobody meant have in common. Pure: numbers and names in, signs out.

Each sign has an innocent explanation: an import, a conversion, a tool that tags music. Two of them at once hardly have
one, nor has a suffix that nobody knows on many files whose old names are gone. That is when ransomware is named, and
not before: a gate that cries wolf is taken out of the script. Scans and gates ask for the same signs.
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
Of the files that are gone from their folders, so many came back under the one suffix: in an ordinary week files go for
many reasons. What goes elsewhere, as mails do by the thousand, says nothing of these folders.
"""

LEAST_NOTE_FOLDERS = 5
"""Folders with the same new file: fewer are a template that was copied."""

NOTE_FOLDERS_SHARE = 0.3
"""Of the folders in which files were rewritten or went: a note lies in most of them."""

NOTE_SIZES = range(64, 256 << 10)
"""Bytes of a ransom note: text, HTML or a picture of it. Shorter ones are markers such as .nomedia."""

LEAST_LOOKED_AT = 8
"""Samples that a share is taken of; of fewer, a few odd files are half."""

LOST_SHARE = 0.5
"""Of the samples whose type is known. A damaged disk spoils some files, encryption nearly all that it has come to."""

RANDOM_SHARE = 0.5
LEAST_RANDOM_TYPES = 3
"""
Different suffixes among random files of unknown types: a folder of one sort is some program's store of encrypted data.
Of types that are known one is enough: a folder of photos has no other, and no photo is random from its first byte on.
"""


LEAST_REPLACED = 20
REPLACED_SHARE = 0.5
"""Of the files that were there, so many have to be gone: with fewer, a new encrypted store has its own reasons."""

ARRIVED_SHARE = 0.8
"""Random files that came, of those that are gone: encryption makes one of each, an archive tool a few of all."""


class SignKind(StrEnum):
    """What was noticed."""

    REWRITTEN = "rewritten"  # more files than the limits of a mass change
    RENAMED = "renamed"  # many files went and came back with one new suffix
    REPLACED = "replaced"  # most files went, and as many came that are random, under other names
    NOTES = "notes"  # one small file is new in many folders
    TYPES_LOST = "types_lost"  # files are not what their names say
    SCRAMBLED = "scrambled"  # files that should not be are as random as if encrypted


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that was noticed; ``message`` says it with its numbers, for people. ``is_enough``: without another."""

    kind: SignKind
    message: str
    is_enough: bool = False


def are_enough(signs: Collection[Sign]) -> bool:
    """Say whether there are too many signs to be explained."""
    return len(signs) >= SIGNS_TO_STOP or any(sign.is_enough for sign in signs)


@dataclass(frozen=True, slots=True)
class AppearedFile:
    """New files of one sort: how many there are, and looks at some."""

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
        groups: looks at samples of files that were something before: first of rewritten ones, then of those that came
            back under another name, then of others that may have been renamed.
        arrivals: new files of each sort. By themselves they are no sign, whatever they hold: what never was a photo is
            no lost one.
        most_files: the limits of a mass change, of which both have to be exceeded.
        most_percent: of the files that were there before.
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
    """Removed files are no part of it: who renames a file removes one, and that is a sign by itself."""
    count = changes.rewritten_count
    if count <= most_files or count * 100 <= most_percent * changes.known_before:
        return None
    return Sign(SignKind.REWRITTEN, f"{count} of {changes.known_before} files were rewritten")


def _are_sound(looks: Collection[ContentLook]) -> bool:
    """Say whether enough files were looked into, most of which are neither lost nor random: they were not encrypted."""
    bad = sum(look.is_lost or look.is_random for look in looks)
    return len(looks) >= LEAST_LOOKED_AT and bad < LOST_SHARE * len(looks)


def _find_renamed(changes: Changes, *, are_sound: bool) -> Sign | None:
    """Find one suffix on many files that stand for removed ones; enough if nobody knows it, and none is sound."""
    returned = find_returned(changes)
    suffixes = Counter(_split(path)[1].lower() for path in returned)
    if not suffixes:
        return None
    suffix, count = suffixes.most_common(1)[0]
    folders = {_folder(path) for path in returned if _split(path)[1].lower() == suffix}
    gone = sum(_folder(path) in folders for path in changes.removed)
    if count < LEAST_PATTERN or count < RENAMED_SHARE * gone:
        return None
    text = f"{count} files are gone and came back with names that end in .{suffix.decode('utf-8', 'backslashreplace')}"
    return Sign(SignKind.RENAMED, text, is_enough=not are_sound and not is_innocent(suffix))


def find_returned(changes: Changes) -> list[bytes]:
    """
    List the new files that stand for a removed one, one for each: the pieces that one was cut into are not many.

    Either something was added to the whole name (``a.jpg.locked``, with more in between), or its suffix was replaced.
    """
    gone = set(changes.removed)
    stems = Counter(_split(path)[0] for path in changes.removed)
    return [one.path for one in changes.new if _take_returned(one.path, gone, stems)]


def _take_returned(path: bytes, gone: set[bytes], stems: Counter[bytes]) -> bool:
    """Say whether a new file stands for a removed one; that is taken out."""
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
    List the new files that may be what most of the others were made into: none if most are still there.

    Those whose names tell a type are apart: an import of photos must not hide the rest.
    """
    told: list[bytes] = []
    untold: list[bytes] = []
    for path, _ in changes.new if _count_emptied(changes) else ():
        suffix, is_typed = find_suffix(path, is_renamed=False)
        if not may_hold_anything(suffix):
            (told if is_typed else untold).append(path)
    return [paths for paths in (told, untold) if paths]


def _count_emptied(changes: Changes) -> int:
    """Count the removed files of known types, if they were most of what was there; else 0."""
    if not changes.known_before:
        return 0
    typed = sum(map(_is_typed, changes.removed))
    count = round(typed * changes.removed_count / len(changes.removed)) if typed else 0
    return count if count >= max(LEAST_REPLACED, REPLACED_SHARE * changes.known_before) else 0


def _is_typed(path: bytes) -> bool:
    return find_suffix(path, is_renamed=False)[1]


def _find_replaced(changes: Changes, arrivals: Sequence[AppearedFile]) -> Sign | None:
    """
    Find files that went while as many came that are random, where even the names are others.

    Those that went have to be of known types: a store of encrypted data replaces its files by others of its kind.
    """
    gone = _count_emptied(changes)
    arrived = sum(one.random_count for one in arrivals)
    looked_at = sum(len(one.looks) for one in arrivals)
    if not gone or looked_at < LEAST_LOOKED_AT or arrived < ARRIVED_SHARE * gone:
        return None
    return Sign(SignKind.REPLACED, f"{gone} of {changes.known_before} files are gone, and about {arrived} others came")


def _say_arrived(arrivals: Sequence[AppearedFile]) -> Sign:
    looks = max(arrivals, key=lambda one: one.random_count).looks
    count = sum(look.is_random for look in looks)
    text = f"{count} of {len(looks)} new files that were looked into are as random as if they were encrypted"
    return Sign(SignKind.SCRAMBLED, text)


def _split(path: bytes) -> tuple[bytes, bytes]:
    """Cut the last suffix off, which may be none; a dot at the beginning of a name begins none."""
    dot = path.rfind(b".", path.rfind(b"/") + 2)
    return (path[:dot], path[dot + 1 :]) if dot >= 0 else (path, b"")


def _find_notes(changes: Changes) -> Sign | None:
    """Find one small file that is new, byte by byte the same, in many of the folders where files changed or went."""
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
    return Sign(SignKind.NOTES, f"the same new file {text} lies in {len(where)} of {len(touched)} folders with changes")


def _folder(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]


def _find_lost(looks: Collection[ContentLook]) -> Sign | None:
    typed = [look for look in looks if look.is_typed]
    lost = sum(look.is_lost for look in typed)
    if len(typed) < LEAST_LOOKED_AT or lost < LOST_SHARE * len(typed):
        return None
    suffixes = _name(Counter(look.suffix for look in typed if look.is_lost))
    return Sign(SignKind.TYPES_LOST, f"{lost} of {len(typed)} files that were looked into are not {suffixes} any more")


def _find_scrambled(looks: Collection[ContentLook]) -> Sign | None:
    random = [look for look in looks if look.is_random]
    typed = sum(look.is_typed for look in random)
    is_mixed = len({look.suffix for look in random}) >= LEAST_RANDOM_TYPES
    count = len(random) if is_mixed else typed
    if len(looks) < LEAST_LOOKED_AT or count < RANDOM_SHARE * len(looks):
        return None
    text = f"{count} of {len(looks)} files that were looked into are as random as if they were encrypted"
    return Sign(SignKind.SCRAMBLED, text)


def _name(suffixes: Counter[bytes]) -> str:
    names = [suffix.decode("utf-8", "backslashreplace") for suffix, _ in suffixes.most_common(3)]
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else names[0]
