"""
Store the digest trees and the files of members, and find what differs from what a box has.

T1  The rows of a folder change as a whole, with its digests, when its last part is there (H3). Parts of a folder that
    is not complete lie in ``file_part``.
T2  A tree is settled only if each of its digests follows from the rows: those of files are compared when they are
    stored, those of subtrees are computed when the tree is settled, where something changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import sqlalchemy as sa

from integrity.errors import CallRefused, ProtocolError
from integrity.files.excludes import find_parents
from integrity.hub.database import HubDatabase, add_new, chunked, load_files, replace_rows
from integrity.hub.reported import ComparedFolder, SentFolder, parent_of, refuse_digest
from integrity.hub.schema import file, file_part, folder, member, member_folder
from integrity.hub.stored_files import (
    StoredKey,
    TreeMember,
    find_stored,
    keep_gone,
    replace_files,
    replace_folders,
    take_parts,
)
from integrity.reporting.digest_tree import (
    BucketDigests,
    ReportedFile,
    choose_bits,
    digest_files,
    digest_subtree,
)

_DIGESTED_AT_ONCE = 20_000


class Differences(NamedTuple):
    """Indexes of the compared folders whose own files, and of those whose subtrees, the hub does not have."""

    own: list[int]
    below: list[int]


def get_tree_member(c: sa.Connection, box_id: int, root_id: int, *, locks: bool = False) -> TreeMember:
    """Return the member of a root. CallRefused: the box did not report the root, or it is in no set."""
    mine = member.c.box_id == box_id, member.c.root_id == root_id
    is_reported = member.c.set_id.is_not(None), member.c.removed_at.is_(None)
    query = sa.select(member.c.id, member.c.set_id).where(*mine, *is_reported)
    row = c.execute(query.with_for_update() if locks else query).first()
    if row is None:
        raise CallRefused(404, "unknown_root", "the root is not in a replica set, as the last heartbeat says")
    return TreeMember(*row)


def compare(c: sa.Connection, tree: TreeMember, asked: Sequence[ComparedFolder]) -> Differences:
    stored = {}
    for chunk in chunked({one.path for one in asked}):
        query = sa.select(folder.c.path, member_folder.c.own, member_folder.c.subtree).join_from(folder, member_folder)
        where = (folder.c.set_id == tree.set_id, member_folder.c.member_id == tree.id, folder.c.path.in_(chunk))
        stored.update({path: (own, subtree) for path, own, subtree in c.execute(query.where(*where))})
    pairs = [(one, stored.get(one.path, (b"", b""))) for one in asked]
    return Differences(
        [index for index, (one, (own, _)) in enumerate(pairs) if one.own != own],
        [index for index, (one, (_, subtree)) in enumerate(pairs) if one.subtree != subtree],
    )


def store_folders(database: HubDatabase, box_id: int, root_id: int, sent: Sequence[SentFolder], now: int) -> int:
    """
    Store folders, and parts of folders; return how many are complete now.

    Raises:
        ProtocolError: a part does not continue those before it.
        CallRefused: there is no such member; or a folder of several calls has other digests than its files. Nothing of
            this call is stored.
    """
    # In a transaction of its own: other members of the set insert the same folders, and must not wait for the files.
    with database.transaction() as c:
        _add_folders(c, get_tree_member(c, box_id, root_id), sent)
    with database.transaction() as c:
        return _store(c, get_tree_member(c, box_id, root_id, locks=True), sent, now)


def _add_folders(c: sa.Connection, tree: TreeMember, sent: Iterable[SentFolder]) -> None:
    paths = _find_paths(sent)
    # Sorted, so that two members who insert the same can't wait for each other in a circle.
    new = sorted(paths - _find_folders(c, tree, paths).keys())
    add_new(c, folder, [{"set_id": tree.set_id, "path": path} for path in new])


def _find_paths(sent: Iterable[SentFolder]) -> set[bytes]:
    return {path for each in sent for path in (each.path, parent_of(each.path)) if path is not None}


def _find_folders(c: sa.Connection, tree: TreeMember, paths: Collection[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for chunk in chunked(paths):
        query = sa.select(folder.c.path, folder.c.id).where(folder.c.set_id == tree.set_id, folder.c.path.in_(chunk))
        found.update((path, number) for path, number in c.execute(query))
    return found


def _store(c: sa.Connection, tree: TreeMember, sent: Sequence[SentFolder], now: int) -> int:
    paths = _find_paths(sent)
    ids = _find_folders(c, tree, paths)
    if len(ids) < len(paths):
        raise refuse_digest("a folder was forgotten before its files were stored")
    whole = [each for each in sent if each.is_whole]
    _require_same_files(c, tree, {ids[each.path]: each.own for each in sent if not each.has_files})
    for each in sent:
        if each.buckets is not None:
            _replace_buckets(c, tree, ids[each.path], each, now)
        elif each.has_files and not each.is_in_one_call:
            _store_part(c, tree, ids[each.path], each)
    if not whole:
        return 0
    _remove_folders(c, tree, ids, whole, now)
    replace_folders(c, tree, {ids[each.path]: each.files for each in whole if each.is_in_one_call}, now)
    for each in whole:
        if not each.is_begun:
            _take_parts(c, tree, ids[each.path], each, now)
    rows = [
        {
            "member_id": tree.id,
            "folder_id": ids[each.path],
            "parent_id": None if (parent := parent_of(each.path)) is None else ids[parent],
            "own": each.own,
            "content": each.content,
            "subtree": each.subtree,
            "is_checked": 0,
        }
        for each in whole
    ]
    replace_rows(c, member_folder, rows)
    _mark_unchecked(c, tree, {path for each in whole for path in find_parents(each.path)})
    c.execute(sa.update(member).where(member.c.id == tree.id).values(settled_tree=None))
    return len(whole)


def _require_same_files(c: sa.Connection, tree: TreeMember, expected: dict[int, bytes]) -> None:
    """Require that the stored files of folders are those that the box has, since it sent none."""
    for chunk in chunked(expected):
        query = sa.select(member_folder.c.folder_id, member_folder.c.own)
        found = c.execute(query.where(member_folder.c.member_id == tree.id, member_folder.c.folder_id.in_(chunk)))
        stored = {row.folder_id: row.own for row in found}
        if any(stored.get(folder_id) != expected[folder_id] for folder_id in chunk):
            raise refuse_digest("a folder that came without its files has others here")


def _store_part(c: sa.Connection, tree: TreeMember, folder_id: int, sent: SentFolder) -> None:
    """Add the files of an incomplete folder to its parts (T1)."""
    where = (file_part.c.member_id == tree.id, file_part.c.folder_id == folder_id)
    if sent.is_begun:
        c.execute(sa.delete(file_part).where(*where))
    else:
        # Not max(): PostgreSQL has none for bytes.
        last = c.execute(sa.select(file_part.c.name).where(*where).order_by(file_part.c.name.desc()).limit(1)).scalar()
        if last is None or (sent.files and sent.files[0].name <= last):
            raise ProtocolError("folders: a part does not continue those that came before; begin with the first one")
    load_files(c, file_part, ((tree.id, folder_id, *entry) for entry in sent.files))


def _replace_buckets(c: sa.Connection, tree: TreeMember, folder_id: int, sent: SentFolder, now: int) -> None:
    """Replace the files of some buckets, if all files have the digests of the folder then."""
    old: dict[StoredKey, ReportedFile] = {}

    def find_others() -> Iterator[ReportedFile]:
        for _, one in find_stored(c, tree.id, file.c.folder_id == folder_id):
            if sent.buckets is not None and sent.buckets.has(one.name):
                old[folder_id, one.name] = one
            else:
                yield one

    sent.check(digest_files(merge(find_others(), sent.files)))
    replace_files(c, tree, old, {(folder_id, one.name): one for one in sent.files}, now)


def digest_buckets(c: sa.Connection, tree: TreeMember, path: bytes) -> bytes:
    """Return the digests of the buckets of a folder's stored files; empty if there are none."""
    for folder_id in _find_folders(c, tree, [path]).values():
        where = file.c.member_id == tree.id, file.c.folder_id == folder_id
        count = c.execute(sa.select(sa.func.count()).select_from(file).where(*where)).scalar_one()
        digests = BucketDigests(choose_bits(count))
        for _, one in find_stored(c, tree.id, *where):
            digests.add(one)
        return digests.pack() if count else b""
    return b""


