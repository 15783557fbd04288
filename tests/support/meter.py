"""
Run a command and report what it cost: ``meter.py REPORT COMMAND...``, for ``support.proc.measure``.

Imports as little as can be: its own size is the least that it can report.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main() -> None:
    """Run the command, write the report as JSON, exit with 0."""
    report, command = sys.argv[1], sys.argv[2:]
    began = time.monotonic()
    pid = os.posix_spawnp(command[0], command, os.environ)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # leaves a zombie: /proc/PID/io would go with it
    wall_s = time.monotonic() - began
    with open(f"/proc/{pid}/io", encoding="ascii") as lines:
        io = dict(line.split(": ") for line in lines)
    _, status, usage = os.wait4(pid, 0)
    with open(report, "w", encoding="ascii") as file:
        json.dump(
            {
                "code": os.waitstatus_to_exitcode(status),
                "read_bytes": int(io["read_bytes"]),
                "asked_bytes": int(io["rchar"]),
                "write_bytes": int(io["write_bytes"]),
                "peak_rss_bytes": usage.ru_maxrss * 1024,
                "wall_s": wall_s,
                "cpu_s": usage.ru_utime + usage.ru_stime,
            },
            file,
        )


if __name__ == "__main__":
    main()
