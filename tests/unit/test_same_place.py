import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.same_place import (
    explain_unrecognised,
    get_fs_name,
    get_plain_name,
    is_path_number,
    is_same_disk,
    make_path_number,
    may_be_same_folder,
    name_by_uuid,
    recognise,
    recognise_folder,
    spell_folder,
)

FACTS = {"wwid": "t10.ATA  Disk #1, 50%=x/y", "size": "5"}


@given(st.binary(), st.binary())
def test_paths_make_numbers_that_sqlite_stores(one: bytes, other: bytes) -> None:
    """A path has one number, other paths have others, and no counted inode number looks like one."""
    assert is_path_number(make_path_number(one))
    assert -(2**63) <= make_path_number(one) < 2**63
    assert (one == other) is (make_path_number(one) == make_path_number(other))


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_inode_is_no_number_of_a_path(inode: int) -> None:
    """What is an inode can't be compared with what is a path, and is the same only as itself."""
    path = make_path_number(b"/photos")

    assert not is_path_number(inode)
    assert may_be_same_folder(inode, path)
    assert may_be_same_folder(inode, inode)
    assert not may_be_same_folder(inode, inode + 1)
    assert not may_be_same_folder(make_path_number(b"/music"), path)


def test_facts_of_a_disk_are_written_into_its_name() -> None:
    """Whatever a disk says of itself comes back, and the plain name is without it."""
    name = name_by_uuid("A", "S", FACTS)

    assert name == recognise("uuid:A/S", (name,)) == recognise(name, ("uuid:A/S",)) == recognise(name, (name,))
    assert "uuid:A/S" == get_plain_name(name)
    assert recognise(name, (name_by_uuid("A", "S", FACTS | {"wwid": "other"}),)) is None


@pytest.mark.parametrize(
    ("recorded", "names", "folder", "kept"),
    [
        ("uuid:A 2", ("uuid:A#size=5",), 2, "uuid:A#size=5 2"),
        ("uuid:A#size=5 2", ("uuid:A#size=6",), 2, None),
        ("uuid:A 2", ("uuid:A",), 3, None),
        ("cifs://nas/my share 7", ("cifs://nas/my share",), 7, "cifs://nas/my share 7"),
        ("fuse.mergerfs:1:2 7", ("fuse.mergerfs:1:2:3",), 7, "fuse.mergerfs:1:2:3 7"),
        ("uuid:A 7", ("uuid:A",), make_path_number(b"/a"), f"uuid:A {make_path_number(b'/a')}"),
        (f"uuid:A {make_path_number(b'/b')}", ("uuid:A",), make_path_number(b"/a"), None),
        ("", ("uuid:A",), 2, None),
        ("uuid:A", ("uuid:A",), 2, None),
    ],
)
def test_folder_is_recognized_by_one_text(recorded: str, names: tuple[str, ...], folder: int, kept: str | None) -> None:
    """File system, disk and folder are compared together; a recorded inode gives way to the path."""
    assert kept == recognise_folder(recorded, names, folder)


def test_text_of_a_folder_has_its_file_system_in_front() -> None:
    """Names with spaces come back whole."""
    assert "cifs://nas/my share" == get_fs_name(spell_folder(("cifs://nas/my share",), 7))


def test_clone_is_no_second_copy_on_the_same_disk() -> None:
    """Subvolumes of one disk fail together; a clone of the disk does not."""
    assert is_same_disk("uuid:A/S#wwid=1", ("uuid:A/T#wwid=1",))
    assert is_same_disk("uuid:A/S", ("uuid:A/T#wwid=1", "btrfs:/dev/sda"))
    assert not is_same_disk("uuid:A/S#wwid=1", ("uuid:A/S#wwid=2",))


def test_clone_is_explained() -> None:
    """Which facts differ is said, instead of one UUID twice."""
    text = explain_unrecognised("uuid:A#size=5,wwid=naa.1", ("uuid:A#size=5,wwid=naa.2",))

    assert "a different disk with the same UUID is mounted (size 5, wwid naa.2 instead of size 5, wwid naa.1)" in text
