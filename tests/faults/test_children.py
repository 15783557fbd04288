"""Programs that the service starts: none may do what the service may."""

from __future__ import annotations

import subprocess

import pytest

from support.cli import Box, make_command
from support.machine import need_programs
from support.privileges import NOBODY

CAPABILITIES = "+dac_read_search,+lease"


@pytest.mark.root
def test_command_of_an_alert_has_no_capability(nobodys_box: Box) -> None:
    """What systemd gives the service, which reads every file, the commands that tell of findings do not inherit."""
    need_programs("setpriv")
    told = nobodys_box.home / "told"
    nobodys_box.configure(
        f'[alerts]\ncommand = ["sh", "-c", "cat > /dev/null; grep ^Cap /proc/self/status > {told}"]\n'
    )
    nobodys_box.home.joinpath("integrity.toml").chmod(0o644)
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    command += [f"--inh-caps={CAPABILITIES}", f"--ambient-caps={CAPABILITIES}", *make_command("daemon", "--self-test")]

    done = subprocess.run(command, env=nobodys_box.environment, capture_output=True, check=False)

    sets = dict(line.split(":\t") for line in told.read_text().splitlines())
    assert {"CapInh", "CapPrm", "CapEff", "CapAmb"} < set(sets), done.stderr
    assert {"0" * 16} == {sets[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
