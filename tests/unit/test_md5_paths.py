"""On which path the C core computes MD5, who decides that, and that it changes no digest."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import integrity
from integrity._native import lib
from integrity.hashing import Md5, native_status
from integrity.hashing.md5_native import PATHS, NativeMd5, get_path, limit_path, list_paths, only_path
from integrity.hashing.native_setting import OFF, WORDS
from support.expected import expect_md5

MESSAGE = bytes(i * 7 % 251 for i in range(1100))
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=range(lib.MD5_FEATURES_ALL + 1))
def feature_mask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Let the C core use only some of what the machine has."""
    mask: int = request.param
    lib.md5_set_feature_mask(mask)
    yield mask
    lib.md5_set_feature_mask(lib.MD5_FEATURES_ALL)


def expect_paths(features: int) -> list[str]:
    """Name the paths that compute with these features, the widest first."""
    bits = {
        "avx512": lib.MD5_FEATURE_AVX512,
        "avx2": lib.MD5_FEATURE_AVX2,
        "neon": lib.MD5_FEATURE_NEON,
        "interleaved": lib.MD5_FEATURE_INTERLEAVED,
        "scalar-x86-64": lib.MD5_FEATURE_X86_64,
    }
    return [*(name for name, bit in bits.items() if features & bit), "scalar"]


def test_every_path_gives_the_same_digest(feature_mask: int) -> None:
    """The mask decides on which path the blocks are compressed, and nothing else."""
    assert expect_paths(feature_mask & lib.md5_features()) == list_paths()
    for size_bytes in range(len(MESSAGE) + 1):
        assert expect_md5(MESSAGE[:size_bytes]).hex() == NativeMd5(MESSAGE[:size_bytes]).hexdigest()


def test_status_names_the_path_for_many_messages_and_the_one_for_one(feature_mask: int) -> None:
    """What `integrity --version` shows is what computes."""
    paths = list_paths()
    one = "scalar-x86-64" if "scalar-x86-64" in paths else "scalar"

    assert (True, one if paths[0] == one else f"{paths[0]} and {one}") == native_status()


@given(
    pieces=st.lists(
        st.tuples(
            st.integers(0, 300), st.integers(0, lib.MD5_FEATURES_ALL), st.sampled_from(["go on", "save", "copy"])
        ),
        max_size=12,
    )
)
def test_digest_does_not_depend_on_where_it_is_computed(pieces: list[tuple[int, int, str]]) -> None:
    """Split anywhere, saved and taken up again anywhere, each piece on another path: a stream is its bytes."""
    stream, at = NativeMd5(), 0
    try:
        for size_bytes, mask, then in pieces:
            lib.md5_set_feature_mask(mask)
            stream.update(MESSAGE[at % 500 :][:size_bytes])
            at += size_bytes
            if then == "save":
                stream = NativeMd5.import_state(stream.export_state())
            elif then == "copy":
                stream = stream.copy()
        digest = stream.hexdigest()
    finally:
        lib.md5_set_feature_mask(lib.MD5_FEATURES_ALL)

    ends = itertools.accumulate((size_bytes for size_bytes, _, _ in pieces), initial=0)
    fed = b"".join(MESSAGE[end % 500 :][:size_bytes] for end, (size_bytes, _, _) in zip(ends, pieces, strict=False))
    assert expect_md5(fed).hex() == digest


def test_paths_are_those_of_the_header() -> None:
    """Each feature of native/md5_dispatch.h is one bit, and has a path that can be named."""
    header = (ROOT / "native/md5_dispatch.h").read_text(encoding="ascii")
    declared = {name: int(bit) for name, bit in re.findall(r"^#define MD5_FEATURE_(\w+) (\d+)U$", header, re.MULTILINE)}
    (all_bits,) = re.findall(r"^#define MD5_FEATURES_ALL (\d+)U$", header, re.MULTILINE)

    assert sorted(declared.values()) == [1 << number for number in range(len(declared))]
    assert sum(declared.values()) == int(all_bits) == lib.MD5_FEATURES_ALL
    assert declared == {name: getattr(lib, f"MD5_FEATURE_{name}") for name in declared}
    assert expect_paths(lib.MD5_FEATURES_ALL) == list(PATHS)


