"""Advise how to repair a file from a copy, or from the version of one, that has it as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.arbitration import ArbitrationOutcome, CopyVote, FileState, find_stand, find_step
from integrity.catalog import findings
from integrity.catalog.copies import find_copies, find_good_copy
from integrity.catalog.parity import find_covers
from integrity.config.copy_urls import PARITY, keeps_versions
from integrity.copies.filenames import is_below
from integrity.errors import printable
from integrity.kinds import ENDED_BY_COMPARE, KINDS, OTHER_CONTENT, NextStep, Subject
from integrity.model import Certainty, CopyId, FileId, FindingKind, RootId
from integrity.paths import absolute, shell_path, shell_word
from integrity.verdict import VERDICTS, Judgement
from integrity.words.text import utc_time

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


REPAIR = "integrity repair"
"""How the command of advice begins that names a good copy."""

FROM_PARITY = f"--from {PARITY}"
"""How it ends if parity is all that is known: whether that is enough shows when it is asked."""


_HEAL = "heal it without a backup: its parity has what was lost"
_LOOK = "look which of your backups have it as it was recorded"
_NO_VERSION = "none of the versions of your backups has it as it was recorded; see what they have"


def advise_repair(
    connection: Connection,
    root_id: RootId,
    root: bytes,
    path: bytes,
    file_id: FileId,
    kind: FindingKind,
    *,
    unless: CopyId | None = None,
) -> NextStep | None:
    """
    Return how to repair a file from the latest good copy, or from one with a good version, or how to find such a one.

    None if there is no such copy and none with versions, or nothing to repair.

    Args:
        root: absolute path of its root.
        path: relative to the root.
        unless: of other copies than this.
    """
    verdict = VERDICTS.get(kind)
    if verdict is None:
        return None
    words, command = find_step(ArbitrationOutcome.REPAIRABLE, find_stand(Judgement(verdict)))
    assert command is not None
    name = find_good_copy(connection, file_id, unless)
    has_parity = bool(find_covers(connection, file_id))
    if name is None:
        about = findings.find_open_of_files(connection, [file_id]).get(file_id, ())
        seen = next((one.versions for one in about if one.versions is not None), None)
        good = [one for one in seen or () if one.content == CopyVote.SAME]
        if has_parity and not good:
            return NextStep(_HEAL, f"{REPAIR} {shell_path(absolute(root, path))} {FROM_PARITY}")
        covering = (one for one in find_copies(connection, root_id) if is_below(path, one.prefix))
        if seen is None and not any(keeps_versions(one.url) for one in covering):
            return None
        if not good:
            look = _LOOK if seen is None else _NO_VERSION
            return NextStep(look, f"integrity versions {shell_path(absolute(root, path))}")
        last = max(good, key=lambda one: one.taken_at)
        name, taken = last.copy, utc_time(last.taken_at)
        has, of = (sum(1 for one in some if one.copy == name) for some in (good, seen or ()))
        where = f"{has:,} of its last {of:,} versions, the newest of {taken}" if of > 1 else f"its version of {taken}"
        words += f"; {printable(name)} has it as recorded in {where}"
    if has_parity:
        words += f"; its parity may heal it without a backup, too: {FROM_PARITY}"
    places = {"path": shell_path(absolute(root, path)), "root": shell_path(root), "copy": shell_word(name)}
    return NextStep(words, command.format(**places))


def renew_copy_advice(
    connection: Connection,
    root: bytes,
    path: bytes,
    file_id: FileId,
    *,
    stand: FileState = FileState.GOOD,
    is_other_content: bool = False,
) -> None:
    """
    Replace the advice of open findings on a file's copies, because something else became of the file.

    "Do not back it up" is wrong once the file is good again: repaired, restored by hand, or accepted as it is. "Copy it
    over the backup" is wrong once it is damaged.

    Args:
        is_other_content: the record was replaced after the copies were compared with it.
    """
    about = [one for one in findings.find_open_of_files(connection, [file_id]).get(file_id, ()) if one.copy]
    known = find_copies(connection) if about else []
    lists = {one.name for one in known if not one.has_bytes}
    series = {one.name for one in known if keeps_versions(one.url)}
    for one in about:
        if one.copy and one.kind in ENDED_BY_COMPARE and KINDS[one.kind].subject is Subject.COPY:
            is_stale = is_other_content and one.kind in OTHER_CONTENT
            outcome = ArbitrationOutcome.COPY_STALE if is_stale else ArbitrationOutcome(one.kind.value)
            if one.certainty is Certainty.CUT_OFF and not is_stale:
                outcome = ArbitrationOutcome.COPY_INCOMPLETE
            words, command = find_step(
                outcome, stand, has_bytes=one.copy not in lists, keeps_versions=one.copy in series
            )
            places = {"path": shell_path(absolute(root, path)), "root": shell_path(root), "copy": shell_word(one.copy)}
            findings.set_step(connection, [one.id], words, None if command is None else command.format(**places))
