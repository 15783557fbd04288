"""Advise how to repair a file from a copy that has it as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import findings
from integrity.catalog.copies import find_copies, find_good_copy
from integrity.config.copy_urls import keeps_versions
from integrity.copies.filenames import is_below
from integrity.kinds import ENDED_BY_COMPARE, KINDS, OTHER_CONTENT, Subject
from integrity.model import Certainty, FileId, FindingKind, RootId
from integrity.paths import absolute, shell_path, shell_word
from integrity.verdict import VERDICTS, ArbitrationOutcome, FileState, Judgement, find_stand, find_step

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


class Advice(NamedTuple):
    """What to do, as text and as a command."""

    step: str
    command: str | None


def advise_repair(
    connection: Connection, root_id: RootId, root: bytes, path: bytes, file_id: FileId, kind: FindingKind
) -> Advice | None:
    """
    Return how to repair a file from the latest good copy, or how to find a good version of it.

    None if there is no such copy and none with versions, or nothing to repair.

    Args:
        root: absolute path of its root.
        path: relative to the root.
    """
    verdict = VERDICTS.get(kind)
    name = None if verdict is None else find_good_copy(connection, file_id)
    if verdict is None:
        return None
    if name is None:
        covering = (one for one in find_copies(connection, root_id) if is_below(path, one.prefix))
        if not any(keeps_versions(one.url) for one in covering):
            return None
        words = "look which of your backups have it as it was recorded"
        return Advice(words, f"integrity versions {shell_path(absolute(root, path))}")
    words, command = find_step(ArbitrationOutcome.REPAIRABLE, find_stand(Judgement(verdict)))
    assert command is not None
    places = {"path": shell_path(absolute(root, path)), "root": shell_path(root), "copy": shell_word(name)}
    return Advice(words, command.format(**places))


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
        connection: in a transaction.
        root: absolute path of the root.
        path: relative to the root.
        stand: of the file, now.
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
