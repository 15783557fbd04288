"""The command ``integrity``, and ``python -m integrity``."""

import gc
import sys


def main() -> int:
    """Run the command line of this process; return the exit code."""
    # The process is ours. A command makes records by the hundred thousand and hardly any cycles: looked for as often as
    # is usual, they cost a tenth of a scan. What is loaded before a job begins, a hundred thousand objects, is no cause
    # to look either.
    gc.set_threshold(200_000)
    from integrity.cli import main as run  # here, for loading it makes most of these objects

    return run()


if __name__ == "__main__":
    sys.exit(main())
