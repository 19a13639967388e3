"""sources: the generated C project."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.pipeline.artifacts import (
    BATCH_LAYOUT,
    INTERFACE,
    KERNELS,
    PARTITION,
    PLAN,
    PROJECT,
    WEIGHTS,
)
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.pipeline.network import read_network
from firmwright.pipeline.rewriting import cores_by_device
from firmwright.pipeline.stage import Stage

if TYPE_CHECKING:
    from firmwright.ir.tensors import BatchLayout, ModelInterface
    from firmwright.postprocess.detector import Detector


def options(job: Job) -> Any:
    recipe = job.recipe
    return {
        "name": recipe.name,
        "c_prefix": recipe.c_prefix,
        "cores": cores_by_device(job),
        "platform": asdict(job.platform),
        "build": job.build_settings,
        "module": asdict(job.loadable_build) if job.loadable_build else None,
        "detection": recipe.canonical.get("detection"),
        "demo": recipe.canonical.get("demo"),
        "libraries": recipe.canonical.get("libraries"),
    }


def inputs(job: Job) -> list[Path]:
    return [*job.device_files, *job.recipe.list_files("postprocess", "libraries")]


def templates(job: Job) -> list[str]:
    used = ["network", "application", "runtime", "project", "libraries"]
    used.append("boards/*")  # they include each other
    if not job.build.settings.libc:
        used.append("freestanding")
    if job.recipe.detection:
        used.append("postprocess")
    owners = {part for pair in cores_by_device(job).items() for part in pair if part}
    return [*(f"{folder}/*.j2" for folder in used), *(f"{owner}/**/*.j2" for owner in owners)]


def make_detector(
    job: Job, interface: ModelInterface, batch: BatchLayout | None
) -> Detector | None:
    """Fit the recipe's detection to the network's outputs."""
    from firmwright.postprocess.classes import read_class_names
    from firmwright.postprocess.detector import fit_detector

    detection = job.recipe.detection
    if detection is None:
        return None
    classes = len(read_class_names(detection.classes, job.data_folders))
    return fit_detector(detection, classes, interface.outputs, batch)


def run(job: Job, folder: Path) -> None:
    """Write the project: C sources, headers, linker script, Makefile."""
    from firmwright.ir.records import read_record
    from firmwright.planning import Plan
    from firmwright.project.module import write_loadable
    from firmwright.project.write import write_project

    network = read_network(job, read_record(job.folder("plan") / "plan.json", Plan))
    detector = make_detector(job, network.interface, network.batch)
    network = replace(network, detector=detector, demo=job.recipe.demo)
    own_templates = tuple(template_folders(job.recipe).values())
    variables = write_project(network, job.build, folder, own_templates)
    if job.loadable_build:
        write_loadable(variables, job.loadable_build, job.recipe.target[-1].name, folder)
    if not job.platform.emulators:
        project, platform = job.folder("sources"), job.platform.name
        print(f"   {job.recipe.name}: {platform} has no emulator; {project}/Makefile builds it")


STAGE = Stage(
    name="sources",
    sentence="write the C project",
    run="firmwright.tasks.sources:run",
    reads=(INTERFACE, BATCH_LAYOUT, PARTITION, KERNELS, WEIGHTS, PLAN),
    writes=(PROJECT,),
    options=options,
    inputs=inputs,
    templates=templates,
    archive=lambda job: PROJECT.pack(job, "src/"),
)