def test_settings_that_are_written_about_exist() -> None:
    """Whatever INTEGRITY_NATIVE is said to be set to, in the documents or in the program, is a path or `off`."""
    texts = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").glob("*.md"),
        *Path(integrity.__file__).parent.rglob("*.py"),
    ]
    settings = {name for text in texts for name in re.findall(r"INTEGRITY_NATIVE=([\w-]+)", text.read_text("utf-8"))}

    assert {"off", "avx2"} <= settings <= {"off", *PATHS}


def test_each_path_can_be_the_widest() -> None:
    """A limit leaves what is narrower, and lets nothing wider compute."""
    everything = list_paths()
    for place, widest in enumerate(PATHS):
        with only_path(widest):
            assert list_paths() == [path for path in everything if path in PATHS[place:]]


def test_limit_holds_for_its_block_only() -> None:
    """One within another, and when the block fails; a limit that held before holds again."""
    everything = list_paths()
    limit_path("interleaved")
    limited = list_paths()
    try:
        with pytest.raises(ZeroDivisionError), only_path("scalar"):  # noqa: PT012 (two blocks are what is tested)
            with only_path(PATHS[0]):
                assert list_paths() == everything
            assert list_paths() == ["scalar"]
            raise ZeroDivisionError
        assert limited == list_paths()
    finally:
        limit_path(PATHS[0])
    assert everything == list_paths()


# Which of the two is used.


def test_c_core_is_used_where_it_can_be() -> None:
    """In a whole installation nothing stands in."""
    assert Md5 is NativeMd5
    assert native_status().is_native


REPORT = """
from integrity.hashing import Md5, native_status
print(Md5.__name__, Md5(b"abc").hexdigest(), native_status().is_native, native_status().path)
"""


def run_report(*options: str, **environment: str) -> str:
    """Import integrity.hashing in a process of its own; return what is in use there."""
    done = subprocess.run(
        [sys.executable, *options, "-c", REPORT],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_standin_serves_where_the_c_core_is_switched_off() -> None:
    """INTEGRITY_NATIVE=off changes who computes, says so, and changes no digest."""
    assert "StandinMd5 900150983cd24fb0d6963f7d28e17f72 False switched off by INTEGRITY_NATIVE=off\n" == run_report(
        INTEGRITY_NATIVE="off"
    )


@pytest.mark.parametrize("widest", PATHS)
def test_widest_path_can_be_set(widest: str) -> None:
    """INTEGRITY_NATIVE=avx2 and the like: nothing wider computes, what is narrower does, no digest changes."""
    with only_path(widest):
        path = get_path()

    assert f"NativeMd5 900150983cd24fb0d6963f7d28e17f72 True {path}\n" == run_report(INTEGRITY_NATIVE=widest)


@pytest.mark.parametrize("setting", ["", "nonsense", "AVX2", "on", "scalar,avx2"])
def test_unknown_path_is_ignored(setting: str) -> None:
    """What is misspelt is not taken for something else, and slows nothing down; nor does an empty setting."""
    assert f"NativeMd5 900150983cd24fb0d6963f7d28e17f72 True {get_path()}\n" == run_report(INTEGRITY_NATIVE=setting)


def test_words_of_the_setting_are_the_paths() -> None:
    """They are known also where the C core can't be loaded."""
    assert (OFF, *PATHS) == WORDS


def test_standin_serves_where_the_extension_is_broken(tmp_path: Path) -> None:
    """An extension that the loader refuses (cut, or of another machine) is named as the reason."""
    package = tmp_path / "integrity"
    shutil.copytree(
        Path(integrity.__file__).parent, package, ignore=shutil.ignore_patterns("*.so", "__pycache__", "migrations")
    )
    (package / "_native.abi3.so").write_bytes(b"\x7fELF and no more")

    # Without site, or an editable installation would put its own extension in front.
    report = run_report("-S", PYTHONPATH=str(tmp_path))

    assert report.startswith("StandinMd5 900150983cd24fb0d6963f7d28e17f72 False the extension cannot be loaded: "), (
        report
    )
    assert str(package / "_native.abi3.so") in report
