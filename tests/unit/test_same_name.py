"""The same name: which known name another spelling means."""

from __future__ import annotations

import unicodedata

import pytest

from integrity.same_name import OtherSpellings, SameNames, SamePaths

COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "Käse é.jpg").encode() for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("known", "name", "expected"),
    [
        ([b"a"], b"a", b"a"),
        ([b"a"], b"b", None),
        ([COMPOSED], DECOMPOSED, COMPOSED),
        ([DECOMPOSED], COMPOSED, DECOMPOSED),
        ([COMPOSED, DECOMPOSED], DECOMPOSED, DECOMPOSED),
        ([COMPOSED, DECOMPOSED], COMPOSED, COMPOSED),
        ([b"A.JPG"], b"a.jpg", None),
        ([b"bad\xff"], b"bad\xff", b"bad\xff"),
        ([b"bad\xff"], b"bad\xfe", None),
    ],
)
def test_exact_name_comes_first_and_another_unicode_form_second(
    known: list[bytes], name: bytes, expected: bytes | None
) -> None:
    """Bytes that are known are that name; letter case is told apart unless one side ignores it."""
    assert expected == SameNames(known).find(name)


@pytest.mark.parametrize(
    ("known", "name", "expected"),
    [
        ([b"A.JPG"], b"a.jpg", b"A.JPG"),
        ([b"A.JPG", b"a.jpg"], b"a.jpg", b"a.jpg"),
        ([b"A.JPG", b"a.jpg"], b"A.jpg", None),
        ([COMPOSED.upper(), COMPOSED], DECOMPOSED, COMPOSED),
        (
            [unicodedata.normalize("NFD", "KÄSE").encode()],
            "käse".encode(),
            unicodedata.normalize("NFD", "KÄSE").encode(),
        ),
        (["straße".encode()], b"STRASSE", "straße".encode()),
    ],
)
def test_letter_case_is_ignored_where_a_side_ignores_it(
    known: list[bytes], name: bytes, expected: bytes | None
) -> None:
    """Only if exactly one known name is meant; a name that differs in its Unicode form alone comes before."""
    assert expected == SameNames(known, ignores_case=True).find(name)


def find_in(
    files: list[bytes], path: bytes, *, ignores_case: bool = True, has_backslashes: bool = True
) -> bytes | None:
    """Find a path among files."""

    def list_names(folder: bytes) -> set[bytes]:
        start = folder.rstrip(b"/") + b"/" if folder else b""
        return {file[len(start) :].split(b"/")[0] for file in files if file.startswith(start)}

    return SamePaths(list_names, ignores_case=ignores_case, has_backslashes=has_backslashes).find(path)


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        ([b"sub/b.bin"], rb"sub\b.bin", b"sub/b.bin"),
        ([b"sub/b.bin"], rb".\Sub\B.bin", b"sub/b.bin"),
        ([rb"sub\b.bin", b"sub/b.bin"], rb"sub\b.bin", rb"sub\b.bin"),
        ([rb"sub\b.bin"], b"sub/b.bin", None),
        ([b"./x", b"sub/b"], b"./sub//b", b"sub/b"),
        ([COMPOSED + b"/" + COMPOSED], DECOMPOSED + b"/" + DECOMPOSED, COMPOSED + b"/" + COMPOSED),
        ([b"A/x", b"a/y"], b"a/x", None),
        ([b"/srv/A"], b"/srv/a", b"/srv/A"),
        ([], b"a", None),
        ([b"a"], b"", None),
    ],
)
def test_paths_are_found_folder_by_folder(files: list[bytes], path: bytes, expected: bytes | None) -> None:
    """A backslash stands between folders only where no name with it is known."""
    assert expected == find_in(files, path)


def test_backslash_is_a_letter_elsewhere() -> None:
    """Linux has files with a backslash in their names, so only lists are read otherwise."""
    assert find_in([b"sub/b"], rb"sub\b", has_backslashes=False) is None


def test_other_spellings_are_said_once() -> None:
    """One sentence, however many there are."""
    spelled = OtherSpellings()

    assert [] == list(spelled.describe())
    spelled.add(b"A", b"a")
    spelled.add(b"B", b"b")
    assert ["2 names in it are spelled otherwise than the files, such as A, which is a"] == list(spelled.describe())
