"""The table of the kinds of findings is complete, and the only place where kinds are listed."""

from __future__ import annotations

import ast
from pathlib import Path

import integrity
from integrity.arbitration import KINDS_OF_VOTES
from integrity.kinds import COVERAGE_PROBLEMS, GRAVITY, INTEGRITY_PROBLEMS, TABLE, Subject, Trait, Weight, headline
from integrity.model import Certainty, FindingKind
from integrity.verdict import VERDICTS

PACKAGE = Path(integrity.__file__).parent
TABLES = {"model.py", "kinds.py", "verdict.py", "arbitration.py"}
MOST_NAMED = 2
"""So many kinds a function may name because of what they are; more of them are a list, which belongs into the table."""


def test_each_kind_has_one_entry() -> None:
    """A kind without an entry would have no exit code and no words."""
    assert sorted(FindingKind) == sorted(entry.kind for entry in TABLE)
    assert len(TABLE) == len(GRAVITY)


def test_each_kind_has_words() -> None:
    """People read a headline, and a subject's phrase for one and for several."""
    for entry in TABLE:
        for words in (entry.headline, *entry.phrase, *(step.words for step in entry.steps)):
            assert words, entry.kind
            assert words.isprintable(), entry.kind
            assert "_" not in words, entry.kind
        assert entry.headline[0].isupper(), entry.kind


def test_each_certainty_of_rot_has_a_headline() -> None:
    """Only what is proven is called bit rot without a second cause."""
    proven = headline(FindingKind.ROT, Certainty.PROVEN)

    assert all(proven != headline(FindingKind.ROT, one) for one in (Certainty.AFTER_CRASH, Certainty.NO_CTIME))
    assert proven == headline(FindingKind.ROT, None)


def test_exit_codes_are_told_apart() -> None:
    """No kind means both exit codes, and only notes mean none."""
    notes = {entry.kind for entry in TABLE if entry.weight is Weight.NOTE}

    assert not INTEGRITY_PROBLEMS & COVERAGE_PROBLEMS
    assert set(FindingKind) == INTEGRITY_PROBLEMS | COVERAGE_PROBLEMS | notes


def test_kinds_that_freeze_a_baseline_can_be_ended() -> None:
    """Else a file would stay frozen after its content is right again."""
    ends = Trait.ENDED_BY_GOOD_READING | Trait.ENDED_BY_REPAIR
    assert all(ends in entry.traits for entry in TABLE if Trait.FREEZES_BASELINE in entry.traits)


def test_what_is_about_copies() -> None:
    """Votes of copies open findings about copies, verdicts about files do not."""
    about_copies = {entry.kind for entry in TABLE if entry.subject is Subject.COPY}

    assert set().union(*KINDS_OF_VOTES.values()) <= about_copies
    assert not set(VERDICTS) & about_copies


def test_kinds_are_listed_in_the_table_only() -> None:
    """A set or mapping of kinds elsewhere would have to be remembered by whoever adds a kind."""
    lists = []
    for path in PACKAGE.rglob("*.py"):
        if path.name in TABLES:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Set | ast.Tuple | ast.List | ast.Dict):
                inner = node.keys if isinstance(node, ast.Dict) else node.elts
                kinds = [one for one in inner if _is_kind(one)]
                if len(kinds) > MOST_NAMED:
                    lists.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert [] == lists


def _is_kind(node: ast.expr | None) -> bool:
    value = node.value if isinstance(node, ast.Attribute) else None
    if isinstance(value, ast.Attribute):  # FindingKind.ROT.value
        value = value.value
    return isinstance(value, ast.Name) and value.id == "FindingKind"
