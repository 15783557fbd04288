"""Repairs from a copy on another machine: what crosses the wire, and what becomes of a line that is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Box
from support.planted import age
from support.proxies import LineProxy, LineRules
from support.repairs import BLOCK, CONFIG, blocks, context_of, leftovers, run_repair
from support.shapes import damage
from support.sshbox import SshBox

GOOD = blocks(200)


@pytest.fixture
def root(integrity: Box, tmp_path: Path) -> Path:
    """Record a file of 200 blocks that has a copy, and damage three of them."""
    integrity.configure(CONFIG)
    for place in ("root", "copy"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a").write_bytes(GOOD)
    age(tmp_path / "root/a")
    integrity.run("scan", tmp_path / "root", expect=0)
    damage(tmp_path / "root/a", 5, 100 * BLOCK, 150 * BLOCK)
    integrity.run("scrub", tmp_path / "root", expect=1)
    return tmp_path / "root"


def test_only_the_needed_blocks_cross_the_wire_once(integrity: Box, root: Path, tmp_path: Path, sshd: SshBox) -> None:
    """Three blocks of 64 KiB of a file of 13 MB: with all that SSH adds less than half as much again."""
    with LineProxy(sshd.port) as proxy, context_of(integrity) as context:
        result = run_repair(context, [root / "a"], [sshd.url(tmp_path / "copy", port=proxy.port)])
    assert result.done[0].is_repaired
    assert GOOD == (root / "a").read_bytes()
    assert proxy.received < 4.5 * BLOCK


def test_line_that_is_cut_leaves_the_file_alone(integrity: Box, root: Path, tmp_path: Path, sshd: SshBox) -> None:
    """What could not be fetched is not decided; with another copy the repair goes on."""
    before = (root / "a").read_bytes()
    with LineProxy(sshd.port) as proxy, context_of(integrity) as context:
        proxy.rules = LineRules(cut_after=2 * BLOCK)
        url = sshd.url(tmp_path / "copy", port=proxy.port)
        alone = run_repair(context, [root / "a"], [url])
        assert (1, 0, []) == (alone.summary.incomplete, alone.summary.repaired, alone.done)
        assert before == (root / "a").read_bytes()
        assert not leftovers(root)
        both = run_repair(context, [root / "a"], [url, tmp_path / "copy"])
        assert both.done[0].is_repaired
    assert GOOD == (root / "a").read_bytes()
