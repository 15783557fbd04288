"""What a job has used goes back to the system."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import threading
from integrity.service.memory import be_small, give_back

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4 // 1024

be_small()
before = resident()
kept = []
def work():
    rows = [bytes(600 + n % 50) for n in range(60_000)]
    kept.append(rows[::10_000])  # what stays here and there keeps a heap from shrinking by itself
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
give_back()
print(resident() - before)
"""


def test_memory_of_a_job_goes_back():
    """Some hundred megabytes in rows, of which next to nothing is left resident."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 25
