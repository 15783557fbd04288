"""A selection of each campaign; by hand they repeat their faults thousands of times. ``-rP``: what they came to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.killpoints import is_possible
from support.parity import needs_par2

TESTS = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not is_possible(), reason="system calls are caught on x86-64 only"),
]


@pytest.mark.parametrize(
    "campaign",
    [
        "kills --count 18 --only first_scan --only scan --only scrub --only repair --only catalog_restore"
        " --only catalog_salvage",
        "badwrites --count 4 --only catalog_backup",
        pytest.param("parity --count 12", marks=needs_par2),
        pytest.param("kills --count 200", marks=[pytest.mark.long, pytest.mark.timeout(0)]),
        pytest.param("badwrites --count 50", marks=[pytest.mark.long, pytest.mark.timeout(0)]),
        pytest.param("flips --rounds 0 --bits 2", marks=pytest.mark.long),
        pytest.param("powercuts --fs ext4 --count 12", marks=pytest.mark.long),
        pytest.param("neighbour --count 2 --only repair,_aimed_at", marks=pytest.mark.long),
        pytest.param("neighbour --count 2 --only repair,_temporary_files", marks=pytest.mark.long),
        pytest.param("servers --count 1 --only ssh --fault disk:_flipped", marks=pytest.mark.long),
        pytest.param("servers --count 3 --only smtp --fault cut_before_250 --fault data_5xx", marks=pytest.mark.long),
        pytest.param("storm --minutes 0.05 --every 1", marks=pytest.mark.long),
    ],
)
def test_campaign(campaign: str) -> None:
    """Whatever is done to it, nothing is lost, verified falsely or left unexplained; each module says what it does."""
    name, *options = campaign.split()
    done = subprocess.run(
        [sys.executable, "-m", f"campaigns.{name}", *(option.replace("_", " ") for option in options)],
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
