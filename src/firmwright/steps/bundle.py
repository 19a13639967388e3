"""bundle: one deterministic archive with its manifest."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from firmwright.ir.records import write_record
from firmwright.pipeline.inputs import collect_inputs
from firmwright.pipeline.job import Job
from firmwright.pipeline.lock import check_lock
from firmwright.report.manifest import BundledFile, to_content

from .manifest import make_manifest

COMPRESSION = 9


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
    for stage in job.stages.values():
        if not job.has_stage(stage.name) and (reason := stage.explain_absence(job)):
            job.note(reason)
    job.note(f"{job.bundle}: {archive.stat().st_size:,} bytes, {len(contents)} files")


def collect_files(job: Job) -> dict[str, bytes]:
    """Return the archive's files by name: what the stages want in it."""
    stages = (stage for stage in job.stages.values() if job.has_stage(stage.name))
    return {name: path.read_bytes() for s in stages for name, path in s.archive(job).items()}


def write_archive(path: Path, folder: str, files: Mapping[str, bytes]) -> None:
    """Write files below one folder: sorted, owned by root, at time 0, with plain modes."""
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size = len(files[name])
            entry.mode = 0o755 if name.endswith(".elf") else 0o644
            entry.mtime = 0
            archive.addfile(entry, io.BytesIO(files[name]))