def _take_parts(c: sa.Connection, tree: TreeMember, folder_id: int, sent: SentFolder, now: int) -> None:
    """Make the parts of a folder its files, if they have its digests."""
    parts = find_stored(c, tree.id, file_part.c.folder_id == folder_id, table=file_part)
    sent.check(digest_files(one for _, one in parts))
    take_parts(c, tree, folder_id, now)


def _remove_folders(
    c: sa.Connection, tree: TreeMember, ids: dict[bytes, int], whole: Sequence[SentFolder], now: int
) -> None:
    """Remove the folders in some folders that are there no more."""
    named = frozenset(path for each in whole for path in each.folders)
    gone: list[int] = []
    for chunk in chunked(ids[each.path] for each in whole):
        below = sa.select(folder.c.id, folder.c.path).join_from(folder, member_folder)
        found = c.execute(below.where(member_folder.c.member_id == tree.id, member_folder.c.parent_id.in_(chunk)))
        gone += [number for number, path in found if path not in named]
    for chunk in chunked(gone):
        _remove_subtrees(c, tree, chunk, now)


def _remove_subtrees(c: sa.Connection, tree: TreeMember, tops: list[int], now: int) -> None:
    mine = member_folder.c.member_id == tree.id
    removed = sa.select(member_folder.c.folder_id).where(mine, member_folder.c.folder_id.in_(tops)).cte(recursive=True)
    lower = member_folder.alias()
    removed = removed.union(
        sa.select(lower.c.folder_id).where(lower.c.member_id == tree.id, lower.c.parent_id == removed.c.folder_id)
    )
    for chunk in chunked(c.execute(sa.select(removed.c.folder_id)).scalars().all()):
        keep_gone(c, tree.id, tree.set_id, file.c.folder_id.in_(chunk), now)
        for table in (file, file_part, member_folder):
            c.execute(sa.delete(table).where(table.c.member_id == tree.id, table.c.folder_id.in_(chunk)))


