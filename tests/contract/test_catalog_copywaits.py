"""How long files have waited to be compared with a copy."""

from __future__ import annotations

from integrity.arbitration import CopyVote
from integrity.catalog import copies
from integrity.catalog.copies import CopyRecord, CopyState, CopyWaits, find_waits
from integrity.catalog.files import page_files
from integrity.files.excludes import Excludes
from integrity.model import FileId
from support.catalogs import DAY_S, NOW, CatalogBox

MONTH_S = 30 * DAY_S


def ensure(box: CatalogBox, *, prefix: bytes = b"", now: int = NOW) -> CopyRecord:
    with box.catalog.transaction() as c:
        return copies.ensure_copy(c, box.root.id, prefix, "nightly", "/mnt/backup", None, now=now)


def compare(box: CatalogBox, copy: CopyRecord, file_id: FileId, at: int, *, version: int = 1) -> None:
    with box.catalog.transaction() as c:
        copies.save_states(c, copy.id, [CopyState(file_id, version, CopyVote.SAME, at, None)])


def test_what_a_backup_leaves_out_is_not_waited_for(box: CatalogBox) -> None:
    """Unless it has it all the same, and was compared; patterns begin at the folder that is copied."""
    for name in (b"sub/kept", b"sub/cache/a", b"sub/cache/b", b"sub/deep/cache/c"):
        box.record(name, now=NOW)
    with box.catalog.read() as c:
        (compared, _, _) = next(one for one in page_files(c, box.root.id) if one[1] == b"sub/cache/a")
    copy = ensure(box, prefix=b"sub")
    left_out = Excludes(["/cache/"], builtin=False)
    with box.catalog.read() as c:
        found = find_waits(c, copy, now=NOW + 40 * DAY_S, verify_every_s=MONTH_S, left_out=left_out)
    assert CopyWaits(2, 0, 0, 0, 0, None, NOW, 2) == found

    compare(box, copy, compared, NOW + 5 * DAY_S)
    with box.catalog.read() as c:
        found = find_waits(c, copy, now=NOW + 40 * DAY_S, verify_every_s=MONTH_S, left_out=left_out)
        nothing = find_waits(c, copy, now=NOW, verify_every_s=MONTH_S, left_out=Excludes(["*"], builtin=False))
    assert CopyWaits(3, 1, 1, 0, 0, NOW + 5 * DAY_S, NOW, 3) == found
    assert 1 == nothing.files
