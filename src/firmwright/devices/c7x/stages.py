"""Defines the pipeline stage that builds the loadable of the C7x."""

from __future__ import annotations

import os
from pathlib import Path

from firmwright.devices.c7x import C7X
from firmwright.devices.c7x.loadable import make_loadable_build
from firmwright.devices.tidl import TIDL
from firmwright.devices.tidl.stages import RECORD, has_tools
from firmwright.pipeline.artifacts import KERNELS, PROJECT
from firmwright.pipeline.declaration import ALL
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import find_extra_archives, name_archives
from firmwright.pipeline.tool_stamps import collect_settings, compiler_tool
from firmwright.toolchain import Build, Toolchain, load_toolchain


def find_toolchain(job: Job) -> Toolchain | None:
    """Return the compiler of the loadable, or None if the build makes no loadable."""
    name = None if job.origin else job.platform.modules.get(C7X.name)
    return None if name is None else load_toolchain(name)


def applies(job: Job) -> bool:
    toolchain = find_toolchain(job)
    installed = toolchain is not None and bool(os.environ.get(toolchain.variable))
    return installed and not lacks_networks(job)


def lacks_networks(job: Job) -> bool:
    """Return whether the loadable has stand-ins for networks that TI's tools compiled."""
    return has_tools() and any(device.name == TIDL.name for device in job.mix)


def explain_absence(job: Job) -> str:
    toolchain = find_toolchain(job)
    if toolchain is None:
        return ""
    if lacks_networks(job):
        return (
            "no loadable for the chip was built, because C would replace the networks of TI's "
            "tools; `target: tidl, c` runs them, by TIDL-RT"
        )
    makefile = PROJECT.path(job) / C7X.name / "Makefile"
    return f"{toolchain.variable} is not set: no loadable for the chip was built; {makefile} does"


def get_build(job: Job) -> Build:
    build = make_loadable_build(job.platform)
    assert build is not None  # the stage applies only to platforms with a loadable
    return build


def inputs(job: Job) -> list[Path]:
    return [archive for archive in find_extra_archives(job) if archive.is_file()]


def list_archive(job: Job) -> dict[str, Path]:
    made = RECORD.read(job) if job.has_stage(RECORD.stage) else None
    shown = f"artifacts/{made.folder}/tempDir" if made else "module"
    paths = [p for p in job.folder("loadable").iterdir() if p.suffix in (".out", ".map")]
    return {f"{shown}/{path.name}": path for path in paths}


LOADABLE = Stage(
    name="loadable",
    sentence="build the loadable of the C7x",
    run="firmwright.devices.c7x.build_loadable:run",
    reads=(KERNELS, PROJECT),
    keys=("c_prefix",),
    platform=ALL,
    facts={"build": lambda job: collect_settings(get_build(job)), "archives": name_archives},
    inputs=inputs,
    tools=lambda job: [compiler_tool(get_build(job))],
    condition="a platform whose C7x loads a module",
    applies=applies,
    explain_absence=explain_absence,
    archive=list_archive,
)
