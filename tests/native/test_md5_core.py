"""The C core by itself, without Python, as native/CMakeLists.txt builds it: under sanitizers, elsewhere, fuzzed."""

from __future__ import annotations

import itertools
import platform
import random
from pathlib import Path

import pytest

from integrity.hashing.md5_native import NativeMd5
from support.machine import need_linking, need_programs
from support.nativebuild import NATIVE, build, build_selftest_for, find_paths, run
from support.programs import sh

NO_WIDE = "-DMD5_NO_AVX2 -DMD5_NO_AVX512 -DMD5_NO_NEON"
EVERY_PATH = 31
IS_X86_64 = platform.machine() == "x86_64"


@pytest.mark.parametrize(
    "c_flags",
    # That every path does what it should is asked for each change without sanitizers, of clang's by the fuzzers; with
    # those of gcc the wide ones take half a minute to compile.
    [pytest.param("", marks=pytest.mark.long), f"-DMD5_NO_X86_64 {NO_WIDE}"],
)
def test_core_is_right_on_every_path_under_the_sanitizers(tmp_path: Path, c_flags: str) -> None:
    """The core compiles without a warning and passes its self-test, also with all but the portable paths left out."""
    need_programs("cc")
    programs = build(tmp_path, "md5_selftest", INTEGRITY_SELFTEST="ON", CMAKE_C_FLAGS=c_flags)

    report = run(programs / "md5_selftest")

    assert find_paths(report, mask=0) == ["scalar"]
    assert find_paths(report, EVERY_PATH)[-1] == "scalar"
    if c_flags:
        assert find_paths(report, EVERY_PATH) == ["interleaved", "scalar"]


def test_each_path_can_be_left_out() -> None:
    """The dispatcher compiles without a warning whatever it is left with."""
    need_programs("cc")
    for count in range(5):
        for left_out in itertools.combinations(("X86_64", "AVX2", "AVX512", "NEON"), count):
            defines = [f"-DMD5_NO_{path}" for path in left_out]
            sh("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *defines, NATIVE / "md5_dispatch.c")


@pytest.mark.parametrize(
    ("machine", "triplet", "qemu", "package", "paths"),
    [
        ("aarch64", "aarch64-linux-gnu", "qemu-aarch64", "libc6-dev-arm64-cross", ["neon", "interleaved", "scalar"]),
        ("powerpc", "powerpc-linux-gnu", "qemu-ppc", "libc6-dev-powerpc-cross", ["interleaved", "scalar"]),
    ],
)
def test_core_is_right_on_another_machine(
    tmp_path: Path, machine: str, triplet: str, qemu: str, package: str, paths: list[str]
) -> None:
    """The NEON path on ARM64; the portable ones there, and where words are big endian and of 32 bits."""
    need_programs(qemu)
    selftest = build_selftest_for(tmp_path, "md5_selftest", machine=machine, triplet=triplet, package=package)

    assert find_paths(run(qemu, selftest), EVERY_PATH) == paths


@pytest.fixture(scope="module")
def static_selftest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the self-test with musl, the C library of Alpine, as one file that an emulator needs nothing else for."""
    need_programs("musl-gcc")
    linked = {"INTEGRITY_SANITIZE": "OFF", "CMAKE_EXE_LINKER_FLAGS": "-static", "CMAKE_C_COMPILER": "musl-gcc"}
    return build(tmp_path_factory.mktemp("musl"), "md5_selftest", INTEGRITY_SELFTEST="ON", **linked) / "md5_selftest"


def test_core_is_right_with_musl(static_selftest: Path) -> None:
    """The core compiles without a warning and passes its self-test."""
    assert find_paths(run(static_selftest), mask=0) == ["scalar"]


@pytest.mark.skipif(not IS_X86_64, reason="asks what an x86-64 build does on x86-64 processors")
def test_core_uses_what_the_processor_has(static_selftest: Path) -> None:
    """One program takes the AVX2 path where there is one and does without where there is none or no xsave."""
    need_programs("qemu-x86_64")
    narrow = ["interleaved", "scalar-x86-64", "scalar"]

    for processor in ("Nehalem", "Haswell,-avx2", "Haswell,-xsave"):
        assert find_paths(run("qemu-x86_64", "-cpu", processor, static_selftest, "widest"), EVERY_PATH) == narrow
    # Emulators before 7.2 have no AVX2.
    assert find_paths(run("qemu-x86_64", "-cpu", "Haswell", static_selftest, "widest"), EVERY_PATH) in (
        ["avx2", *narrow],
        narrow,
    )


def write_seeds(folder: Path, target: str) -> None:
    """Write inputs to begin with: states, mended in each way, under each mask; lists of messages of any number."""
    choices = random.Random(target)
    folder.mkdir()
    for number in range(64):
        if target == "state":
            lead = bytes([number % 32 * 8 + choices.randrange(8)])
            seed = lead + NativeMd5(choices.randbytes(choices.randrange(200))).export_state()
        else:
            seed = choices.randbytes(1 + 2 * number * 3)
        (folder / str(number)).write_bytes(seed)


@pytest.mark.parametrize(
    ("target", "runs"),
    [
        ("state", 5_000),
        ("batch", 500),
        pytest.param("state", 20_000, marks=pytest.mark.long),
        pytest.param("batch", 2_000, marks=pytest.mark.long),
    ],
)
def test_fuzzer_finds_nothing(tmp_path: Path, fuzzers: Path, target: str, runs: int) -> None:
    """No state and no batch, however odd, breaks the core or makes it compute what the reference does not."""
    write_seeds(tmp_path / "seeds", target)
    limits = [f"-runs={runs}", "-max_total_time=30", "-max_len=400", "-len_control=0", "-seed=1"]
    # No limit of resident memory: the most that this process here ever had counts for its children, too.
    limits += ["-rss_limit_mb=0", "-malloc_limit_mb=1024"]

    run(fuzzers / f"md5_fuzz_{target}", *limits, f"-artifact_prefix={tmp_path}/", tmp_path / "seeds")


@pytest.fixture(scope="module")
def fuzzers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the fuzz targets."""
    # libFuzzer brings main and calls this.
    flags = ("-Dmain=LLVMFuzzerTestOneInput", "-fsanitize=fuzzer,address,undefined")
    need_linking("clang", *flags, package="libclang-rt-dev")
    return build(tmp_path_factory.mktemp("fuzz"), INTEGRITY_FUZZ="ON", CMAKE_C_COMPILER="clang")
