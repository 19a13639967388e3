"""bundle: one deterministic archive with its manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from firmwright.ir.records import write_record
from firmwright.pipeline.inputs import collect_inputs
from firmwright.pipeline.job import Job
from firmwright.pipeline.lock import check_lock
from firmwright.pipeline.manifest import make_manifest
from firmwright.report.archive import write_archive
from firmwright.report.manifest import BundledFile, to_content


def run(job: Job, folder: Path) -> None:
    """Write ``manifest.json``, the archive, and the pictures of the first inference with boxes.

    Raises UserError where the build read something else than the recipe's lock says.
    """
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
    write_record(folder / "manifest.json", to_content(make_manifest(job, listed, read)))
    contents["manifest.json"] = (folder / "manifest.json").read_bytes()
    archive = folder / job.bundle.name
    write_archive(archive, job.bundle_name, contents)
    report_skipped_stages(job)
    job.note(f"{job.bundle}: {archive.stat().st_size:,} bytes, {len(contents)} files")


def report_skipped_stages(job: Job) -> None:
    """Say which stages the recipe asks for that this platform or machine cannot run."""
    if job.recipe.compare and not job.has_stage("comparison") and not job.has_stage("mapping"):
        job.note(
            f"nothing to compare: {job.emulator} counts no instructions, and "
            f"{job.platform.name} states no `timing`"
        )
    if job.loadable_build and not job.has_stage("module"):
        makefile = job.folder("sources") / job.recipe.target[-1].name / "Makefile"
        job.note(
            f"{job.loadable_build.toolchain.variable} is not set: no module "
            f"for the chip was built; {makefile} does"
        )


def collect_files(job: Job) -> dict[str, bytes]:
    """Return the archive's files by name: what the stages want in it."""
    stages = (stage for stage in job.stages.values() if job.has_stage(stage.name))
    return {name: path.read_bytes() for s in stages for name, path in s.archive(job).items()}
