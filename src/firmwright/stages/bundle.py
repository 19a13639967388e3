"""Runs the stage ``bundle``: packs a deterministic archive with a manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from firmwright.bundle.archive import write_archive
from firmwright.bundle.bundle import MANIFEST_VERSION
from firmwright.ir.records import write_record
from firmwright.pipeline import artifacts
from firmwright.pipeline.artifact import Artifact
from firmwright.pipeline.build_inputs import collect_inputs
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.recipe_lock import check_lock
from firmwright.pipeline.summary import summarize
from firmwright.project.build_id import read_build_id
from firmwright.recipe.lock import Lock
from firmwright.report import manifest
from firmwright.report.viewers import PAGE, write_files
from firmwright.stages.budget import check_budget
from firmwright.stages.bundle_texts import write_texts
from firmwright.stages.report import (
    collect_code,
    collect_report,
    read_constants,
    read_stack,
)
from firmwright.stages.sbom import write_sboms
from firmwright.toolchain.network_image import NetworkImage, read_image

ARTIFACTS: Artifact[manifest.ArtifactsReport] = Artifact(
    "artifacts", "artifacts.json", "firmwright.report.manifest:ArtifactsReport"
)
"""The record of a device that adds the stage ``artifacts``, as a part of the manifest."""


def run(job: Job, folder: Path) -> None:
    """Write ``manifest.json``, the archive, the report, and pictures with boxes.

    The pictures are from the first inference. Raises UserError if the inputs differ from the
    recipe's lock, or if the firmware exceeds the recipe's budget.
    """
    read = collect_inputs(job)
    check_lock(job, read)
    check_budget(job)
    for drawn, published in job.box_pictures.items():
        (folder / published.name).write_bytes(drawn.read_bytes())
    report = collect_report(job, read)
    contents = {**collect_files(job), **write_files(report, collect_code(job, report.layers))}
    contents |= write_sboms(job, read) if job.has_firmware else {}
    contents |= write_texts(job, describe_result(job))
    (folder / job.report.name).write_bytes(contents[PAGE])
    listed = tuple(
        manifest.BundledFile(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in sorted(contents.items())
    )
    write_record(folder / "manifest.json", manifest.to_content(make_manifest(job, listed, read)))
    contents["manifest.json"] = (folder / "manifest.json").read_bytes()
    archive = folder / job.bundle.name
    write_archive(archive, job.bundle_name, contents)
    write_record(folder / artifacts.SUMMARY.file, summarize(job))
    for stage in job.stages.values():
        if not job.has_stage(stage.name) and (reason := stage.explain_absence(job)):
            job.note(reason)


def collect_files(job: Job) -> dict[str, bytes]:
    archives = (stage.archive(job) for stage in list_stages(job))
    return {name: path.read_bytes() for files in archives for name, path in files.items()}


def list_stages(job: Job) -> list[Stage]:
    return [stage for stage in job.stages.values() if job.has_stage(stage.name)]


def make_manifest(
    job: Job, files: tuple[manifest.BundledFile, ...], read: Lock
) -> manifest.Manifest:
    """Return the manifest of an archive with these files. ``read`` are the build's inputs."""
    kernels = artifacts.KERNELS.read(job)
    return manifest.Manifest(
        manifest_version=MANIFEST_VERSION,
        name=job.recipe.name,
        build_id=read_build_id(artifacts.PROJECT.read(job), job.recipe.c_prefix),
        platform=job.platform.name,
        target=job.target,
        model=artifacts.MODEL_INTERFACE.read(job),
        recipe=manifest.Source(
            job.recipe.sha256,
            job.recipe.network_sha256,
            job.recipe.canonical,
            job.recipe.description or msgspec.UNSET,
        ),
        files=files,
        arithmetic=manifest.Arithmetic(
            job.recipe.rounding, kernels.quantized_operators, kernels.float_operators
        ),
        layers=tuple(
            manifest.ManifestLayer(r.name, r.device, r.sources, r.operators, r.macs)
            for r in artifacts.PARTITION.read(job).regions
            if not r.view
        ),
        memory=make_memory_report(job),
        batch=artifacts.BATCH.find(job),
        run=artifacts.RUN.find(job),
        not_run=None if job.has_stage("run") else explain_no_run(job),
        not_built=job.not_built or None,
        inputs=read,
        stand_ins={k.region: k.stand_in for k in kernels.kernels if k.stand_in},
        versions=read.versions,
        stages={s.name: s.sentence for s in list_stages(job)},
        detection=artifacts.BOXES.read(job) if job.recipe.detection else None,
        quantization=artifacts.QUANTIZATION.find(job),
        accuracy=artifacts.ACCURACY.find(job),
        timeline=artifacts.TIMELINE.find(job),
        comparison=artifacts.COMPARISON.find(job),
        mapping=artifacts.MAPPING.find(job),
        artifacts=ARTIFACTS.find(job),
        model_signature=(
            artifacts.MODEL_SIGNATURE.read(job) if job.recipe.model.signature else msgspec.UNSET
        ),
        network=describe_image(job),
    )


def describe_image(job: Job) -> NetworkImage | msgspec.UnsetType:
    """Return the header of the network's image, or UNSET if the network has no linked slot."""
    if not (job.recipe.slot and job.has_firmware):
        return msgspec.UNSET
    return read_image((job.folder("firmware") / "network.bin").read_bytes())


def describe_result(job: Job) -> str:
    """Return a line about the exactness of the firmware, or the reason why it is unknown."""
    if job.not_built:
        return f"no firmware was compiled or run: {job.not_built}"
    run = artifacts.RUN.find(job)
    if run is None:
        return f"not run: {explain_no_run(job)}"
    exact = f"{run.exact_samples} of {run.samples} samples exact"
    largest = f"largest difference {run.max_difference:g}"
    return f"run in {run.emulator}: {exact}, {largest}, against {run.reference}"


def explain_no_run(job: Job) -> str:
    return f"the platform '{job.platform.name}' lists no emulator"


def make_memory_report(job: Job) -> manifest.MemoryReport:
    linked, plan = artifacts.FIRMWARE_SIZE.find(job), artifacts.PLAN.read(job)
    return manifest.MemoryReport(
        flash_bytes=linked.flash_bytes if linked else None,
        ram_bytes=linked.ram_bytes if linked else None,
        arena_bytes=plan.arena_bytes,
        arena_lower_bound_bytes=plan.arena_lower_bound_bytes,
        other_memories=plan.other_arenas,
        copied_bytes=artifacts.PARTITION.read(job).copied_bytes,
        constants=read_constants(job),
        stack=read_stack(job),
    )
