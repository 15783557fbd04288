"""
What is done to files: one case is one folder, changed in steps between runs of the program.

A case is a generator. It plants its files, yields what has to have happened before it goes on, and damages or changes
them. What has to be found follows from what it did (``tree.Damage``), so no case says it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

from truth.disks import Can
from truth.tree import BLOCK_BYTES, Tree


class Until(Enum):
    """What a case waits for."""

    SCANNED = auto()  # a run has walked the tree
    SCRUBBED = auto()  # a run has read everything


Steps = Iterator[Until]
Script = Callable[[Tree], Steps]


@dataclass(frozen=True)
class Case:
    """
    One row of the matrix.

    Attributes:
        name: of the script, and of the folder.
        script: plants, changes, damages.
        needs: what the disk must be able to do.
        is_damage: damages something.
        is_alone: needs a root of its own, with a limit of mass changes that it exceeds.
    """

    name: str
    script: Script
    needs: frozenset[Can]
    is_damage: bool
    is_alone: bool


CASES: list[Case] = []

_THREE_BLOCKS = 2 * BLOCK_BYTES + 20_000
_OLD_NS = 1_600_000_000 * 10**9 + 123_456_789
_WHOLE_SECOND_NS = 1_600_000_000 * 10**9


def _damage(*needs: Can, is_alone: bool = False) -> Callable[[Script], Script]:
    own = set() if Can.FAIL in needs else {Can.ROT}
    return _enter(frozenset({*own, *needs}), is_damage=True, is_alone=is_alone)


def _honest(*needs: Can) -> Callable[[Script], Script]:
    return _enter(frozenset(needs), is_damage=False, is_alone=False)


def _enter(needs: frozenset[Can], *, is_damage: bool, is_alone: bool) -> Callable[[Script], Script]:
    def enter(script: Script) -> Script:
        CASES.append(Case(script.__name__, script, needs, is_damage, is_alone))
        return script

    return enter


def _plant(tree: Tree, names: str, size: int = 4_096, *, mtime_ns: int | None = None) -> None:
    """Write files of one size in one tick of the clock."""
    contents = [(name, tree.content(size)) for name in names.split()]
    for name, data in contents:
        tree.write(name, data, mtime_ns=mtime_ns)


def _names(folder: str, count: int = 20) -> str:
    return " ".join(f"{folder}/{number}" for number in range(count))


# Damage in place


@_damage()
def bit_in_first_block(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 17)


@_damage()
def bit_in_middle_block(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", BLOCK_BYTES + 4_321)


@_damage()
def bit_in_last_byte(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", _THREE_BLOCKS - 1)


@_damage()
def bit_in_two_blocks(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 5)
    tree.flip("f", _THREE_BLOCKS - 5)


@_damage()
def bit_in_file_of_a_few_bytes(tree: Tree) -> Steps:
    _plant(tree, "f", 11)
    yield Until.SCRUBBED
    tree.flip("f", 10)


@_damage()
def bit_in_file_of_exactly_one_block(tree: Tree) -> Steps:
    _plant(tree, "f", BLOCK_BYTES)
    yield Until.SCRUBBED
    tree.flip("f", BLOCK_BYTES - 1)


@_damage()
def bit_in_file_that_was_recorded_and_never_scrubbed(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCANNED
    tree.flip("f", 70_000)


@_damage()
def bit_in_one_of_many_alike(tree: Tree) -> Steps:
    _plant(tree, _names("folder"))
    yield Until.SCRUBBED
    tree.flip("folder/7", 100)


@_damage(Can.LINK)
def bit_in_hard_linked_file(tree: Tree) -> Steps:
    _plant(tree, "a/f", _THREE_BLOCKS)
    tree.link("a/f", "b/f")
    tree.link("a/f", "c")
    yield Until.SCRUBBED
    tree.flip("b/f", 4)


@_damage()
def bit_twice_at_different_times(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 1)
    yield Until.SCRUBBED
    tree.flip("f", _THREE_BLOCKS - 1)


@_damage()
def sector_zeroed(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.zero("f", BLOCK_BYTES + 8_192)


@_damage()
def sectors_of_two_files_exchanged(tree: Tree) -> Steps:
    _plant(tree, "f g", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.misdirect("f", "g", BLOCK_BYTES)


@_damage()
def whole_files_exchanged_below(tree: Tree) -> Steps:
    """Each file has the other's content, as after a rename, but nobody renamed anything."""
    _plant(tree, "f g", 4_096)
    yield Until.SCRUBBED
    tree.misdirect("f", "g")