def _mark_unchecked(c: sa.Connection, tree: TreeMember, paths: Collection[bytes]) -> None:
    """The digests of these folders' subtrees have to be computed again: something in them changed (T2)."""
    for chunk in chunked(_find_folders(c, tree, paths).values()):
        where = (member_folder.c.member_id == tree.id, member_folder.c.folder_id.in_(chunk))
        c.execute(sa.update(member_folder).where(*where, member_folder.c.is_checked == 1).values(is_checked=0))


def digest_subtrees(c: sa.Connection, tree: TreeMember, *, at_once: int = _DIGESTED_AT_ONCE) -> bool:
    """
    Digest subtrees that changed, from the inside out (T2); return whether there are more.

    Others may write meanwhile: a tree may have a million folders.
    """
    # A path is longer than that of each folder above it, and all above a change are unchecked.
    length = sa.func.length(folder.c.path)
    query = sa.select(folder.c.id, length).join_from(member_folder, folder)
    mine = member_folder.c.member_id == tree.id, member_folder.c.is_checked == 0
    rows = c.execute(query.where(*mine).order_by(length.desc()).limit(at_once)).all()
    for _, some in groupby(rows, itemgetter(1)):
        for chunk in chunked(row.id for row in some):
            _digest_subtrees(c, tree, chunk)
    return len(rows) == at_once


def settle(c: sa.Connection, tree: TreeMember, announced: bytes, now: int) -> bool:
    """
    Record that what is stored is what the box has, if it is: all subtrees were digested (T2). Return whether it is.

    If it is not, the box finds by ``compare`` what it has to send again.
    """
    c.execute(sa.delete(file_part).where(file_part.c.member_id == tree.id))
    top = sa.select(member_folder.c.subtree).join_from(member_folder, folder)
    stored = c.execute(top.where(member_folder.c.member_id == tree.id, folder.c.path == b"")).scalar()
    if stored != announced:
        return False
    c.execute(sa.update(member).where(member.c.id == tree.id).values(settled_tree=announced, settled_at=now))
    return True


def _digest_subtrees(c: sa.Connection, tree: TreeMember, ids: list[int]) -> None:
    """Digest subtrees from what is stored; those in them were digested before."""
    columns = [member_folder.c[name] for name in ("folder_id", "own", "content")]
    where = (member_folder.c.member_id == tree.id, member_folder.c.folder_id.in_(ids))
    children = find_children(c, tree.id, ids)
    rows = c.execute(sa.select(*columns).where(*where)).all()
    digests = [children.get(row.folder_id, NO_FOLDERS).digest(row.own, row.content) for row in rows]
    changed = [
        {"its_id": row.folder_id, "its_subtree": found.subtree, "its_content": found.content}
        for row, found in zip(rows, digests, strict=True)
    ]
    if changed:
        one = (member_folder.c.member_id == tree.id, member_folder.c.folder_id == sa.bindparam("its_id"))
        change = sa.update(member_folder).where(*one).values(is_checked=1, subtree=sa.bindparam("its_subtree"))
        c.execute(change.values(subtree_content=sa.bindparam("its_content")), changed)


class SubtreeDigests(NamedTuple):
    """Digests of a folder and all below it; see the columns of ``schema.member_folder``."""

    subtree: bytes
    content: bytes


class FoldersInside(NamedTuple):
    """The folders in a folder, in the order of their names: name and digests of each."""

    subtrees: list[tuple[bytes, bytes]]
    contents: list[tuple[bytes, bytes]]

    def digest(self, own: bytes, content: bytes) -> SubtreeDigests:
        return SubtreeDigests(digest_subtree(own, self.subtrees), digest_subtree(content, self.contents))


NO_FOLDERS = FoldersInside([], [])


def find_children(c: sa.Connection, member_id: int, ids: list[int]) -> dict[int, FoldersInside]:
    """Return the folders in some folders; one is left out if there are none."""
    columns = member_folder.c.parent_id, folder.c.path, member_folder.c.subtree, member_folder.c.subtree_content
    query = sa.select(*columns).join_from(member_folder, folder)
    where = (member_folder.c.member_id == member_id, member_folder.c.parent_id.in_(ids))
    children: dict[int, FoldersInside] = {}
    for parent_id, path, subtree, content in c.execute(query.where(*where).order_by(folder.c.path)):
        inside = children.setdefault(parent_id, FoldersInside([], []))
        name = path.rpartition(b"/")[2]
        inside.subtrees.append((name, subtree))
        inside.contents.append((name, content or b""))
    return children
