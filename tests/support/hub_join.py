"""A box joins a hub, as its owner has it do so."""

from __future__ import annotations

import subprocess

from support.cli import Box, Completed, complete, make_command
from support.smallhub import TOKEN


def join_hub(box: Box, *args: object, token: str = TOKEN, expect: int = 0) -> Completed:
    """Run ``hub join`` with a token on standard input."""
    command = make_command("hub", "join", *map(str, args))
    done = subprocess.run(command, env=box.environment, input=token.encode() + b"\n", capture_output=True, check=False)
    assert expect == done.returncode, done
    return complete(done.returncode, done.stdout, done.stderr, is_json=False)
