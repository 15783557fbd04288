"""What is summed up or looked up without a seal has a parity: one flipped bit of it is noticed by whoever opens."""

from __future__ import annotations

from enum import StrEnum

import pytest

from integrity.catalog import candidates, history, maintenance, report_queue, report_rows, row_seals, runs, schema
from integrity.catalog.actions import Action, record_action
from integrity.catalog.candidates import CandidateKind, CandidateState
from integrity.catalog.copies import CopyState, ensure_copy, save_states
from integrity.catalog.runs import note_started
from integrity.catalog.sqlite_errors import DamagedRow
from integrity.model import ActionVerb, Actor, BaselineReason, FileId, Job, Outcome, RunCounts
from integrity.verdict import CopyVote, Verdict
from support.catalogs import NOW, CatalogBox, make_reading
from support.flips import damage_rows

PARITIES = {table.name: table for table in schema.metadata.sorted_tables if "parity" in table.c}


def fill(box: CatalogBox) -> FileId:
    """Write a row into each table that has a parity, but for those of alerts."""
    file_id = box.record(b"d/a")
    with box.catalog.transaction() as c:
        record = box.get(file_id)
        candidates.stage_change(c, record, make_reading("b"), Verdict.ROT.value, box.run_id, CandidateState.FROZEN)
        history.add_history(c, [record], because=BaselineReason.EDITED, now=NOW)
        copy = ensure_copy(c, box.root.id, b"", "copy", "/copy", None, now=NOW)
        save_states(c, copy.id, [CopyState(file_id, 1, CopyVote.SAME, NOW, NOW)])
        note_started(c, "scan", box.root.id, due_at=NOW, now=NOW)
        runs.finish_run(c, box.run_id, Outcome.CLEAN, RunCounts(), now=NOW, duration_s=1.0)
        record_action(c, Action(Actor("root", "command line"), ActionVerb.ACK, "acknowledged"), NOW)
        report_queue.start_stream(c, "https://hub.example", bytes(16), NOW)
        report_queue.add_messages(c, [report_queue.QueuedMessage(1, NOW, "state", 0, "{}")], ())
        report_queue.note_failure(c, "no answer", NOW)
        report_rows.begin_digests(c, [box.get(file_id).folder_id])
    return file_id


@pytest.mark.parametrize("table", sorted({*PARITIES} - {"alert", "delivery"}))
def test_every_flipped_bit_of_a_number_is_noticed(box: CatalogBox, table: str) -> None:
    """Also by who only reads; and the catalog is open all the same, for a damaged row is no damaged file."""
    fill(box)
    computed = PARITIES[table].c.parity.computed
    assert computed is not None
    with box.catalog.read() as c:
        row = c.exec_driver_sql(f"SELECT * FROM {table}").mappings().one()
    names = [name for name in row if name in str(computed.sqltext) and isinstance(row[name], int)]
    assert names
    for name, bit in ((name, bit) for name in (*names, "parity") for bit in (0, 6, 7, 50)):
        damage_rows(box.path, f"UPDATE {table} SET {name} = ?", row[name] ^ 1 << bit)
        with box.catalog.read() as c:
            assert [table] == [found.table for found in row_seals.find_odd(c)], (name, bit)
        damage_rows(box.path, f"UPDATE {table} SET {name} = ?", row[name])
    damage_rows(box.path, f"UPDATE {table} SET parity = parity + 1")
    for writes in (False, True):
        assert [table] == [found.table for found in box.reopen(writes=writes).damaged_rows]


@pytest.mark.parametrize("column", sorted(row_seals.WORDS))
def test_unknown_word_is_noticed(box: CatalogBox, column: str) -> None:
    """Rows are counted by their words; and no flipped bit makes a known one of another."""
    fill(box)
    table, name = column.split(".")
    damage_rows(box.path, f"UPDATE {table} SET {name} = 'sbme'")

    assert table in {row.table for row in box.reopen(writes=False).damaged_rows}
    words = [str(word).encode() for word in row_seals.WORDS[column]]
    for one, other in ((one, other) for one in words for other in words if one != other and len(one) == len(other)):
        assert sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True)) > 1


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("candidate.kind", CandidateKind),
        ("candidate.state", CandidateState),
        ("run.job", Job),
        ("copy_file.vote", CopyVote),
    ],
)
def test_all_words_are_known(column: str, words: type[StrEnum]) -> None:
    """What an enumeration has is no damage."""
    assert {str(word) for word in words} == {str(word) for word in row_seals.WORDS[column]}


def test_check_names_such_a_row_and_reseal_takes_it_as_it_is(box: CatalogBox) -> None:
    """The size in a file's row is under its seal as well, the number of a folder only under its parity."""
    file_id = fill(box)
    damage_rows(box.path, "UPDATE file SET size_bytes = size_bytes + 64")
    damage_rows(box.path, "UPDATE folder SET root_id = root_id + 4")
    damage_rows(box.path, "UPDATE folder SET root_id = root_id - 4, parity = parity + 1")
    catalog = box.reopen()

    report = maintenance.check(catalog)
    assert {DamagedRow("file", (file_id,)), DamagedRow("folder", (1,))} <= {*report.damaged_rows}
    maintenance.reseal(catalog, None, NOW)
    assert maintenance.check(catalog).is_right
    assert not box.reopen().damaged_rows


def test_rows_of_alerts_have_one(box: CatalogBox) -> None:
    """They are counted, too."""
    assert {"alert", "delivery"} <= {*PARITIES}
