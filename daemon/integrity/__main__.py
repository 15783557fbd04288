"""Let ``python -m integrity`` be the command ``integrity``."""

import sys

from integrity.cli import main

if __name__ == "__main__":
    sys.exit(main())
