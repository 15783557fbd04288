import os
import unicodedata
from pathlib import Path

import pytest

from integrity.files.spelling import Spelling, find_variants, fold_name
from support.reading import opened_root
from support.shapes import put


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("IMG_1.JPG", "img_1.jpg"),
        ("Ünder.txt", "ünder.TXT"),
        (unicodedata.normalize("NFC", "é/Ö.txt"), unicodedata.normalize("NFD", "É/ö.TXT")),
        ("straße", "STRASSE"),
    ],
)
def test_spellings_of_one_name(one: str, other: str) -> None:
    """Letter case and Unicode form do not matter."""
    assert fold_name(os.fsencode(one)) == fold_name(os.fsencode(other))


@pytest.mark.parametrize("name", [b"\xff\xfeA", b"\xc3", b"a\nb", b""])
def test_names_of_any_bytes_are_folded(name: bytes) -> None:
    """What is no UTF-8 stays what it is, letter case aside (R10)."""
    assert fold_name(name) == fold_name(name.swapcase())
    assert name not in find_variants(name)


def test_path_as_the_listings_spell_it(tmp_path: Path) -> None:
    """Each step is looked up; names that differ in case only are not mistaken for one another."""
    (tmp_path / "Trip" / "Day").mkdir(parents=True)
    for name in ("a.txt", "B.txt", "b.TXT"):
        put(tmp_path / "Trip" / "Day" / name)
    with opened_root(tmp_path) as fd:
        spelling = Spelling(fd)

        assert b"Trip/Day/a.txt" == spelling.find(b"Trip/Day/a.txt") == spelling.find(b"trip/DAY/A.TXT")
        assert b"Trip/Day/B.txt" == spelling.find(b"Trip/Day/B.txt")
        assert spelling.find(b"Trip/Day/b.txt") is None
        assert spelling.find(b"Trip/other") is None
        assert spelling.is_exact(b"Trip/Day/b.TXT")
        assert not spelling.is_exact(b"trip/Day/a.txt")
