"""Where a shared tree is cut, and which of its names belong to which shard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.files.excludes import Excludes, ScopeExcludes, TreeScope, find_parents
from integrity.hub.shards.visits import cut
from integrity.jobs.shards.messages import NOTHING, FolderSize, Size, add_up, restrict, summarize
from support.shard_scopes import find_left_out, find_scope

LIMIT = Size(10, 1000)

_names = st.sampled_from([b"a", b"b", b"c", b"d"])
_paths = st.lists(_names, max_size=4).map(b"/".join)
_sizes = st.builds(Size, st.integers(0, 14), st.integers(0, 1400))
_trees = st.dictionaries(_paths, _sizes, max_size=30).map(
    lambda tree: {
        **{parent: NOTHING for path in tree for parent in find_parents(path)},
        b"": NOTHING,
        **tree,
    }
)


def _shards_of(shards: list[list[bytes]], folder: bytes) -> list[int]:
    return [number for number in range(len(shards)) if find_scope(shards, number).covers(folder)]


@given(_trees)
def test_each_folder_belongs_to_one_shard(tree: dict[bytes, Size]) -> None:
    """Every folder of a tree, and every folder that is made in it later, belongs to exactly one shard (C1)."""
    shards = cut([FolderSize(*one) for one in tree.items()], [b""], LIMIT)

    for folder in [*tree, b"new", b"a/new", b"a/b/c/new/er"]:
        assert 1 == len(_shards_of(shards, folder))


@given(_trees)
def test_shards_fit_unless_one_folder_is_more(tree: dict[bytes, Size]) -> None:
    """A shard is larger than the limit only if the files of a single folder are (C2)."""
    shards = cut([FolderSize(*one) for one in tree.items()], [b""], LIMIT)

    for number in range(len(shards)):
        scope = find_scope(shards, number)
        sizes = [size for path, size in tree.items() if scope.covers(path) and size != NOTHING]
        assert sum(sizes, NOTHING).fits(LIMIT) or any(not size.fits(LIMIT) for size in sizes)


@given(_trees)
def test_first_shard_has_the_top(tree: dict[bytes, Size]) -> None:
    """The first shard begins at the top of the tree, so it finds new folders there (C3)."""
    shards = cut([FolderSize(*one) for one in tree.items()], [b""], LIMIT)

    assert b"" in shards[0]


@pytest.mark.long
@given(_trees, _trees)
def test_shards_that_grew_are_cut_within_themselves(tree: dict[bytes, Size], more: dict[bytes, Size]) -> None:
    """Cutting a shard again gives its folders to new shards and leaves those of other shards alone."""
    shards = cut([FolderSize(*one) for one in tree.items()], [b""], LIMIT)
    grown = {path: size + more.get(path, NOTHING) for path, size in (more | tree).items()}
    for number in range(len(shards)):
        scope = find_scope(shards, number)
        inside = restrict([FolderSize(*one) for one in grown.items()], scope)
        parts = cut(inside, scope.folders, LIMIT)
        after = [*shards[:number], parts[0], *shards[number + 1 :], *parts[1:]]

        for folder in [*grown, b"new", b"a/b/new"]:
            before, now = _shards_of(shards, folder), _shards_of(after, folder)
            assert 1 == len(now)
            assert before == now or (before == [number] and now[0] >= len(shards))


@given(_trees)
def test_summary_of_a_survey_loses_nothing(tree: dict[bytes, Size]) -> None:
    """The folders of a summary add up to the whole tree."""
    summary = summarize((FolderSize(*one) for one in tree.items()), LIMIT)

    assert add_up(tree)[b""] == add_up(dict(summary))[b""]


def test_summary_names_only_what_a_cut_may_separate() -> None:
    """Folders inside a folder that fits into a shard are counted with it."""
    tree = {
        b"": NOTHING,
        b"a": Size(1, 1),
        b"a/x": Size(8, 8),
        b"b": Size(2, 2),
        b"b/y": Size(9, 9),
        b"b/y/z": Size(1, 1),
    }

    assert [
        FolderSize(b"", NOTHING),
        FolderSize(b"a", Size(9, 9)),
        FolderSize(b"b", Size(2, 2)),
        FolderSize(b"b/y", Size(10, 10)),
    ] == summarize((FolderSize(*one) for one in tree.items()), LIMIT)


def test_left_out_are_the_next_folders_of_others() -> None:
    """A shard leaves out the folders of other shards that lie directly in its own; deeper ones are theirs to leave."""
    assert {b"a/b"} == find_left_out([b"a"], [b"a/b", b"a/b/c", b"d"])


def test_scope_excludes_lead_to_its_folders_only() -> None:
    """Folders above a shard's are walked, but their files and other folders are excluded."""
    excludes = ScopeExcludes(Excludes(["*.tmp"]), TreeScope([b"a/b", b"a/b/x/y"], [b"a/b/x"]))

    assert not excludes.covers(b"a/b/file")
    assert not excludes.covers(b"a/b/new/file")
    assert not excludes.covers(b"a/b/x/y/file")
    assert excludes.covers(b"a/b/x/file")
    assert excludes.covers(b"a/b/x/other/file")
    assert excludes.covers(b"a/file")
    assert excludes.covers(b"file")
    assert excludes.covers(b"c/file")
    assert excludes.covers(b"a/b/x.tmp")


@given(_trees, _paths)
def test_scope_and_excludes_agree(tree: dict[bytes, Size], folder: bytes) -> None:
    """A walk with the excludes of a scope meets exactly the files that the scope covers."""
    shards = cut([FolderSize(*one) for one in tree.items()], [b""], LIMIT)
    path = folder + b"/file" if folder else b"file"
    for number in range(len(shards)):
        scope = find_scope(shards, number)

        assert scope.covers_name(path) is not ScopeExcludes(Excludes(), scope).covers(path)
