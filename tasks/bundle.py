"""bundle: one deterministic archive with its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .jobs import Job
from .lock import all_that_is_read, check, user_files
from .stage import INDEX, Stage

if TYPE_CHECKING:
    from firmwright.bundle.manifest import BundledFile, Manifest
    from firmwright.lock import Lock

Record = TypeVar("Record")
IMAGES = ("elf", "bin", "hex", "map")
REPORTS = {"quantized": "quantization.json", "accuracy": "accuracy.json",
           "comparison": "comparison.json", "mapping": "mapping.json",
           "artifacts": "artifacts.json"}  # fmt: skip
"""Files of stages that not every recipe has."""


def options(job: Job) -> Any:
    return job.recipe.sha256


def inputs(job: Job) -> list[Path]:
    return [*user_files(job), *job.locks]


def run(job: Job, folder: Path) -> None:
    """Write ``manifest.json``, the archive, and the first sample's picture with its boxes.

    Raises UserError where the build read something else than the recipe's lock says.
    """
    import hashlib

    from firmwright.bundle.archive import write_archive
    from firmwright.bundle.manifest import BundledFile
    from firmwright.records import write_record

    read = all_that_is_read(job)
    check(job, read)
    for picture in job.boxes_pictures:
        picture_of_run = job.folder("run") / "boxes-0.png"
        (folder / picture.name).write_bytes(picture_of_run.read_bytes())
    contents = collect(job)
    listed = tuple(
        BundledFile(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in sorted(contents.items())
    )
    write_record(folder / "manifest.json", manifest(job, listed, read))
    contents["manifest.json"] = (folder / "manifest.json").read_bytes()
    archive = folder / job.bundle.name
    write_archive(archive, job.bundle_name, contents)
    if job.recipe.compare and not job.has("comparison") and not job.has("mapping"):
        print(
            f"   {job.recipe.name}: nothing to compare: {job.emulator} counts no instructions, and "
            f"{job.platform.name} states no `timing`"
        )
    if job.module and not job.has("module"):
        makefile = job.folder("sources") / job.recipe.target[-1].name / "Makefile"
        print(
            f"   {job.recipe.name}: {job.module.toolchain.variable} is not set: no module for the "
            f"chip was built; {makefile} does"
        )
    print(f"   {job.bundle}: {archive.stat().st_size:,} bytes, {len(contents)} files")


def collect(job: Job) -> dict[str, bytes]:
    """Return the archive's files by name: images, reports, and the C project below ``src/``."""
    firmware, project = job.folder("firmware"), job.folder("sources")
    contents = {f"firmware.{i}": (firmware / f"firmware.{i}").read_bytes() for i in IMAGES}
    for stage, name in REPORTS.items():
        if job.has(stage):
            contents[name] = (job.folder(stage) / name).read_bytes()
    if job.has("stats"):
        contents[f"stats/{job.stats_file}"] = (job.folder("stats") / job.stats_file).read_bytes()
    contents |= {f"src/{name}": data for name, data in files_below(project)}
    contents |= artifacts(job) | module(job)
    if job.has("demo"):
        contents |= {f"src/demo/{name}": data for name, data in files_below(job.folder("demo"))}
    return contents


def artifacts(job: Job) -> dict[str, bytes]:
    """Return by name what an accelerator's own tools are given of the regions, or made of them."""
    from firmwright.bundle.manifest import ArtifactsReport

    made = report(job, "artifacts", ArtifactsReport)
    if made is None:
        return {}
    folder = job.folder("artifacts") / made.folder
    return {f"artifacts/{made.folder}/{n}": (folder / n).read_bytes() for n in made.files}


def module(job: Job) -> dict[str, bytes]:
    """Return the module of the device's own core and its map, where TI's users look for them."""
    from firmwright.bundle.manifest import ArtifactsReport

    if not job.has("module"):
        return {}
    made = report(job, "artifacts", ArtifactsReport)
    place = f"artifacts/{made.folder}/tempDir" if made else "module"
    made_here = files_below(job.folder("module"))
    return {f"{place}/{name}": data for name, data in made_here if name.endswith((".out", ".map"))}


def files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield a stage's files with their names below its folder, sorted."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != INDEX):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


