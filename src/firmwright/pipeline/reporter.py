"""doit's console output, with a user's mistake as one plain message."""

from __future__ import annotations

import sys
from typing import Any

from doit.exceptions import TaskFailed
from doit.reporter import ConsoleReporter


class StageReporter(ConsoleReporter):  # type: ignore[misc]
    """Shows tasks as doit does; a failed stage prints its message once, on stderr."""

    desc = "console output with plain error messages"

    def add_failure(self, task: Any, fail: Any) -> None:
        if isinstance(fail, TaskFailed):
            self.outstream.flush()
            print(f"{task.name}: {fail.get_msg()}", file=sys.stderr)
        else:
            super().add_failure(task, fail)
