"""Where the results of a build's stages came from, beside the manifest of its bundle.

A bundle has the same bytes wherever they came from, so this lies in no bundle.
"""

from __future__ import annotations

import json
from collections.abc import Container

from doit.globals import Globals

from firmwright.documents.whole_file import write_whole

from .job import Job

FILE = "origins.json"
"""In the folder of the stage ``bundle``."""

HERE = "this build folder"
"""The origin of a result that was made, not taken."""


def write_origins(job: Job, done: Container[str]) -> None:
    """Write where each result came from: made here, or taken from which entry of a shared cache.

    ``done`` are the names of the tasks that ran or were up to date. doit has read what it knows of
    these alone, and its state is closed. UserError where the file cannot be written.
    """
    jobs = [*job.all_jobs, *job.members]
    names = dict.fromkeys(name for each in jobs for name in each.list_tasks() if name in done)
    origins = {name: Globals.dep_manager.get_values(name).get("taken") or HERE for name in names}
    text = json.dumps({"stages": origins}, indent=1) + "\n"
    write_whole(job.folder("bundle") / FILE, text.encode())
