"""``integrity setup``, killed right before each of its calls that change something."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from integrity.config import load_config
from support.killpoints import is_possible
from support.setupbox import SetupBox, fill

# A process of its own, for a fork must have one thread only: it kills setup at each call, and tells what was left.
_SCRIPT = """
import json, os, shutil, sys
sys.path.insert(0, sys.argv[1])
from support.cli import run_here
from support.killpoints import run_forked
folder, root = sys.argv[2:]
command = ["setup", "--yes", "--no-test", "--root", root, "--no-copies", "--mail-server", "smtp://127.0.0.1:1"]
run_here([*command, "--mail-to", "none"], dict(os.environ))
number, was_killed, outcomes = 0, True, {}
while was_killed:
    number += 1
    shutil.rmtree(folder, ignore_errors=True)
    run = run_forked([[*command, "--mail-to", "me@example.org"]], {}, kill_at=number)
    was_killed, path = run.was_killed, folder + "/integrity.toml"
    left = open(path).read() if os.path.exists(path) else None
    if left not in outcomes:
        again = run_forked([[*command, "--mail-to", "me@example.org"]], {}).completed[0]
        outcomes[left] = again.code, open(path).read()
    print(json.dumps([was_killed, left, *outcomes[left]]))
"""


class Kill(NamedTuple):
    """A run that was killed, or ended before: the configuration that it left, and what the next run made of that."""

    was_killed: bool
    left: str | None
    code: int
    then: str


@pytest.mark.skipif(not is_possible(), reason="needs x86-64")
def test_configuration_is_whole_or_not_there(tmp_path: Path) -> None:
    """Whenever setup is killed, and the next run completes what is missing."""
    fill(tmp_path / "root", 3, "odt", age_days=1)
    machine = SetupBox(tmp_path / "home", {})
    arguments = [str(Path(__file__).parents[1]), str(machine.config.parent), str(tmp_path / "root")]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills = [Kill(*json.loads(line)) for line in done.stdout.splitlines() if line.startswith("[")]
    whole = kills[-1].then

    print(f"{len(kills)} kills")
    assert len(kills) > 5
    assert {None, whole} == {kill.left for kill in kills}
    assert {(0, whole)} == {(kill.code, kill.then) for kill in kills}
    assert bytes(tmp_path / "root") == load_config(bytes(machine.config)).roots[0].path
