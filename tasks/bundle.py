"""bundle: one deterministic archive with its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firmwright.pipeline.inputs import collect_inputs, user_files
from firmwright.pipeline.job import Job
from firmwright.pipeline.lock import check_lock
from firmwright.pipeline.manifest import make_manifest, read_stage_record, record_path
from firmwright.pipeline.stage import INDEX_FILE, Stage

IMAGE_SUFFIXES = ("elf", "bin", "hex", "map")
REPORTING_STAGES = ("quantized", "accuracy", "comparison", "mapping", "artifacts")
"""Stages whose record is a file of the bundle."""


def options(job: Job) -> Any:
    return job.recipe.sha256


def inputs(job: Job) -> list[Path]:
    return [*user_files(job), *job.lock_files]


def run(job: Job, folder: Path) -> None:
    """Write ``manifest.json``, the archive, and the pictures of the first inference with boxes.

    Raises UserError where the build read something else than the recipe's lock says.
    """
    import hashlib

    from firmwright.ir.records import write_record
    from firmwright.report.archive import write_archive
    from firmwright.report.manifest import BundledFile

    read = collect_inputs(job)
    check_lock(job, read)
    for stale in job.outdir.glob(f"{job.bundle_name}-boxes*.png"):
        stale.unlink()
    for drawn, published in job.box_pictures.items():
        (folder / published.name).write_bytes(drawn.read_bytes())
    contents = collect_files(job)
    listed = tuple(
        BundledFile(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in sorted(contents.items())
    )
    write_record(folder / "manifest.json", make_manifest(job, listed, read))
    contents["manifest.json"] = (folder / "manifest.json").read_bytes()
    archive = folder / job.bundle.name
    write_archive(archive, job.bundle_name, contents)
    report_skipped_stages(job)
    print(f"   {job.bundle}: {archive.stat().st_size:,} bytes, {len(contents)} files")


def report_skipped_stages(job: Job) -> None:
    """Say which stages the recipe asks for that this platform or machine cannot run."""
    if job.recipe.compare and not job.has_stage("comparison") and not job.has_stage("mapping"):
        print(
            f"   {job.recipe.name}: nothing to compare: {job.emulator} counts no instructions, and "
            f"{job.platform.name} states no `timing`"
        )
    if job.loadable_build and not job.has_stage("module"):
        makefile = job.folder("sources") / job.recipe.target[-1].name / "Makefile"
        print(
            f"   {job.recipe.name}: {job.loadable_build.toolchain.variable} is not set: no module "
            f"for the chip was built; {makefile} does"
        )


def collect_files(job: Job) -> dict[str, bytes]:
    """Return the archive's files by name: images, reports, and the C project below ``src/``."""
    firmware, project = job.folder("firmware"), job.folder("sources")
    contents = {f"firmware.{i}": (firmware / f"firmware.{i}").read_bytes() for i in IMAGE_SUFFIXES}
    reports = [record_path(job, stage) for stage in REPORTING_STAGES if job.has_stage(stage)]
    contents |= {report.name: report.read_bytes() for report in reports}
    if job.has_stage("stats"):
        contents[f"stats/{job.stats_file}"] = (job.folder("stats") / job.stats_file).read_bytes()
    contents |= {f"src/{name}": data for name, data in files_below(project)}
    contents |= read_artifacts(job) | read_loadable(job)
    if job.has_stage("demo"):
        contents |= {f"src/demo/{name}": data for name, data in files_below(job.folder("demo"))}
    return contents


def read_artifacts(job: Job) -> dict[str, bytes]:
    """Return by name what an accelerator's own tools are given of the regions, or made of them."""
    from firmwright.report.manifest import ArtifactsReport

    made = read_stage_record(job, "artifacts", ArtifactsReport)
    if made is None:
        return {}
    folder = job.folder("artifacts") / made.folder
    return {f"artifacts/{made.folder}/{n}": (folder / n).read_bytes() for n in made.files}


def read_loadable(job: Job) -> dict[str, bytes]:
    """Return the module of the device's own core and its map, where TI's users look for them."""
    from firmwright.report.manifest import ArtifactsReport

    if not job.has_stage("module"):
        return {}
    made = read_stage_record(job, "artifacts", ArtifactsReport)
    place = f"artifacts/{made.folder}/tempDir" if made else "module"
    made_here = files_below(job.folder("module"))
    return {f"{place}/{name}": data for name, data in made_here if name.endswith((".out", ".map"))}


def files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield a stage's files with their names below its folder, sorted."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != INDEX_FILE):
        yield path.relative_to(folder).as_posix(), path.read_bytes()


STAGE = Stage(
    name="bundle",
    sentence="pack firmware, sources and manifest",
    needs=(
        "model",
        "calibration",
        "quantized",
        "accuracy",
        "batch",
        "partition",
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
    options=options,
    inputs=inputs,
    run=run,
    publish=lambda job: [job.bundle, *job.box_pictures.values()],
)
