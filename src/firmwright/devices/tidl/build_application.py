"""Write the program for the chip that runs what TI's tools made, with their files next to it."""

from __future__ import annotations

import shutil
from pathlib import Path

from firmwright.devices.tidl.application import write_application
from firmwright.devices.tidl.artifacts import TEMP_FOLDER
from firmwright.devices.tidl.names import RegionFiles
from firmwright.devices.tidl.stages import RECORD
from firmwright.pipeline.artifacts import PLAN
from firmwright.pipeline.job import Job


def run(job: Job, folder: Path) -> None:
    record = RECORD.read(job)
    if not record.regions:
        job.note("no region of TIDL: nothing to run by TIDL-RT")
        return
    regions = {region.region: region for region in record.regions}
    steps = [step.region for step in PLAN.read(job).schedule.steps]
    called = [regions[name] for name in steps if name in regions]
    recipe = job.recipe
    write_application(recipe.name, recipe.c_prefix, job.platform.name, called, folder)
    made = RECORD.path(job).parent / record.folder / TEMP_FOLDER
    for name in (n for r in record.regions for n in RegionFiles(r.number).tool_files):
        shutil.copyfile(made / name, folder / name)
    count = f"{len(called)} region{'s' if len(called) != 1 else ''}"
    job.note(
        f"{count} by TIDL-RT, from the files of TI's tools {record.tools}; no "
        "stand-in is in it; not compiled here: its Makefile does, with the SDK in TIDL_RT_PATH"
    )
