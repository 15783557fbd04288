"""
The command line: parse, call a job, print. No logic.

Importing this package imports click and nothing else that is slow: each command's module, and what it needs, is loaded
when that command runs, so that ``--help`` answers at once on a small NAS.
"""

from integrity.cli.main import main

__all__ = ["main"]