@_damage(Can.CUT)
def file_cut_by_its_file_system(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.cut("f", BLOCK_BYTES + 10)


@_damage(Can.LOSE)
def block_lost_by_its_file_system(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.lose("f", BLOCK_BYTES)


@_damage(Can.FAIL)
def sector_unreadable(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.fail("f", BLOCK_BYTES)


@_damage(Can.FAIL)
def sector_unreadable_in_moved_file(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.rename("f", "g")
    tree.fail("g", BLOCK_BYTES)


# Damage, and then somebody touches the file


@_damage()
def rotten_file_chmodded(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 100_000)
    tree.chmod("f")


@_damage()
def rotten_file_renamed(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 100_000)
    tree.rename("f", "there/g")


@_damage()
def rotten_file_renamed_after_a_run(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 100_000)
    yield Until.SCANNED
    tree.rename("f", "g")


@_damage()
def rotten_file_in_renamed_folder(tree: Tree) -> Steps:
    _plant(tree, _names("folder"))
    yield Until.SCRUBBED
    tree.flip("folder/3", 30)
    tree.rename("folder", "other")


@_damage()
def rotten_file_in_swapped_folder(tree: Tree) -> Steps:
    _plant(tree, _names("one") + " " + _names("other"))
    yield Until.SCRUBBED
    tree.flip("one/3", 30)
    tree.flip("other/4", 30)
    tree.swap("one", "other")


@_damage()
def rotten_file_swapped_with_another(tree: Tree) -> Steps:
    _plant(tree, "f g")
    yield Until.SCRUBBED
    tree.flip("f", 30)
    tree.swap("f", "g")


@_damage()
def rotten_file_in_cycle(tree: Tree) -> Steps:
    _plant(tree, "a b c", mtime_ns=_WHOLE_SECOND_NS)
    yield Until.SCRUBBED
    tree.flip("a", 30)
    tree.rename("a", "t")
    tree.rename("b", "a")
    tree.rename("c", "b")
    tree.rename("t", "c")


@_damage()
def rotten_file_renamed_over_another(tree: Tree) -> Steps:
    _plant(tree, "f g")
    yield Until.SCRUBBED
    tree.flip("f", 30)
    tree.rename("f", "g")


@_damage()
def rotten_file_in_chain(tree: Tree) -> Steps:
    _plant(tree, "log log.1 log.2", 9_000)
    yield Until.SCRUBBED
    tree.flip("log.1", 8_000)
    tree.rename("log.2", "log.3")
    tree.rename("log.1", "log.2")
    tree.rename("log", "log.1")
    tree.write("log", 9_000)


@_damage(Can.LINK)
def rotten_file_linked(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 3)
    tree.link("f", "g")


@_damage(Can.LINK)
def rotten_file_linked_and_old_name_removed_later(tree: Tree) -> Steps:
    _plant(tree, _names("monday", 5))
    yield Until.SCRUBBED
    tree.flip("monday/3", 3)
    tree.link_all("monday", "tuesday")
    yield Until.SCANNED
    tree.remove("monday")


@_damage(Can.LINK)
def rotten_file_linked_and_old_name_removed_at_once(tree: Tree) -> Steps:
    _plant(tree, _names("monday", 5))
    yield Until.SCRUBBED
    tree.flip("monday/3", 3)
    tree.link_all("monday", "tuesday")
    tree.remove("monday")


@_damage(Can.LINK)
def one_name_of_rotten_file_removed(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    tree.link("f", "g")
    tree.link("f", "h")
    yield Until.SCRUBBED
    tree.flip("f", 3)
    yield Until.SCANNED
    tree.remove("f")
    tree.rename("g", "f")


@_damage(Can.PASS_ON)
def rotten_file_moved_by_copy(tree: Tree) -> Steps:
    """``cp -p a/f b/f; rm a/f``, as between two shares, before anybody has noticed."""
    _plant(tree, "a/f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("a/f", 70_000)
    tree.copy("a/f", "b/f")
    tree.remove("a/f")


@_damage(Can.PASS_ON)
def rotten_folder_moved_by_copy(tree: Tree) -> Steps:
    _plant(tree, _names("a", 8))
    yield Until.SCRUBBED
    tree.flip("a/5", 70)
    tree.copy("a", "b")
    tree.remove("a")


@_damage(Can.PASS_ON)
def copy_of_rotten_file(tree: Tree) -> Steps:
    """The copy is recorded with the bytes that the original is then found to have."""
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 70_000)
    tree.copy("f", "g")
    yield Until.SCANNED
    tree.chmod("f")


@_damage(Can.PASS_ON)
def copy_of_rotten_file_put_under_its_own_name(tree: Tree) -> Steps:
    """A defragmenter: copied with its times, and renamed over the original."""
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 70_000)
    tree.copy("f", "f.tmp")
    tree.rename("f.tmp", "f")


@_damage()
def file_just_moved_by_copy(tree: Tree) -> Steps:
    _plant(tree, "a/f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.copy("a/f", "b/f")
    tree.remove("a/f")
    yield Until.SCANNED
    tree.flip("b/f", 70_000)


@_damage()
def file_just_renamed(tree: Tree) -> Steps:
    _plant(tree, "a/f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.rename("a/f", "b/f")
    tree.flip("b/f", 70_000)


@_damage()
def files_just_swapped(tree: Tree) -> Steps:
    _plant(tree, "f g")
    yield Until.SCRUBBED
    tree.swap("f", "g")
    yield Until.SCANNED
    tree.flip("f", 100)


@_damage()
def file_just_edited(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.edit("f", 100_000)
    yield Until.SCANNED
    tree.flip("f", 10)


@_damage()
def file_just_saved(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.save("f")
    yield Until.SCANNED
    tree.flip("f", 10)


# Damage that is known


@_damage()
def known_rot_edited(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 10)
    yield Until.SCRUBBED
    tree.edit("f", 150_000)


@_damage()
def known_rot_touched(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 10)
    yield Until.SCRUBBED
    tree.touch("f")


@_damage()
def known_rot_renamed(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 10)
    yield Until.SCRUBBED
    tree.rename("f", "there/g")


@_damage(Can.LINK)
def known_rot_linked_and_old_name_removed(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("f", 10)
    yield Until.SCRUBBED
    tree.link("f", "g")
    tree.remove("f")


@_damage(Can.PASS_ON)
def known_rot_moved_by_copy(tree: Tree) -> Steps:
    _plant(tree, "a/f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("a/f", 10)
    yield Until.SCRUBBED
    tree.copy("a/f", "b/f")
    tree.remove("a/f")


@_damage(Can.PASS_ON)
def known_rot_copied_and_original_removed_later(tree: Tree) -> Steps:
    _plant(tree, "a/f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.flip("a/f", 10)
    yield Until.SCRUBBED
    tree.copy("a/f", "b/f")
    yield Until.SCANNED
    tree.remove("a/f")


@_damage()
def known_rot_swapped(tree: Tree) -> Steps:
    _plant(tree, "f g")
    yield Until.SCRUBBED
    tree.flip("f", 10)
    yield Until.SCRUBBED
    tree.exchange("f", "g")


@_damage()
def known_rot_in_swapped_folder(tree: Tree) -> Steps:
    _plant(tree, _names("one", 5) + " " + _names("other", 5))
    yield Until.SCRUBBED
    tree.flip("one/3", 30)
    yield Until.SCRUBBED
    tree.swap("one", "other")


@_damage()
def known_rot_replaced_by_good_copy(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    good = tree.names["f"].data
    yield Until.SCRUBBED
    tree.flip("f", 10)
    yield Until.SCRUBBED
    tree.restore("f", good, _OLD_NS)


# Damage that comes from a backup


@_damage()
def damaged_backup_put_back(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    good = tree.names["f"].data
    yield Until.SCRUBBED
    tree.remove("f")
    yield Until.SCANNED
    tree.restore_damaged("f", good, _OLD_NS)


@_damage()
def damaged_backup_put_back_at_once(tree: Tree) -> Steps:
    """The deletion was never seen: another inode stands there, with the old size and mtime."""
    _plant(tree, "f", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    good = tree.names["f"].data
    yield Until.SCRUBBED
    tree.remove("f")
    tree.restore_damaged("f", good, _OLD_NS)


@_damage()
def rot_in_file_that_was_deleted_and_restored(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    good = tree.names["f"].data
    yield Until.SCRUBBED
    tree.remove("f")
    yield Until.SCANNED
    tree.restore("f", good, _OLD_NS)
    yield Until.SCANNED
    tree.flip("f", 70_000)


# Damage under a mass change that waits for a person


@_damage(is_alone=True)
def rot_in_files_held_back(tree: Tree) -> Steps:
    _plant(tree, _names("folder"), 9_000)
    yield Until.SCRUBBED
    for number in range(14):
        tree.edit(f"folder/{number}", 10, b"edited by many %d" % number)
    yield Until.SCANNED
    tree.flip("folder/3", 8_000)


@_damage(is_alone=True)
def rot_beside_files_held_back(tree: Tree) -> Steps:
    _plant(tree, _names("folder"), 9_000)
    yield Until.SCRUBBED
    for number in range(14):
        tree.edit(f"folder/{number}", 10, b"edited by many %d" % number)
    yield Until.SCANNED
    tree.flip("folder/17", 8_000)


@_damage(is_alone=True)
def known_rot_in_files_held_back(tree: Tree) -> Steps:
    _plant(tree, _names("folder"), 9_000)
    yield Until.SCRUBBED
    tree.flip("folder/3", 8_000)
    yield Until.SCRUBBED
    for number in range(14):
        tree.touch(f"folder/{number}")


@_damage(is_alone=True)
def rot_in_file_moved_while_deletions_are_held_back(tree: Tree) -> Steps:
    _plant(tree, _names("folder"), 9_000)
    yield Until.SCRUBBED
    for number in range(14):
        tree.remove(f"folder/{number}")
    yield Until.SCANNED
    tree.flip("folder/17", 8_000)
    tree.rename("folder/17", "elsewhere")


# Honest changes of content


@_honest()
def edited(tree: Tree) -> Steps:
    _plant(tree, "f g h", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.edit("f", 70_000)
    tree.append("g")
    tree.edit("h", _THREE_BLOCKS - 6)


@_honest()
def edited_twice(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCANNED
    tree.edit("f", 70_000, b"once")
    yield Until.SCANNED
    tree.edit("f", 70_000, b"more")


@_honest()
def written_anew_in_place(tree: Tree) -> Steps:
    _plant(tree, "f g")
    yield Until.SCRUBBED
    tree.write("f", 4_096)
    tree.write("g", 9_000)


@_honest(Can.MAP)
def written_through_a_mapping(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.store("f", 70_000)


@_honest()
def saved_by_rename(tree: Tree) -> Steps:
    _plant(tree, "f g", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.save("f")
    tree.save("g", 12_345)


@_honest()
def saved_again_and_again(tree: Tree) -> Steps:
    """Inodes are used again at once."""
    _plant(tree, "f g h")
    yield Until.SCRUBBED
    for name in "fghfghfg":
        tree.save(name)


@_honest()
def saved_with_backup_file(tree: Tree) -> Steps:
    _plant(tree, "f g")
    yield Until.SCRUBBED
    tree.rename("f", "f~")
    tree.write("f", 4_096)
    tree.copy("g", "g~")
    tree.write("g", 4_096)


@_honest()
def copied_over(tree: Tree) -> Steps:
    """``cp -p`` of an older and of a newer file over one of the same size."""
    _plant(tree, "f g")
    tree.write("old", 4_096, mtime_ns=_OLD_NS)
    tree.write("new", 4_096, mtime_ns=time.time_ns() + 10**9)
    yield Until.SCRUBBED
    tree.copy("old", "f")
    tree.copy("new", "g")


@_honest()
def older_version_restored(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    first = tree.names["f"].data
    yield Until.SCANNED
    tree.edit("f", 10)
    yield Until.SCANNED
    tree.restore("f", first, _OLD_NS)


@_honest()
def deleted_and_restored(tree: Tree) -> Steps:
    _plant(tree, "f g", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    first = {name: tree.names[name].data for name in "fg"}
    yield Until.SCRUBBED
    tree.remove("f")
    tree.remove("g")
    yield Until.SCANNED
    tree.restore("f", first["f"], _OLD_NS)
    tree.restore("moved/g", first["g"], _OLD_NS)


@_honest()
def deleted_and_made_anew(tree: Tree) -> Steps:
    """New files get the inodes of deleted ones; some with the same content, some with another."""
    _plant(tree, "a b c d")
    yield Until.SCRUBBED
    contents = [tree.names[name].data for name in "abcd"]
    for name in "abcd":
        tree.remove(name)
    for name, data in zip("dcbx", contents, strict=True):
        tree.write(name, data)


@_honest()
def truncated(tree: Tree) -> Steps:
    _plant(tree, "f g h", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.truncate("f", 10)
    tree.truncate("g", 0)
    tree.truncate("h", _THREE_BLOCKS + 50_000)


@_honest(Can.PUNCH)
def hole_punched(tree: Tree) -> Steps:
    _plant(tree, "f", _THREE_BLOCKS)
    yield Until.SCRUBBED
    tree.punch("f", BLOCK_BYTES, 8_192)


@_honest()
def synchronised_in_place(tree: Tree) -> Steps:
    """``rsync -a --inplace``: written over, then the source's mtime is set."""
    _plant(tree, "f", _THREE_BLOCKS, mtime_ns=_OLD_NS)
    yield Until.SCRUBBED
    tree.edit("f", 70_000)
    tree.touch("f", _OLD_NS + 86_400 * 10**9)


@_honest()
def archive_unpacked(tree: Tree) -> Steps:
    """Everything of one size and mtime, and once more over it, with other content under other names."""
    _plant(tree, _names("release"), mtime_ns=_WHOLE_SECOND_NS)
    yield Until.SCRUBBED
    tree.remove("release")
    yield Until.SCANNED
    _plant(tree, _names("release-2"), mtime_ns=_WHOLE_SECOND_NS)


@_honest()
def archive_unpacked_over_itself(tree: Tree) -> Steps:
    """Tar removes and makes anew; the content is the same."""
    _plant(tree, _names("release"), mtime_ns=_WHOLE_SECOND_NS)
    yield Until.SCRUBBED
    contents = {name: tree.names[name].data for name in tree.find("release")}
    for name, data in contents.items():
        tree.remove(name)
        tree.write(name, data, mtime_ns=_WHOLE_SECOND_NS)


@_honest()
def other_build_unpacked_over_it(tree: Tree) -> Steps:
    """Another content with the size, mtime and name of the old one: nobody can tell, and the finding says so."""
    _plant(tree, "release/program", mtime_ns=_WHOLE_SECOND_NS)
    yield Until.SCRUBBED
    tree.remove("release/program")
    _plant(tree, "release/program", mtime_ns=_WHOLE_SECOND_NS)
    tree.excuse("release/program")


# Honest changes of names and attributes


@_honest()
def attributes_changed(tree: Tree) -> Steps:
    _plant(tree, "f g h i")
    yield Until.SCRUBBED
    tree.touch("f")
    tree.touch("g", _OLD_NS)
    tree.chmod("h")
    tree.chown("i")


@_honest()
def file_renamed(tree: Tree) -> Steps:
    _plant(tree, "f g h")
    yield Until.SCRUBBED
    tree.rename("f", "f2")
    tree.rename("g", "there/g")
    tree.rename("h", "t")
    tree.rename("t", "h")


@_honest()
def file_renamed_over_another(tree: Tree) -> Steps:
    _plant(tree, "f g h i")
    yield Until.SCRUBBED
    tree.rename("f", "g")
    tree.rename("h", "f")


@_honest()
def folder_renamed(tree: Tree) -> Steps:
    _plant(tree, _names("folder") + " " + _names("folder/deep"))
    yield Until.SCRUBBED
    tree.rename("folder", "other")


@_honest()
def files_swapped(tree: Tree) -> Steps:
    _plant(tree, "f g h i")
    yield Until.SCRUBBED
    tree.swap("f", "g")
    tree.exchange("h", "i")


@_honest()
def folders_swapped(tree: Tree) -> Steps:
    _plant(tree, _names("one", 60) + " " + _names("other", 60))
    yield Until.SCRUBBED
    tree.swap("one", "other")


@_honest()
def folders_exchanged(tree: Tree) -> Steps:
    _plant(tree, _names("one", 60) + " " + _names("other", 60))
    yield Until.SCRUBBED
    tree.exchange("one", "other")


@_honest()
def folders_of_one_mtime_swapped(tree: Tree) -> Steps:
    _plant(tree, _names("one") + " " + _names("other"), mtime_ns=_WHOLE_SECOND_NS)
    yield Until.SCRUBBED
    tree.swap("one", "other")


@_honest()
def folder_replaced_by_the_next(tree: Tree) -> Steps:
    """``mv cur old; mv new cur``."""
    _plant(tree, _names("cur") + " " + _names("new"))
    yield Until.SCRUBBED
    tree.rename("cur", "old")
    tree.rename("new", "cur")


@_honest()
def folder_replaced_by_the_next_and_the_last_removed(tree: Tree) -> Steps:
    _plant(tree, _names("old") + " " + _names("cur") + " " + _names("new"))
    yield Until.SCRUBBED
    tree.remove("old")
    tree.rename("cur", "old")
    tree.rename("new", "cur")


@_honest()
def folders_in_a_cycle(tree: Tree) -> Steps:
    _plant(tree, _names("a") + " " + _names("b") + " " + _names("c"))
    yield Until.SCRUBBED
    tree.rename("a", "t")
    tree.rename("b", "a")
    tree.rename("c", "b")
    tree.rename("t", "c")


@_honest()
def files_in_a_cycle(tree: Tree) -> Steps:
    _plant(tree, "a b c", mtime_ns=_WHOLE_SECOND_NS)
    _plant(tree, "d e f")
    yield Until.SCRUBBED
    for first, second, third in ("abc", "def"):
        tree.rename(first, "t")
        tree.rename(second, first)
        tree.rename(third, second)
        tree.rename("t", third)


@_honest()
def logs_rotated(tree: Tree) -> Steps:
    _plant(tree, "log log.1 log.2 log.3", 9_000)
    yield Until.SCRUBBED
    for _ in range(2):
        tree.remove("log.3")
        tree.rename("log.2", "log.3")
        tree.rename("log.1", "log.2")
        tree.rename("log", "log.1")
        tree.write("log", 9_000)
        yield Until.SCANNED


@_honest(Can.LINK)
def links_added_and_removed(tree: Tree) -> Steps:
    _plant(tree, "f g h")
    tree.link("g", "g2")
    tree.link("h", "h2")
    yield Until.SCRUBBED
    tree.link("f", "f2")
    tree.remove("g")
    tree.rename("h2", "h3")
    tree.edit("h", 10)


@_honest(Can.LINK)
def linked_snapshots(tree: Tree) -> Steps:
    _plant(tree, _names("monday"))
    yield Until.SCRUBBED
    tree.link_all("monday", "tuesday")
    tree.save("tuesday/3")
    yield Until.SCANNED
    tree.link_all("tuesday", "wednesday")
    tree.save("wednesday/3")
    tree.remove("monday")


@_honest(Can.LINK)
def links_of_two_files_swapped(tree: Tree) -> Steps:
    _plant(tree, "a/f a/g")
    tree.link("a/f", "b/f")
    tree.link("a/g", "b/g")
    yield Until.SCRUBBED
    tree.swap("b/f", "b/g")


@_honest()
def moved_by_copy(tree: Tree) -> Steps:
    _plant(tree, _names("a"))
    yield Until.SCRUBBED
    tree.copy("a", "b")
    tree.remove("a")


@_honest()
def copied_and_edited(tree: Tree) -> Steps:
    _plant(tree, _names("a"))
    yield Until.SCRUBBED
    tree.copy("a", "b")
    tree.edit("a/3", 10)
    tree.edit("b/4", 10)


@_honest()
def copies_swapped(tree: Tree) -> Steps:
    """Files with the same content, size and times change places."""
    _plant(tree, "a", mtime_ns=_OLD_NS)
    tree.copy("a", "b")
    tree.write("c", 4_096, mtime_ns=_OLD_NS)
    yield Until.SCRUBBED
    tree.swap("a", "c")


# Files that are written to while the next run reads


@_honest()
def appended_to_while_read(tree: Tree) -> Steps:
    _plant(tree, "log", 30 * BLOCK_BYTES)
    yield Until.SCRUBBED
    tree.meanwhile(lambda number: tree.append("log", b"line %d" % number * 1000))
    yield Until.SCRUBBED


@_honest()
def edited_while_read(tree: Tree) -> Steps:
    _plant(tree, "database", 30 * BLOCK_BYTES)
    yield Until.SCRUBBED
    tree.meanwhile(lambda number: tree.edit("database", number * BLOCK_BYTES, os.urandom(5_000)))
    yield Until.SCRUBBED


@_honest(Can.MAP)
def stored_to_while_read(tree: Tree) -> Steps:
    _plant(tree, "database", 30 * BLOCK_BYTES)
    yield Until.SCRUBBED
    tree.meanwhile(lambda number: tree.store("database", number * BLOCK_BYTES, os.urandom(5_000)))
    yield Until.SCRUBBED


@_honest()
def saved_while_read(tree: Tree) -> Steps:
    _plant(tree, "document", 30 * BLOCK_BYTES)
    yield Until.SCRUBBED
    tree.meanwhile(lambda _: tree.save("document"))
    yield Until.SCRUBBED


@_honest()
def renamed_while_read(tree: Tree) -> Steps:
    _plant(tree, "a b c d", 10 * BLOCK_BYTES)
    yield Until.SCRUBBED
    tree.meanwhile(lambda number: tree.swap("ab"[number % 2], "cd"[number // 2 % 2]))
    yield Until.SCRUBBED