def manifest(job: Job, files: tuple[BundledFile, ...], read: Lock) -> Manifest:
    """Gather what the earlier stages recorded."""
    from firmwright.bundle.manifest import (
        MANIFEST_VERSION,
        AccuracyReport,
        Arithmetic,
        ArtifactsReport,
        BatchReport,
        InputsReport,
        Manifest,
        MemoryReport,
        ModelSource,
        QuantizationReport,
        RunReport,
        Source,
    )
    from firmwright.codegen.kernel import Kernels
    from firmwright.cycles.comparison import Comparison
    from firmwright.cycles.mappings import Mappings
    from firmwright.cycles.timeline import Timeline
    from firmwright.models import ModelInterface
    from firmwright.partition import Partition
    from firmwright.planning import Plan
    from firmwright.planning.batch import BatchChoice
    from firmwright.postprocess.report import DetectionReport
    from firmwright.records import read_record
    from firmwright.toolchain.image import MemoryUse
    from firmwright.verify.record import RunRecord

    interface = read_record(job.folder("model") / "model.json", ModelInterface)
    kernels = read_record(job.folder("kernels") / "kernels.json", Kernels)
    plan = read_record(job.folder("plan") / "plan.json", Plan)
    partition = read_record(job.folder("partition") / "partition.json", Partition)
    memory = read_record(job.folder("firmware") / "memory.json", MemoryUse)
    record = read_record(job.folder("run") / "run.json", RunRecord)
    boxes = job.folder("run") / "boxes.json"
    stats = job.folder("stats") / "stats.json"
    return Manifest(
        manifest_version=MANIFEST_VERSION,
        name=job.recipe.name,
        platform=job.platform.name,
        target=", ".join(str(d) for d in job.recipe.target),
        model=ModelSource(interface.format, interface.sha256),
        recipe=Source(job.recipe.sha256),
        files=files,
        arithmetic=Arithmetic(
            job.recipe.rounding, kernels.quantised_operators, kernels.float_operators
        ),
        memory=MemoryReport(
            memory.flash_bytes,
            memory.ram_bytes,
            plan.arena_bytes,
            plan.arena_lower_bound_bytes,
            plan.memories,
            partition.copied_bytes,
        ),
        batch=(
            BatchReport(**asdict(read_record(job.folder("batch") / "batch.json", BatchChoice)))
            if job.has("batch")
            else None
        ),
        run=RunReport(
            emulator=record.emulator,
            reference=record.reference,
            instructions=record.instructions,
            macs=record.macs,
            samples=record.samples,
            mismatches=record.agreement.mismatches,
            differences=record.agreement.differences,
            values=record.agreement.elements,
            max_difference=record.agreement.max_difference,
            tolerance=record.tolerance,
            counts=record.counts,
        ),
        inputs=InputsReport(read.files, read.samples),
        stand_ins={k.region: k.stand_in for k in kernels.kernels if k.stand_in},
        versions=read.versions,
        detection=read_record(boxes, DetectionReport) if boxes.exists() else None,
        quantization=report(job, "quantized", QuantizationReport),
        accuracy=report(job, "accuracy", AccuracyReport),
        cycles=read_record(stats, Timeline) if job.has("stats") else None,
        comparison=report(job, "comparison", Comparison),
        mapping=report(job, "mapping", Mappings),
        artifacts=report(job, "artifacts", ArtifactsReport),
    )


def report(job: Job, stage: str, kind: type[Record]) -> Record | None:
    """Return the part of a stage's record that the manifest shows; None without the stage."""
    from firmwright.records import read_record

    if not job.has(stage):
        return None
    return read_record(job.folder(stage) / REPORTS[stage], kind)


STAGE = Stage(
    name="bundle",
    sentence="pack firmware, sources and manifest",
    needs=(
        "model",
        "calibration",
        "quantized",
        "accuracy",
        "batch",
        "artifacts",
        "kernels",
        "plan",
        "sources",
        "module",
        "firmware",
        "run",
        "stats",
        "comparison",
        "mapping",
        "demo",
    ),
    code=("bundle", "lock.py", "records.py"),
    options=options,
    inputs=inputs,
    run=run,
    publish=lambda job: [job.bundle, *job.boxes_pictures],
)
