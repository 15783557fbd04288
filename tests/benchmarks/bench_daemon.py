"""
What the idle service costs: memory with 100,000 files in 10,000 watched folders, and processor time over a minute.

``python tests/benchmarks/bench_daemon.py [FOLDER]``; the tree is made in FOLDER (a temporary one) and removed again.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.cli import Box
from support.service import Service
from support.stored import count_rows
from support.waiting import wait_until

FOLDERS, FILES = 10_000, 100_000
MINUTE_S = 60.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Make the tree, run the service, print a line for each state."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as home:
        box = Box(Path(home) / "home")
        root = Path(home) / "root"
        for nth in range(FOLDERS):
            folder = root / f"{nth // 100}" / f"{nth % 100}"
            folder.mkdir(parents=True)
            for number in range(FILES // FOLDERS):
                (folder / f"{number}.txt").write_text(f"{nth} {number}\n")
        box.configure(f'[[root]]\npath = "{root}"\n[schedule]\nscrub = "mon 00:00-00:01"\n')
        with Service(box, is_shared=False) as service:
            _tell(service, "ready")
            wait_until(lambda: count_rows(box) == FILES, "all files recorded", timeout_s=600, every_s=0.5)
            service.wait_begun()
            _tell(service, "recorded")
            _idle(service)
            box.run("scrub", expect=0, timeout=600)
            _tell(service, "scrubbed")
            service.stop()
        with Service(box, is_shared=False) as service:
            service.wait_begun()
            _tell(service, "started anew")
            _idle(service)
            service.stop()


def _idle(service: Service) -> None:
    before = _cpu_s(service.pid)
    wait_until(_after(MINUTE_S), "a minute", timeout_s=2 * MINUTE_S, every_s=0.5)
    used_s = _cpu_s(service.pid) - before
    _tell(service, f"idle for {MINUTE_S:.0f} s: {used_s:.2f} s of processor time, {100 * used_s / MINUTE_S:.3f} %")


def _after(duration_s: float) -> Callable[[], bool]:
    end = time.monotonic() + duration_s
    return lambda: time.monotonic() >= end


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _tell(service: Service, state: str) -> None:
    lines = Path(f"/proc/{service.pid}/status").read_text(encoding="utf-8").splitlines()
    sizes = dict(line.split(":", 1) for line in lines)
    resident, most, threads = (sizes[name].split()[0] for name in ("VmRSS", "VmHWM", "Threads"))
    print(
        f"{int(resident) / 1024:6.1f} MiB resident, {int(most) / 1024:6.1f} at most, {threads} threads: {state}",
        flush=True,
    )


if __name__ == "__main__":
    main()
