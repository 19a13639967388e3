"""Runs the command ``firmwright``. Every error, even in an import, is reported in one line."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Run one command. Return the exit code, which is 130 if the user interrupted the command."""
    try:
        from firmwright.process import catch_signals, open_streams, tell_end

        open_streams()
        catch_signals()
        try:
            try:
                from firmwright.cli import main as run  # this import takes 0.2 s

                return run()
            finally:
                sys.stdout.flush()
        except Exception as error:
            return tell_end(error)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    # `python -m` puts the current folder first in the path; the command `firmwright` does not.
    if sys.path[0] == str(Path.cwd()):
        del sys.path[0]
    sys.exit(main())
