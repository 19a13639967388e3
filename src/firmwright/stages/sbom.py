"""Writes the bill of materials of a build from its inputs and the records of its stages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from firmwright import __version__
from firmwright.bundle import cyclonedx, spdx
from firmwright.bundle.components import (
    BillOfMaterials,
    Component,
    License,
    ReleaseFacts,
    digest_all,
    make_package,
)
from firmwright.ir.records import encode_record
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.recipe.lock import Lock
from firmwright.recipe.releases import Release


def write_sboms(job: Job, read: Lock) -> dict[str, bytes]:
    bill = make_bill(job, read)
    return {
        cyclonedx.FILE: encode_record(cyclonedx.make_cyclonedx(bill)),
        spdx.FILE: encode_record(spdx.make_spdx(bill)),
    }


def make_bill(job: Job, read: Lock) -> BillOfMaterials:
    """Return the parts of the firmware, and the tools. ``read`` are the inputs of the build."""
    release = job.recipe.release
    image = artifacts.FIRMWARE.path(job).read_bytes()
    return BillOfMaterials(
        name=job.bundle_name,
        platform=job.platform.name,
        description=job.recipe.description or "",
        sha256=hashlib.sha256(image).hexdigest(),
        components=(*list_included(job, read), *list_makers(job, read)),
        stages={s.name: s.sentence for s in job.stages.values() if job.has_stage(s.name)},
        metrics=collect_metrics(job),
        release=state_release(release) if release else None,
    )


def state_release(stated: Release) -> ReleaseFacts:
    author = stated.author or stated.supplier
    return ReleaseFacts(stated.version, stated.supplier, author, stated.time)


def list_included(job: Job, read: Lock) -> Iterator[Component]:
    model = artifacts.MODEL_INTERFACE.read(job)
    source = job.recipe.model
    file = source.path or urlsplit(source.url or "").path
    name = Path(file).name or source.python or model.format
    described = f"format {model.format}"
    if source.signature:
        described += f"; signed by the key with SHA-256 {artifacts.MODEL_SIGNATURE.read(job).key}"
    release = job.recipe.release
    license = License((release.model_license if release else None) or "")
    yield Component(
        "model", name, True, sha256=model.sha256, license=license, description=described
    )
    yield Component(
        "library",
        "firmwright-templates",
        True,
        __version__,
        f"pkg:pypi/firmwright@{__version__}",
        license=License("Apache-2.0"),
        description="the C that does not depend on the network",
    )
    toolchain = job.build.toolchain.name
    yield Component(
        "library",
        f"{toolchain}-runtime",
        True,
        read.versions.get(toolchain, ""),
        description="the linked parts of the compiler's run-time and C libraries",
    )
    for library in job.recipe.libraries:
        names = [*library.sources, *([library.archive] if library.archive else [])]
        digests = {n: read.files[n] for n in names if n in read.files}
        yield Component("library", library.name, True, sha256=digest_all(digests))


def list_makers(job: Job, read: Lock) -> Iterator[Component]:
    """Yield components that are not in the firmware: samples, tools, and the versions of tools."""
    release = job.recipe.release
    license = License((release.data_license if release else None) or "")
    for purpose, digests in read.samples.items():
        described = f"{len(digests)} samples; the digest covers all of their digests"
        digest = digest_all(digests)
        yield Component(
            *("data", f"{purpose}-samples", False),
            sha256=digest,
            license=license,
            description=described,
        )
    for name, version in read.versions.items():
        yield make_package(name, version)


def collect_metrics(job: Job) -> dict[str, float]:
    """Return the rates that `evaluate` measured for the firmware."""
    if not job.has_stage("accuracy"):
        return {}
    record = artifacts.ACCURACY.read(job)
    rates = {"top1": record.top1, "agreement": record.agreement, "metric": record.metric or {}}
    return {name: rate["firmware"] for name, rate in rates.items() if "firmware" in rate}
