"""Files in the order of their folders and names, and which manifest an import took its digests from."""

from __future__ import annotations

from integrity.catalog import own_checks, parity, root_meta
from integrity.catalog.baselines import record_files
from integrity.catalog.files import find_file, find_in_order
from integrity.catalog.roots import remove_root
from integrity.catalog.rows import split_path
from integrity.model import BaselineReason, FileId, Readings
from support.catalogs import NOW, CatalogBox, make_reading
from support.statements import traced


def test_files_in_order_are_read_from_the_indexes(box: CatalogBox) -> None:
    """The order of folders and names needs no sorting."""
    box.record_all({b"f%d/x" % number: make_reading(number) for number in range(300)})
    told: list[str] = []
    with box.catalog.read() as c:
        with traced(box.catalog, told.append):
            assert [one.path for one in find_in_order(c, box.root.id, b"f1")] == [b"f1/x"]
            assert len(list(find_in_order(c, box.root.id))) == 300
        plans = [row[3] for sql in told for row in c.rows(f"EXPLAIN QUERY PLAN {sql}", *[0] * sql.count("?"))]

    assert plans
    assert not [plan for plan in plans if "TEMP B-TREE" in plan or plan.startswith("SCAN")]


def test_what_no_set_covers_is_found_behind_the_page_before(box: CatalogBox) -> None:
    """A page of a folder with a million files reads none of those before it again."""
    paths = [b"d/%s" % name for name in (b"e-f/a", b"f", b"f-g/a", b"f/1", b"f/2", b"f/3", b"f/g/1", b"f0/a")]
    box.record_all({path: make_reading(path) for path in paths})
    told: list[str] = []
    with box.catalog.read() as c:
        for prefix, expected in ((b"", sorted(paths, key=split_path)), (b"d/f", [paths[1], *paths[3:7]])):
            found = parity.page_candidates(c, box.root.id, prefix, None, rested_at=None, leaving=())
            assert [one.path for one in found] == expected
            with traced(box.catalog, told.append):
                rest = parity.page_candidates(c, box.root.id, prefix, found[1], rested_at=None, leaving=())
            assert found[2:] == rest
        plans = [row[3] for sql in told for row in c.rows(f"EXPLAIN QUERY PLAN {sql}", *[0] * sql.count("?"))]

    assert 2 == sum("SEARCH file USING INDEX" in plan and "folder_id=? AND name>?" in plan for plan in plans)
    assert not [plan for plan in plans if "TEMP B-TREE" in plan]


def test_what_was_not_checked_of_a_large_part_is_not_sorted_for_each_page(box: CatalogBox) -> None:
    """A page of a large folder reads on behind the last one."""
    (first,) = box.record_all({b"f/1": make_reading(1)})
    told: list[str] = []
    with box.catalog.transaction() as c:
        columns = "SELECT name FROM pragma_table_info('file') WHERE name NOT IN ('id', 'name')"
        same = ", ".join(c.column(columns))
        query = f"""
            WITH RECURSIVE more AS (SELECT 1000 AS number UNION ALL SELECT number + 1 FROM more WHERE number < 51000)
            INSERT INTO file (id, name, {same})
            SELECT number, CAST('n' || number AS BLOB), {same} FROM file JOIN more WHERE id = ?"""
        c.run(query, first)
        with traced(box.catalog, told.append):
            page = own_checks.find_unchecked(c, box.root.id, b"f", FileId(1999), limit=10, has_libraries=False)
        plans = [row[3] for sql in told for row in c.rows(f"EXPLAIN QUERY PLAN {sql}", *[0] * sql.count("?"))]

    assert [*range(2000, 2010)] == [record.id for record, _ in page]
    assert not [plan for plan in plans if "TEMP B-TREE" in plan]


def test_imported_files_know_their_manifest(box: CatalogBox) -> None:
    """Each file belongs to the import that recorded it, whatever was recorded in between."""
    ids: dict[bytes, FileId] = {}
    for name, manifest in ((b"a", "one.md5"), (b"b", None), (b"c", "two.md5")):
        with box.catalog.transaction() as c:
            reading = Readings.of([make_reading(name)])
            because = BaselineReason.IMPORTED if manifest else BaselineReason.RECORDED
            (ids[name],) = record_files(*(c, box.root, [name], reading), now=NOW, boot_id=box.boot_id, because=because)
            if manifest:
                root_meta.keep_import(c, box.root.id, ids[name], manifest)

    with box.catalog.read() as c:
        record = find_file(c, box.root.id, b"a")
        assert record is not None
        assert BaselineReason.IMPORTED == record.reason
        assert "one.md5" == root_meta.find_import(c, box.root.id, ids[b"a"])
        assert "two.md5" == root_meta.find_import(c, box.root.id, ids[b"c"])
    with box.catalog.transaction() as c:
        remove_root(c, box.root.id)
        assert root_meta.find_import(c, box.root.id, ids[b"c"]) is None
