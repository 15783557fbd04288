"""The lowest I/O class and some niceness are asked for; a refusal is no failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.programs import find_missing

SCRIPT = """
import os, threading
from integrity.files.system_load import be_idle, get_io_class
{nice} and os.nice({nice})
print(be_idle(), get_io_class(), os.getpriority(os.PRIO_PROCESS, 0))
thread = threading.Thread(target=lambda: print(get_io_class(), os.getpriority(os.PRIO_PROCESS, 0)))
thread.start()
thread.join()
"""


def run(nice: int, *prefix: str) -> list[str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = [*prefix, sys.executable, "-c", SCRIPT.format(nice=nice)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_process_and_its_later_threads_are_idle_and_nice():
    """Class 3 is idle; threads inherit both."""
    nice = max(10, os.nice(0))

    assert [f"True 3 {nice}", f"3 {nice}"] == run(0)


def test_greater_niceness_is_left_alone():
    """A unit may have asked for more."""
    assert ["True 3 19", "3 19"] == run(19)


@pytest.mark.skipif(bool(find_missing("strace")), reason="missing here: strace")
def test_refusal_is_told_not_raised(tmp_path: Path) -> None:
    """A unit's seccomp filter answers with EPERM: the daemon goes on."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ioprio_set,setpriority"]
    first, _ = run(0, *strace, "-e", "inject=ioprio_set,setpriority:error=EPERM")

    assert f"False 0 {os.nice(0)}" == first
