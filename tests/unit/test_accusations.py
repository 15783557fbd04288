"""What follows from stored checksums that accuse files, and from the reading of some of these."""

from __future__ import annotations

from integrity.arbitration import CopyVote, Level
from integrity.copies.protocol import Kind
from integrity.jobs.compare.accusations import Accusations, ConfirmStep, ObjectSort
from integrity.jobs.compare.copy_answer import CopyAnswer

PLAIN = ObjectSort(b"photos", "", (Kind.MD5,))
RIGHT = CopyAnswer(CopyVote.SAME, Level.READ)
WRONG = CopyAnswer(CopyVote.DIFFERS, Level.READ)


def accuse(
    accusations: Accusations, sort: ObjectSort, answers: list[CopyAnswer], size_bytes: int = 1
) -> list[ConfirmStep]:
    """Accuse a file for each answer that its reading would give; return what was done about each."""
    steps = []
    for answer in answers:
        steps.append(accusations.decide(sort, size_bytes))
        if steps[-1] is ConfirmStep.READ:
            assert answer == accusations.take(sort, answer)
    return steps


def test_accusations_are_held_beyond_the_limits() -> None:
    """After 1,000 files, or 4 GiB; in a sort that accused twenty good files they say nothing."""
    accusations = Accusations()
    assert [ConfirmStep.READ] * 1000 + [ConfirmStep.HOLD] * 2 == accuse(accusations, PLAIN, [WRONG] * 1002)
    assert [ConfirmStep.READ, ConfirmStep.HOLD] == accuse(Accusations(), PLAIN, [WRONG] * 2, size_bytes=3 << 30)
    assert [ConfirmStep.HOLD] == accuse(Accusations(), PLAIN, [WRONG], size_bytes=5 << 30)
    answers = [WRONG, *[RIGHT] * 1001]
    assert [ConfirmStep.READ] * 1000 + [ConfirmStep.LEAVE] * 2 == accuse(Accusations(), PLAIN, answers)


def test_what_was_accused_rightly_is_not_reported() -> None:
    """The findings say it; only good files that were accused are told, with how many were left unread."""
    accusations = Accusations()
    assert accusations.describe() is None
    accuse(accusations, PLAIN, [WRONG] * 3)
    assert accusations.describe() is None
    accuse(accusations, PLAIN._replace(folder=b""), [RIGHT])
    assert "other checksums for 1 file whose data" in str(accusations.describe())
    accuse(accusations, PLAIN._replace(encryption="AES256"), [RIGHT] * 30)
    told = str(accusations.describe())
    assert "not those of the data (md5 in the top folder; md5, encryption AES256 in photos/)" in told
    assert "21 files were read back and are as recorded, 10 were not read" in told
