"""``scan`` and ``scrub`` as their users see them: exit codes, objects, silence, odd names, interruption."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integrity.cli.console import stop_on_signals
from support.cli import Box, make_command
from support.privileges import as_nobody
from support.shapes import damage


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with three files, one of several blocks."""
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    (folder / "small").write_bytes(b"small")
    (folder / "sub" / "other").write_bytes(b"other")
    (folder / "large").write_bytes(os.urandom(3_000_000))
    return folder


def test_quiet_is_silent_when_all_is_well(integrity: Box, data: Path) -> None:
    """Cron sends no mail about nothing."""
    for words in (["scan", data], ["scrub", data], ["scrub", "--due"], ["status"], ["findings"]):
        done = integrity.run("-q", *words, expect=0)

        assert ("", "") == (done.stdout, done.stderr)


def test_damage_is_1_with_block_and_bytes(integrity: Box, data: Path) -> None:
    """A byte that changed under an unchanged time of modification is found, named and explained."""
    integrity.run("scan", data, expect=0)
    damage(data / "large", 1_500_000)
    done = integrity.run("--json", "scrub", data, expect=1)
    (finding,) = done.findings

    assert ("silent_rewrite", str(data / "large"), str(data)) == (finding["kind"], finding["path"], finding["root"])
    assert ([1], [[1 << 20, 1 << 20]]) == (finding["blocks"], finding["ranges"])
    assert ("findings", 1, 2) == (
        done.summary["outcome"],
        done.summary["files_damaged"],
        done.summary["files_verified"],
    )
    assert finding["id"] == integrity.findings("findings", expect=1)[0]["id"]
    (story,) = integrity.json("explain", data / "large", expect=1)
    assert "file" == story["type"]
    assert "bytes 1,048,576 to 2,097,151" in integrity.run("explain", data / "large", expect=1).stdout
    integrity.run("explain", data / "small", expect=0)


def test_names_of_any_bytes_are_taken_and_told(integrity: Box, data: Path) -> None:
    """A name that is no text can be given, is recorded, and comes back beside its text."""
    name = os.fsencode(data) + b"/-bad\xff\nname"
    with open(name, "wb") as file:
        file.write(b"x")
    integrity.run("scan", os.fsencode(data), expect=0)
    (story,) = integrity.json("explain", name, expect=0)
    inside = integrity.run("explain", "--", b"-bad\xff\nname", cwd=data, expect=0)

    assert name == base64.b64decode(str(story["path_b64"]))
    assert "\\xff" in str(story["path"])
    assert "-bad\\xff\\nname" in inside.stdout


def test_catalog_that_may_not_be_looked_at_is_not_called_missing(integrity: Box, data: Path) -> None:
    """Another user's catalog is told as such, instead of an invitation to begin one."""
    integrity.run("scan", data, expect=0)
    environment = integrity.environment | {"INTEGRITY_CONFIG": os.devnull}
    integrity.home.chmod(0 if os.geteuid() else 0o700)
    with as_nobody():
        can_run = os.access(sys.executable, os.X_OK, effective_ids=True)
    if not can_run:
        pytest.skip(f"another user may not run this Python: {sys.executable}")
    with as_nobody():
        done = subprocess.run(make_command("status"), env=environment, capture_output=True, text=True)
    integrity.home.chmod(0o700)

    assert done.returncode == 4
    assert "Permission denied" in done.stderr


def test_lost_catalog_with_backups_is_not_begun_anew(integrity: Box, data: Path) -> None:
    """A new catalog would take all that rotted since for good."""
    integrity.run("scan", data, expect=0)
    integrity.run("catalog", "backup", expect=0)
    integrity.catalog.unlink()
    done = integrity.run("scan", data, expect=4)

    assert "integrity catalog restore" in done.stderr
    assert not integrity.catalog.exists()


def test_signals_set_the_event_first_and_are_put_back() -> None:
    """The first signal asks; what was in force before is in force again afterwards."""
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()

    assert before == signal.getsignal(signal.SIGTERM)


def test_second_signal_ends_the_process() -> None:
    """Whoever insists is obeyed at once."""
    program = (
        "import signal\nfrom integrity.cli.console import stop_on_signals\n"
        "with stop_on_signals():\n  signal.raise_signal(signal.SIGTERM)\n  signal.raise_signal(signal.SIGTERM)\n"
        "print('still here')"
    )
    done = subprocess.run([*make_command()[:1], "-c", program], capture_output=True, check=False)

    assert (-signal.SIGTERM, b"") == (done.returncode, done.stdout)


def test_unknown_error_is_one_line_that_calls_itself_a_bug(integrity: Box, data: Path) -> None:
    """No user sees a traceback who did not ask for it with -v."""
    program = (
        "import sys\nfrom integrity.cli import main\nfrom integrity.cli.session import Session\n"
        "Session.open_catalog = None\nsys.exit(main(sys.argv[1:]))"
    )
    command = [*make_command()[:1], "-c", program]
    quiet = subprocess.run([*command, "status"], env=integrity.environment, capture_output=True, text=True)
    loud = subprocess.run([*command, "-v", "status"], env=integrity.environment, capture_output=True, text=True)

    assert (3, 1) == (quiet.returncode, len(quiet.stderr.splitlines()))
    assert "this is a bug in integrity: TypeError" in quiet.stderr
    assert "Traceback" in loud.stderr


def test_json_lines_are_compact_objects(integrity: Box, data: Path) -> None:
    """One object a line, and nothing else on stdout."""
    lines = integrity.run("--json", "scan", data, expect=0).stdout.splitlines()

    assert lines
    assert all(line == json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False) for line in lines)
