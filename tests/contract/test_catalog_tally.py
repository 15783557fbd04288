"""Whatever is done in whatever order: the tally is right, and nothing is left behind (I2)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.catalog import baselines, candidates, files, findings, folders, maintenance, removal, roots
from integrity.catalog.baselines import NewFile, Verified
from integrity.catalog.findings import NewFinding
from integrity.catalog.rows import FileRecord, join_path
from integrity.errors import CatalogError
from integrity.model import BaselineReason, FileId, FindingKind, ReadHow, Reading, Witness
from support.catalogs import MIB, NOW, CatalogBox, make_blocks, make_reading

FOLDERS = [b"", b"a", b"a/b", b"c"]


def is_new_twin(one: FileRecord, old: FileRecord) -> bool:
    """Say whether a file was recorded after another, with its content, and nothing happened to it since."""
    is_new = one.recorded_at > old.recorded_at and one.version == 1 and one.verified_at is None
    return is_new and (one.digests.md5, one.witness.size_bytes) == (old.digests.md5, old.witness.size_bytes)


class Walk:
    """Do things at random to one root, each in a transaction that may be taken back."""

    def __init__(self, box: CatalogBox, seed: int) -> None:
        self.box = box
        self.rng = random.Random(seed)
        self.ids: list[FileId] = []
        self.count = 0

    def reading(self) -> Reading:
        self.count += 1
        count = self.rng.choice([0, 0, 2, 1500])
        seed = self.rng.randrange(5)
        blocks = make_blocks(seed, count) if count else None
        return make_reading(seed, blocks=blocks, size_bytes=count * MIB or 5, inode=self.count)

    def place(self) -> tuple[bytes, bytes]:
        self.count += 1
        return self.rng.choice(FOLDERS), b"%d" % self.count

    def one(self) -> FileId:
        return self.rng.choice(self.ids)

    def record(self, c: sa.Connection) -> None:
        rows = [NewFile(join_path(*self.place()), self.reading()) for _ in range(self.rng.randrange(1, 4))]
        box = self.box
        self.ids += baselines.record_files(c, box.sealer, box.root, rows, now=NOW + self.count, boot_id=box.boot_id)

    def replace(self, c: sa.Connection) -> None:
        because = self.rng.choice([BaselineReason.EDITED, BaselineReason.ACCEPTED])
        box = self.box
        baselines.replace_baseline(
            c, box.sealer, box.root, self.one(), self.reading(), because=because, now=NOW, boot_id=box.boot_id
        )

    def verify(self, c: sa.Connection) -> None:
        witness = self.rng.choice([None, Witness(5, self.count, 2, 3)])
        record = self.box.get(self.one())
        rows = [Verified(record, witness, ReadHow.DIRECT)]
        baselines.mark_verified(c, self.box.sealer, self.box.root, rows, now=NOW, boot_id=self.box.boot_id)

    def remove(self, c: sa.Connection) -> None:
        gone = self.rng.sample(self.ids, min(2, len(self.ids)))
        because = self.rng.choice([BaselineReason.DELETED, BaselineReason.FORGOTTEN])
        assert not removal.remove_files(c, self.box.sealer, self.box.root, gone, because=because, now=NOW)
        self.ids = [file_id for file_id in self.ids if file_id not in gone]

    def move(self, c: sa.Connection) -> None:
        folder_path, name = self.place()
        folder_id = folders.ensure_folder(c, self.box.root.id, folder_path)
        moved = removal.MovedFile(self.one(), folder_id, join_path(folder_path, name))
        removal.move_files(c, self.box.sealer, self.box.root, [moved], now=NOW)

    def merge(self, c: sa.Connection) -> None:
        old = files.get_file(c, self.box.sealer, self.one())
        for twin in [one for one in files.find_files(c, self.box.sealer, self.ids) if is_new_twin(one, old)][:1]:
            removal.merge_moved(c, self.box.sealer, self.box.root, old, twin, NOW)
            self.ids.remove(twin.id)

    def stage(self, c: sa.Connection) -> None:
        if self.rng.random() < 0.3:
            candidates.stage_removal(c, self.box.get(self.one()), self.box.run_id)
        else:
            candidates.stage_change(c, self.box.get(self.one()), self.reading(), "changed", self.box.run_id, "staged")

    def promote(self, c: sa.Connection) -> None:
        box = self.box
        for found in candidates.find_candidates(c, box.root.id, limit=1):
            is_removal = found.kind is candidates.CandidateKind.REMOVAL
            because = BaselineReason.DELETED if is_removal else BaselineReason.EDITED
            done = candidates.promote(c, box.sealer, box.root, found.file_id, because, NOW, box.boot_id)
            if done and is_removal:
                self.ids.remove(found.file_id)

    def find(self, c: sa.Connection) -> None:
        record = files.get_file(c, self.box.sealer, self.one())
        kind = self.rng.choice([FindingKind.ROT, FindingKind.UNSTABLE])
        new = NewFinding(kind, self.box.root.id, record.id, record.path, "message")
        findings.open_finding(c, new, now=NOW, run_id=self.box.run_id)

    def resolve(self, c: sa.Connection) -> None:
        findings.resolve_findings(c, file_id=self.one(), resolution="x", now=NOW)

    def suspect(self, c: sa.Connection) -> None:
        baselines.mark_suspects(c, {self.one(): None})

    def take_back(self) -> None:
        raise InterruptedError

    def step(self) -> None:
        """Do one thing; now and then take it back."""
        steps: list[Callable[[sa.Connection], None]] = [self.record]
        if self.ids:
            steps += [self.replace, self.verify, self.remove, self.move, self.merge, self.stage, self.promote]
            steps += [self.find, self.resolve, self.suspect]
        before = list(self.ids)
        try:
            with self.box.catalog.transaction() as c:
                self.rng.choice(steps)(c)
                if self.rng.random() < 0.1:
                    self.take_back()
        except (CatalogError, InterruptedError):
            self.ids = before


@pytest.mark.parametrize("seed", range(6))
def test_tally_is_right_after_any_sequence(tmp_path: Path, seed: int) -> None:
    """Counts, XOR, seals, blocks and frozen marks hold after 150 random steps, some of them taken back."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box:
        walk = Walk(box, seed)
        for _ in range(150):
            walk.step()
        report = maintenance.check(box.catalog)
        with box.catalog.read() as c:
            records = list(roots.find_records(c, box.sealer, box.root.id))
            held = {
                finding.path
                for finding in findings.find_findings(c, root_id=box.root.id)
                if finding.kind is FindingKind.ROT
            }

    assert report.complaints == ()
    assert report.damaged_runs == ()
    assert [check.is_right for _, check in report.tallies] == [True]
    assert report.orphan_runs == 0
    assert [record.id for record in records] == sorted(walk.ids)
    assert {record.path for record in records if record.is_frozen} == held


def test_path_is_put_together_from_folder_and_name() -> None:
    """Files in the root itself have no slash before their name."""
    assert (join_path(b"", b"a"), join_path(b"a/b", b"c")) == (b"a", b"a/b/c")
