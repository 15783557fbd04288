"""A short selection of each campaign, and the long form of it; ``-rP`` shows what each came to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.killpoints import is_possible

TESTS = Path(__file__).parents[1]
long_form = (pytest.mark.long, pytest.mark.timeout(0))
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not is_possible(), reason="system calls are caught on x86-64 only"),
]


def run_campaign(name: str, *options: str) -> None:
    """Run a campaign in a process of its own, which can fork: it has one thread."""
    done = subprocess.run(
        [sys.executable, "-m", f"campaigns.{name}", *options],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout[-20_000:])
    assert done.returncode == 0, done.stdout[-5_000:]


@pytest.mark.parametrize(
    "options",
    [
        ["--count", "6", "--only", "first scan", "--only", "catalog restore"],
        pytest.param(["--count", "10000"], marks=long_form),
    ],
    ids=["short", "long"],
)
def test_commands_that_are_killed_at_any_call(options: list[str]) -> None:
    """The catalog is well, nothing is lost or verified falsely, and the command run again ends as without the kill."""
    run_campaign("kills", *options)


@pytest.mark.parametrize(
    "options",
    [["--rounds", "0", "--bits", "2"], pytest.param(["--rounds", "5", "--bits", "1000"], marks=long_form)],
    ids=["short", "long"],
)
def test_flipped_bits(options: list[str]) -> None:
    """Each is detected, or harmless."""
    run_campaign("flips", *options)


@pytest.mark.parametrize(
    "options",
    [["--fs", "ext4", "--count", "12"], pytest.param(["--count", "1000"], marks=long_form)],
    ids=["short", "long"],
)
def test_power_cuts(options: list[str]) -> None:
    """What was said to be done is done; a file under repair is the damaged one or the good one."""
    run_campaign("powercuts", *options)


@pytest.mark.parametrize(
    "options",
    [
        ["--count", "2", "--only", "repair, aimed at", "--only", "repair, temporary files"],
        pytest.param(["--count", "500"], marks=long_form),
    ],
    ids=["short", "long"],
)
def test_hostile_neighbour(options: list[str]) -> None:
    """Root's files stay as they are and unread; all is accounted for once he is gone."""
    run_campaign("neighbour", *options)


@pytest.mark.parametrize(
    "options",
    [
        ["--count", "1", "--only", "ssh", "--fault", "disk: flipped"],
        ["--count", "5", "--only", "smtp", "--fault", "cut before 250", "--fault", "data 5xx", "--fault", "cut"],
        pytest.param(["--count", "1000"], marks=long_form),
    ],
    ids=["copies", "mail", "long"],
)
def test_servers_that_lie_stall_and_cut(options: list[str]) -> None:
    """What differs is not called the same, no original is accused or written to, no mail is lost."""
    run_campaign("servers", *options)


@pytest.mark.parametrize(
    "options",
    [["--minutes", "0.05", "--every", "1"], pytest.param(["--minutes", "30"], marks=long_form)],
    ids=["short", "long"],
)
def test_storm_of_events(options: list[str]) -> None:
    """The service stays small, answers, and knows all of the tree afterwards."""
    run_campaign("storm", *options)


@pytest.mark.parametrize(
    "options",
    [
        ["--count", "4", "--only", "catalog backup"],
        pytest.param(["--count", "1000"], marks=long_form),
    ],
    ids=["short", "long"],
)
def test_writes_that_fail_from_any_call_on(options: list[str]) -> None:
    """Full disk, quota, EIO, read-only: it is explained, nothing is lost, and all goes on when the disk is well."""
    run_campaign("badwrites", *options)
