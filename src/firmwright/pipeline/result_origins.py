"""Writes the origins of stage results next to the manifest of the bundle.

The bytes of a bundle must not depend on the origins, so the bundle does not contain the file.
"""

from __future__ import annotations

import json
from collections.abc import Container

from doit.globals import Globals

from firmwright.documents.whole_file import write_whole

from .job import Job

FILE = "origins.json"
"""The name of the file in the folder of the stage ``bundle``."""

HERE = "this build folder"
"""The origin of a result that was built, not restored."""
OTHER_JOB = "another job of this fleet"
"""The origin of a result in the temporary folder of a fleet's results."""


def write_origins(job: Job, done: Container[str]) -> None:
    """Write the origin of each result: this build, or an entry of the shared cache.

    ``done`` contains the names of the tasks that ran or were up to date. doit has loaded only the
    records of these tasks, and doit's state is closed. Raises UserError if the file cannot be
    written.
    """
    jobs = [*job.all_jobs, *job.members]
    names = dict.fromkeys(name for each in jobs for name in each.list_tasks() if name in done)
    origins = {name: Globals.dep_manager.get_values(name).get("taken") or HERE for name in names}
    text = json.dumps({"stages": origins}, indent=1) + "\n"
    write_whole(job.folder("bundle") / FILE, text.encode())
