"""The command ``firmwright``, which ctrl-C ends with one line from its first import on."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run one command; return its exit code, or 130 where the user ended it."""
    try:
        from firmwright.cli import main as run  # takes a fifth of a second

        return run()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    # `python -m` puts the current folder first; the command `firmwright` does not have it.
    if sys.path[0] == str(Path.cwd()):
        del sys.path[0]
    sys.exit(main())
