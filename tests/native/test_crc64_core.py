"""The CRC-64 core by itself, without Python: under sanitizers, and on other machines."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from support.machine import need_programs
from support.nativebuild import NATIVE, build, build_selftest_for, find_paths, run
from support.programs import sh

NO_WIDE = "-DCRC64_NO_CLMUL"
EVERY_PATH = 3
IS_X86_64 = platform.machine() == "x86_64"


@pytest.mark.parametrize("c_flags", ["", NO_WIDE])
def test_core_is_right_on_every_path_under_the_sanitizers(tmp_path: Path, c_flags: str) -> None:
    """The core compiles without a warning and passes its self-test, also with all but the portable path left out."""
    need_programs("cc")
    programs = build(tmp_path, "crc64_selftest", INTEGRITY_SELFTEST="ON", CMAKE_C_FLAGS=c_flags)

    report = run(programs / "crc64_selftest")

    assert find_paths(report, mask=0) == ["table"]
    assert find_paths(report, EVERY_PATH)[-1] == "table"
    if c_flags:
        assert find_paths(report, EVERY_PATH) == ["table"]


@pytest.mark.parametrize("defines", [["-DCRC64_NO_CLMUL"], ["-DCRC64_NO_VCLMUL"]])
def test_each_path_can_be_left_out(defines: list[str]) -> None:
    """The dispatcher compiles without a warning whatever it is left with."""
    need_programs("cc")

    sh("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *defines, NATIVE / "crc64_dispatch.c")


@pytest.mark.parametrize(
    ("machine", "triplet", "qemu", "package"),
    [
        ("aarch64", "aarch64-linux-gnu", "qemu-aarch64", "libc6-dev-arm64-cross"),
        ("powerpc", "powerpc-linux-gnu", "qemu-ppc", "libc6-dev-powerpc-cross"),
    ],
)
def test_core_is_right_on_another_machine(tmp_path: Path, machine: str, triplet: str, qemu: str, package: str) -> None:
    """The portable path on ARM64, and where words are big endian and of 32 bits."""
    need_programs(qemu)
    selftest = build_selftest_for(tmp_path, "crc64_selftest", machine=machine, triplet=triplet, package=package)

    assert find_paths(run(qemu, selftest), EVERY_PATH) == ["table"]


@pytest.mark.skipif(not IS_X86_64, reason="asks what an x86-64 build does on x86-64 processors")
def test_core_uses_what_the_processor_has(tmp_path: Path) -> None:
    """One program multiplies without carry where the processor can, and does without where it can't."""
    need_programs("cc", "qemu-x86_64")
    linked = {"INTEGRITY_SANITIZE": "OFF", "CMAKE_EXE_LINKER_FLAGS": "-static"}
    selftest = build(tmp_path, "crc64_selftest", INTEGRITY_SELFTEST="ON", **linked) / "crc64_selftest"

    assert find_paths(run("qemu-x86_64", "-cpu", "Nehalem,-pclmulqdq", selftest), EVERY_PATH) == ["table"]
    assert find_paths(run("qemu-x86_64", "-cpu", "Westmere", selftest), EVERY_PATH) == ["clmul", "table"]
