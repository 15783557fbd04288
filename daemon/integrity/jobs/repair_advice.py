"""Advise how to repair a file from a copy that has it as recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import findings
from integrity.catalog.copies import find_good_copy
from integrity.kinds import ENDED_BY_COMPARE
from integrity.model import FileId, FindingKind
from integrity.paths import absolute, shell_path, shell_word
from integrity.verdict import KINDS_OF_VOTES, VERDICTS, CopyVote, Judgement, Verdict, arbitrate

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


class Advice(NamedTuple):
    """What to do, as text and as a command."""

    step: str
    command: str | None


def advise_repair(
    connection: Connection, root: bytes, path: bytes, file_id: FileId, kind: FindingKind
) -> Advice | None:
    """
    Return how to repair a file from the latest good copy; None if there is no such copy or nothing to repair.

    Args:
        root: absolute path of its root.
        path: relative to the root.
    """
    verdict = VERDICTS.get(kind)
    name = None if verdict is None else find_good_copy(connection, file_id)
    if verdict is None or name is None:
        return None
    found = arbitrate(Judgement(verdict), CopyVote.SAME)
    if found.command is None:
        return None
    places = {"path": shell_path(absolute(root, path)), "root": shell_path(root), "copy": shell_word(name)}
    return Advice(found.words, found.command.format(**places))


_VOTES = {kind: vote for vote, kind in KINDS_OF_VOTES.items() if kind in ENDED_BY_COMPARE}
"""The comparison result behind each kind of finding on a copy."""


def renew_copy_advice(
    connection: Connection, root: bytes, path: bytes, file_id: FileId, *, is_other_content: bool = False
) -> None:
    """
    Replace the advice of open findings on a file's copies by the advice for an intact file.

    The old advice ("do not back it up", "put its blocks back first") is wrong once the file is good again: repaired,
    restored by hand, or accepted as it is.

    Args:
        connection: in a transaction.
        root: absolute path of the root.
        path: relative to the root.
        is_other_content: the record was replaced after the copies were compared with it.
    """
    for one in findings.find_open_of_files(connection, [file_id]).get(file_id, ()):
        if one.copy and one.kind in _VOTES:
            vote = _VOTES[one.kind]
            if is_other_content and vote is CopyVote.DIFFERS:
                vote = CopyVote.OLDER
            found = arbitrate(Judgement(Verdict.INTACT), vote)
            places = {"path": shell_path(absolute(root, path)), "root": shell_path(root), "copy": shell_word(one.copy)}
            command = None if found.command is None else found.command.format(**places)
            findings.set_step(connection, [one.id], found.words, command)
