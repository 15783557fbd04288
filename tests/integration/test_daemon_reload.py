"""SIGHUP: a good configuration is taken over while work goes on, a bad one is refused and the former stays."""

from __future__ import annotations

import os
from pathlib import Path

from support.cli import Box
from support.planted import plant
from support.service import Service
from support.smtpsink import SmtpSink, mail_toml
from support.stored import count_rows, query
from support.waiting import wait_until

NEVER = "0 0 29 feb *"
ALWAYS = "00:00-24:00"


def write(box: Box, *roots: Path, scrub: str = NEVER, more: str = "") -> None:
    """Write the configuration anew."""
    text = "".join(f'[[root]]\npath = "{root}"\nsettle = "1s"\n' for root in roots)
    box.configure(f'{text}[schedule]\nscrub = "{scrub}"\n{more}\n')


def states(box: Box) -> dict[str, str]:
    """Return the state of each root by the name of its folder."""
    rows = query(box, "SELECT path, state FROM root")
    return {os.path.basename(os.fsdecode(bytes(path))): str(state) for path, state in rows if isinstance(path, bytes)}


def test_good_configuration_is_taken_over(integrity: Box, tmp_path: Path) -> None:
    """A new root is scanned and watched, a window that opens is used, mail goes where it is told to."""
    old, new = plant(tmp_path / "old", 10), plant(tmp_path / "new", 20)
    write(integrity, old)
    with SmtpSink() as sink, Service(integrity) as service:
        service.wait_begun()
        write(
            integrity,
            old,
            new,
            scrub=ALWAYS,
            more=f'{mail_toml(sink.port)}[alerts]\ngroup = "0s"\n[defaults]\npolicy = "archive"\n',
        )
        service.reload()
        assert "reloaded roots=2" in service.log
        assert any(message.startswith("RELOADING=1") for message in service.messages)

        wait_until(lambda: count_rows(integrity) == 30, "the new root's files", every_s=0.05)
        unverified = "SELECT 1 FROM file WHERE verified_at IS NULL"
        wait_until(lambda: not query(integrity, unverified), "all verified", every_s=0.05)
        (new / "late.txt").write_text("late")
        wait_until(lambda: count_rows(integrity) == 31, "a watched folder", every_s=0.05)
        (old / "d0/0.txt").unlink()
        wait_until(lambda: bool(sink.received), "a mail")
        service.stop()
    assert "old/d0/0.txt" in sink.received[0].text
    assert 1 == service.log.count("no_channel: nobody will be told of damage")  # before the reload, once


def test_bad_configuration_is_refused(integrity: Box, tmp_path: Path) -> None:
    """The log names file, line and key; the service goes on as before, and takes a mended one later."""
    root, other = plant(tmp_path / "root", 10), plant(tmp_path / "other", 5)
    write(integrity, root)
    with Service(integrity) as service:
        service.wait_begun()
        for broken in ('[schedule]\nscrub = "25:00-26:00"', "[[root", '[[root]]\npath = "relative"', "typo = 1"):
            integrity.configure(f'[[root]]\npath = "{other}"\n{broken}\n')
            service.reload()
        integrity.configure(f'catalog = "{tmp_path}/another.db"\n[[root]]\npath = "{other}"\n')
        service.reload()
        assert 5 == service.log.count("reload_refused")
        assert "25:00" in service.log
        assert "typo" in service.log

        (root / "late.txt").write_text("late")
        wait_until(lambda: count_rows(integrity) == 11, "the former root", every_s=0.05)
        assert {"root": "active"} == states(integrity)
        write(integrity, root, other)
        service.reload()
        wait_until(lambda: count_rows(integrity) == 16, "both roots", every_s=0.05)
        service.stop()


def test_root_that_is_taken_out_is_paused_and_put_back_resumed(integrity: Box, tmp_path: Path) -> None:
    """
    Nothing is forgotten meanwhile, nothing looked at either; afterwards what happened is found.

    A root that a command made, or that was paused by hand, is left alone.
    """
    stays, leaves = plant(tmp_path / "stays", 5), plant(tmp_path / "leaves", 7)
    made, stopped = plant(tmp_path / "made", 1), plant(tmp_path / "stopped", 1)
    integrity.run("scan", made, stopped, expect=0)
    integrity.run("root", "pause", stopped, expect=0)
    others = {"made": "active", "stopped": "paused"}
    write(integrity, stays, leaves, stopped)
    with Service(integrity) as service:
        service.wait_begun(roots=2)
        wait_until(lambda: count_rows(integrity) == 14, "both roots", every_s=0.05)
        write(integrity, stays)
        service.reload()
        assert {"stays": "active", "leaves": "paused", **others} == states(integrity)
        (leaves / "unseen.txt").write_text("unseen")
        (stays / "seen.txt").write_text("seen")
        wait_until(lambda: count_rows(integrity) == 15, "what is still watched", every_s=0.05)

        write(integrity, stays, leaves, stopped)
        service.reload()
        assert {"stays": "active", "leaves": "active", **others} == states(integrity)
        wait_until(lambda: count_rows(integrity) == 16, "what came meanwhile", every_s=0.05)
        service.stop()
    names = {row[0] for row in query(integrity, "SELECT name FROM file")}
    assert {b"seen.txt", b"unseen.txt"} <= names
