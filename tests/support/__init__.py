"""
The fault rig: real disks, clocks and processes that misbehave to order, and the runner of the program under test.

Everything here cleans up after itself, also when the test fails. Most of it needs root on Linux; ``conftest.py`` says
what a machine lacks. Nothing here knows the inside of integrity: tests of the rig itself are in
``integration/test_rig.py``.
"""

from __future__ import annotations

import os

AnyPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""What the rig takes as a path; what it gives is bytes, as in the program (R10)."""
