import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from integrity.errors import ConfigError
from integrity.files.excludes import BUILTIN, Excludes, _translate_pattern


@pytest.mark.parametrize(
    ("patterns", "path", "is_covered"),
    [
        (["*.tmp"], b"a.tmp", True),
        (["logs/*", "!logs/keep.log"], b"logs/keep.log", False),
        (["\\#recycle"], b"#recycle/a", True),
        (["\\!a"], b"!a", True),
        (["a?c"], b"abc", True),
        (["[a-c]x"], b"bx", True),
        (["*.tmp"], b"a.tmp\n", False),
        (["b.txt"], b"line\nfeed/b.txt", True),
        (["line*"], b"line\nfeed", True),
        (["\udcff*"], b"\xffname", True),
        (["\u00e9"], "é".encode(), True),
        (["*.jpg"], b"\xff\xfe.jpg", True),
    ],
)
def test_patterns_mean_what_they_mean_to_git(patterns: list[str], path: bytes, is_covered: bool) -> None:
    """A pattern is understood as in gitignore(5), names of any bytes included."""
    excludes = Excludes(patterns, builtin=False)

    assert excludes.covers(path) == is_covered


NAMES = ["a", "b", "ab", "a.b"]
SEGMENTS = st.sampled_from([*NAMES, "*", "**", "?", "a*", "*b", "[ab]", "[!b]"])
PATTERNS = st.builds(
    lambda bang, lead, segments, tail: bang + lead + "/".join(segments) + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(SEGMENTS, min_size=1, max_size=3),
    st.sampled_from(["", "", "/"]),
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path_factory.mktemp("tree")
    for first in NAMES:
        for second in NAMES:
            (root / f"d{first}" / second).mkdir(parents=True)
            (root / second / first).mkdir(parents=True, exist_ok=True)
            (root / f"d{first}" / second / "a").touch()
            (root / f"d{first}" / second / "a.b").touch()
            (root / second / first / "b").touch()
            (root / second / first / "ab").touch()
    (root / "f").touch()
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patterns=st.lists(PATTERNS, min_size=1, max_size=4))
def test_any_patterns_leave_out_what_git_leaves_out(tree: Path, patterns: list[str]) -> None:
    """Whatever the patterns, the files of a tree that remain are those that git lists."""
    (tree / ".git" / "patterns").write_text("\n".join(patterns) + "\n")
    listed = subprocess.run(
        ["git", "ls-files", "-o", "-z", "-X", ".git/patterns"], cwd=tree, check=True, capture_output=True
    ).stdout
    files = [
        os.path.relpath(os.path.join(folder, name), os.fsencode(tree))
        for folder, _, names in os.walk(os.fsencode(tree))
        for name in names
        if not folder.startswith(os.fsencode(tree / ".git"))
    ]
    excludes = Excludes(patterns, builtin=False)

    assert {path for path in files if not excludes.covers(path)} == set(listed.split(b"\0")) - {b""}


@pytest.mark.parametrize(
    "pattern", ["", "  ", "#recycle", "/", "a[b", "[z-a]", "trailing\\", "[[:alpha:]]", "a\nb", "a\0b", "!"]
)
def test_pattern_that_can_not_work_is_refused_with_its_text(pattern: str) -> None:
    """A pattern that git would ignore silently is an error that shows it: somebody meant something by it."""
    with pytest.raises(ConfigError) as caught:
        Excludes([pattern])

    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize(
    ("path", "is_covered"),
    [
        (b"photos/@eaDir/a.jpg@SynoEAStream", True),
        (b"#recycle/a", True),
        (b".snapshots/12/snapshot/a", True),
        (b"lost+found/#123", True),
        (b"lost+found", False),
        (b"Thumbs.db", True),
        (b".Trash-1000/files/a", True),
        (b".Trash-note.txt", False),
        (b"sub/.nfs00000000000a1b2c00000001", True),
        (b".photo.jpg.integrity-20260101", True),
        (b".stversions/a", False),
        (b"a.tmp", False),
        (b".hidden", False),
    ],
)
def test_builtin_list_leaves_out_what_boxes_make_for_themselves(path: bytes, is_covered: bool) -> None:
    """Thumbnails, waste baskets and snapshots are left out, what a person may have put there is not."""
    assert Excludes().covers(path) == is_covered
    assert not Excludes(builtin=False).covers(path)


def test_builtin_list_as_shown_means_what_the_built_in_list_does() -> None:
    """The list that people are shown, given as patterns, leaves out the same names."""
    shown = Excludes(BUILTIN, builtin=False)
    names = [pattern.rstrip("/").replace("\\", "").replace("*", "x").encode() for pattern in BUILTIN]

    for name in [*names, b".", b".x", b"x", b".nfs1", b".Trash", b".x\n.integrity-\n1"]:
        for is_folder in (False, True):
            assert shown.matches(name, name, is_folder) == Excludes().matches(name, name, is_folder), name


def test_negated_pattern_brings_a_builtin_name_back() -> None:
    """The user's patterns come after the built-in list and can take names out of it."""
    assert not Excludes(["!\\#recycle/"]).covers(b"#recycle/a")


@pytest.mark.parametrize("name", [b".a.jpg.integrity-0123456789abcdef", b".a.jpg.integrity-0123456789abcdef.new"])
def test_what_a_repair_made_or_kept_is_left_out_whatever_the_patterns_say(name: bytes) -> None:
    """Neither a root without the built-in list nor a pattern of its user's brings it back; folders are none of it."""
    for excludes in (Excludes(), Excludes(builtin=False), Excludes(["!*", "!.*"], builtin=False)):
        assert excludes.covers(b"photos/" + name)
        assert excludes.may_match(b"a.jpg\0" + name)
    assert not Excludes(builtin=False).covers(name, is_folder=True)
    assert not Excludes(builtin=False).covers(b".a.jpg.integrity-0123456789abcde")
    assert not Excludes(builtin=False, kept=False).covers(name)


PIECES = ("a", "b", "*", "?", "/", "**/", "/**/", "[ab]", "[(]", "(", ".", "*a")


@given(
    pattern=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join),
    path=st.lists(st.text("aab(.", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join),
)
@settings(max_examples=500)
def test_bounded_expression_matches_what_that_of_pathspec_does(pattern: str, path: str) -> None:
    """Giving up backtracking changes no verdict."""
    try:
        bounded = Excludes([pattern], builtin=False, kept=False)
        plain = GitIgnoreSpec.from_lines([_translate_pattern(pattern)], backend="simple").patterns[0]
    except (ConfigError, IndexError):
        return
    assert plain.regex is not None
    expected = plain.regex.fullmatch(path) is not None and bool(plain.include)

    assert expected == bounded.matches(path.encode(), path.encode().rpartition(b"/")[2], False)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 30 + "*b", "a" * 250 + "bc"),
        ("a" + "*" * 60 + "b", "a" * 250 + "bc"),
        ("*?" * 30 + "*b", "a" * 250 + "bc"),
        ("a/**/" * 30 + "b", "/".join("a" * 500) + "/b/c"),
        ("**/a*a/" * 30 + "b", "/".join(["aa"] * 500) + "/b/c"),
    ],
)
def test_pattern_with_many_wildcards_is_tested_in_no_time(pattern: str, path: str) -> None:
    """The time does not grow with a power of the number of wildcards: this would take longer than there are tests."""
    began_at = time.thread_time()
    assert not Excludes([pattern]).matches(path.encode(), path.encode().rpartition(b"/")[2], False)
    assert time.thread_time() - began_at < 5
