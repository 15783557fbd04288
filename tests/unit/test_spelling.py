from pathlib import Path

import pytest

from integrity.files.spelling import Spelling, find_variants
from integrity.same_name import fold_name
from support.reading import opened_root
from support.shapes import put


@pytest.mark.parametrize("name", [b"\xff\xfeA", b"\xc3", b"a\nb", b"", "Ünder/é.txt".encode()])
def test_variants_of_a_name_are_others(name: bytes) -> None:
    """Names of any bytes have other spellings, or none (R10)."""
    assert name not in find_variants(name)
    assert all(fold_name(one, ignores_case=True) == fold_name(name, ignores_case=True) for one in find_variants(name))


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
