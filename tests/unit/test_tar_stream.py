"""Archives that ``tarfile`` writes are read member by member; what is cut short or damaged is never taken for whole."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.copies.tar_stream import BrokenTar, TarStream

FORMATS = [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT]
Plan = Sequence[tuple[str, bytes | str | None]]

names = st.lists(st.text("ab\u00e9\u4e16 .-", min_size=1, max_size=90), min_size=1, max_size=5).map("/".join)


def write(plan: Plan, form: int) -> bytes:
    """Write files (bytes), hard links (the path of another), and folders (None)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, content in plan:
            member = tarfile.TarInfo(name)
            member.mtime = 1_700_000_000.123456789  # type: ignore[assignment] # pax keeps fractions
            if content is None:
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.LNKTYPE, content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def read(data: bytes, piece: int = 1 << 20) -> list[tuple[str, bytes | str | None]]:
    """Read all members, a few bytes at a time."""
    file, found = io.BytesIO(data), list[tuple[str, bytes | str | None]]()
    stream = TarStream(lambda length: file.read(min(length, piece)))
    while (member := stream.next()) is not None:
        name = member.path.decode()
        if member.link_to:
            found.append((name, member.link_to.decode()))
        elif member.is_file:
            found.append((name, b"".join(iter(lambda: stream.read(700), b""))))
        else:
            found.append((name, None))
    return found


@pytest.mark.parametrize("form", FORMATS[:2])
@given(
    plan=st.lists(st.tuples(names, st.one_of(st.binary(max_size=2000), names, st.none())), max_size=6),
    piece=st.integers(1, 3000),
)
def test_what_tarfile_writes_is_read(form: int, plan: Plan, piece: int) -> None:
    """Long names, names of other scripts, empty files, links, and pieces of any size."""
    expected = [(name.rstrip("/") + ("/" if content is None else ""), content) for name, content in plan]
    got = read(write(plan, form), piece)
    assert [(name.rstrip("/"), content) for name, content in expected] == [(name.rstrip("/"), one) for name, one in got]


def test_name_of_an_old_archive_is_joined() -> None:
    """The form ustar cuts a name in two."""
    name = "folder/" * 20 + "file"
    assert [(name, b"x")] == read(write([(name, b"x")], tarfile.USTAR_FORMAT))


def test_member_that_nobody_reads_is_passed_over() -> None:
    """The next one begins where it should."""
    data = write([("a", b"1" * 1000), ("b", b"2")], tarfile.PAX_FORMAT)
    stream = TarStream(io.BytesIO(data).read)
    stream.next()
    stream.read(10)
    member = stream.next()
    assert member is not None
    assert (b"b", b"2") == (member.path, stream.read(100))


def test_size_beyond_octal_digits() -> None:
    """GNU writes it in base 256, pax in a record."""
    for form in FORMATS[:2]:
        member = tarfile.TarInfo("large")
        member.size = 1 << 40
        found = TarStream(io.BytesIO(member.tobuf(form)).read).next()
        assert found is not None
        assert 1 << 40 == found.size_bytes


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.data())
def test_archive_that_is_cut_short_is_broken(form: int, data: st.DataObject) -> None:
    """Wherever it ends, no member is taken for whole that is not, and the end is not taken for the end of it."""
    plan: Plan = [("a", b"1" * 700), ("b" * 90, b"2" * 512), ("c", b"")]
    whole = write(plan, form)
    length = data.draw(st.integers(0, len(whole.rstrip(b"\0"))))
    with pytest.raises(BrokenTar):
        read(whole[:length])


@given(data=st.binary(min_size=1, max_size=3000))
def test_any_bytes_end_in_a_plain_error(data: bytes) -> None:
    """What is no archive is not read as one."""
    try:
        read(b"\1" + data)
    except (BrokenTar, UnicodeDecodeError):
        return
    raise AssertionError("it was read")
