"""This tree says what the reference says, a change of what it says is reported, and upgraded catalogs keep all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.preload import Shims
from support.resident import MissingCommitError, Resident, install_commit
from truth.oracle import Result
from truth.upgrades import OLDER, Upgrade
from truth.versions import INSTALLED, Intended, compare_world, read_intended, read_reference

pytestmark = [pytest.mark.root("bindfs", "mkfs.exfat", "mount.exfat-fuse", "rsync"), pytest.mark.timeout(1_200)]

_WORLDS, _FILES = range(1, 9), 25  # with three copies each: every habit, and everything that happens to a root
_FEWER_FILES = 10
_OLDER = [each if each == "1.0.0" else pytest.param(each, marks=pytest.mark.long) for each in OLDER]
_CHANGED = "jobs/messages.py", "is an older version{how}", "is an old version{how}"
_REPORT = re.compile(
    r"^--seed 2 \(this tree\): phase \d: compare --with copy\d: finding copy_stale /ROOT/f\d+\.\w+ copy\d: message:"
    r' reference "[^"]* is an older version[^"]*", this tree "[^"]* is an old version[^"]*"$'
)


def install(commit: str, *, is_native: bool) -> Path:
    """Install a commit of the history."""
    try:
        return install_commit(commit, INSTALLED, is_native=is_native)
    except MissingCommitError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def this(shims: Shims) -> Iterator[Resident]:
    """Start this tree."""
    with Resident("this tree", shims) as version:
        yield version


@pytest.fixture(scope="module")
def reference(shims: Shims) -> Iterator[Resident]:
    """Start the reference."""
    with Resident("the reference", shims, install(read_reference(), is_native=True)) as version:
        yield version


@pytest.mark.first
def test_histories_are_told_as_the_reference_tells_them(this: Resident, reference: Resident, shims: Shims) -> None:
    """Whatever lives under both versions, or under one and then the other: what is said is the same, and right."""
    intended, result = read_intended(), Result()
    found = [
        each
        for seed in _WORLDS
        for each in compare_world(seed, shims, reference, this, files=_FILES, intended=intended, result=result)
    ]

    assert [] == [str(each) for each in found]
    assert [] == intended.find_exceeded()
    assert result.is_right, result.describe()


def test_change_of_what_is_said_is_reported(reference: Resident, shims: Shims, tmp_path: Path) -> None:
    """Another word in a message is reported with its world, file, command, field and both values."""
    name, old, new = _CHANGED
    package = tmp_path / "changed/integrity"
    shutil.copytree(install(read_reference(), is_native=True) / "integrity", package)
    text = (package / name).read_text(encoding="utf-8")
    assert text.count(old) == 1
    (package / name).write_text(text.replace(old, new), encoding="utf-8")

    with Resident("changed", shims, package.parent) as changed:
        nothing, unjudged = Intended(""), Result()
        found = compare_world(
            2, shims, reference, changed, files=_FEWER_FILES, intended=nothing, result=unjudged, attempts=1
        )

    assert found
    assert all(re.search(_REPORT, str(each)) for each in found), found


@pytest.mark.parametrize("older", _OLDER)
def test_upgrade_loses_no_record(older: str, this: Resident, shims: Shims, tmp_path: Path) -> None:
    """After an upgrade amid a history nothing good is accused, and what was found damaged is still known."""
    with Resident(older, shims, install(OLDER[older], is_native=False)) as version:
        seed = list(OLDER).index(older) + 1
        result = Upgrade(seed, version, this, shims, files=_FEWER_FILES).play(tmp_path)

    assert [] == [str(each) for each in result.errors]


def test_intended_differences_fit_on_a_page() -> None:
    """More of them would hide what is not intended."""
    line = "1 finding rot # a reason\n"

    Intended(line * 60)
    with pytest.raises(ValueError, match="61 differences are intended"):
        Intended(line * 61)
    with pytest.raises(ValueError, match="a reason"):
        Intended("finding rot\n")
