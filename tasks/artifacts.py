"""artifacts: what TI's tools need of each region that TIDL takes, and what they make of it."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmwright.errors import UserError
from firmwright.pipeline.artifact import INDEX_FILE, Artifact
from firmwright.pipeline.artifacts import (
    BATCH,
    BATCH_LAYOUT,
    MODEL_INTERFACE,
    NETWORK_INTERFACE,
    PARTITION,
    REGIONS,
)
from firmwright.pipeline.job import Job
from firmwright.pipeline.options import mix_options
from firmwright.pipeline.run_samples import canonical_run_inputs
from firmwright.pipeline.stage import Stage
from firmwright.pipeline.tidl_samples import FRAMES, calibration_files, calibration_samples
from firmwright.pipeline.tools import Tool
from firmwright.toolchain import Platform

if TYPE_CHECKING:
    from firmwright.targets.tidl.artifacts import TidlNetwork
    from firmwright.targets.tidl.record import Artifacts
    from firmwright.toolchain.tool_folder import ToolFolder


ARTIFACTS: Artifact[Artifacts] = Artifact(
    "artifacts", "artifacts.json", "firmwright.targets.tidl.record:Artifacts"
)


def options(job: Job) -> Any:
    """Return the mix, and where samples come from."""
    canonical = job.recipe.canonical
    quantize = canonical.get("quantize") or {}
    return {
        "mix": mix_options(job),
        "name": artifacts_name(job),
        "calibration": quantize.get("calibration"),
        "inputs": canonical_run_inputs(job),
    }


def stamp_tools(platform: Platform) -> list[Any]:
    """Return what tells one installation of TI's tools from another, or from none."""
    from firmwright.targets.tidl.tools import find_tools

    try:
        tools = find_tools(platform)
    except UserError as error:  # which the stage raises again
        return [str(error)]
    return tools.identity if tools else []


def read_tools_version(platform: Platform) -> str | None:
    """Return the digest of TI's tools, which tell their version only when they run."""
    from firmwright.targets.tidl.tools import find_tools

    tools = find_tools(platform)
    return f"sha256 {tools.digest}" if tools else None


def list_archive(job: Job) -> dict[str, Path]:
    """Return the record, and what TI's tools are given of the regions or made of them."""
    record = ARTIFACTS.read(job)
    folder = job.folder("artifacts") / record.folder
    files = {f"artifacts/{record.folder}/{name}": folder / name for name in record.files}
    return ARTIFACTS.pack(job) | files


def artifacts_name(job: Job, batch: int = 0) -> str:
    """Return the folder's name as TI composes it: ``resnet8_J721S2_target_tidl_noc7x``."""
    from firmwright.recipe.files import is_platform_file
    from firmwright.toolchain import load_platform

    recipe = job.recipe
    platform = job.platform
    if not is_platform_file(recipe.platform):
        platform = load_platform(recipe.platform)
    name = platform.aliases[0] if platform.aliases else platform.name
    built_for = "target" if recipe.compile_for_device and platform.name != "host" else "host"
    devices = [device.name for device in recipe.target]
    c7x = "c7x" if "c7x" in devices else "noc7x"
    size = f"_bs{batch}" if batch else ""
    return f"{recipe.name}_{name}_{built_for}_tidl_{c7x}{size}"


def run(job: Job, folder: Path) -> None:
    """Write ``artifacts.json`` and the folder of artifacts."""
    from firmwright.ir.records import read_record, write_record
    from firmwright.ir.tensors import ModelInterface
    from firmwright.quantize.samples import sample_digest
    from firmwright.targets.tidl.artifacts import TEMP_FOLDER, list_bundle_files, write_artifacts
    from firmwright.targets.tidl.import_config import find_unmapped_options
    from firmwright.targets.tidl.record import Artifacts
    from firmwright.targets.tidl.tools import find_tools

    refuse_foreign_files(job.folder("artifacts"))
    tools = find_tools(job.platform)
    model = read_record(job.folder("model") / "model.json", ModelInterface)
    size = read_batch_size(job)
    network = read_regions(job, size)
    name = artifacts_name(job, size)
    temporary = folder / name / TEMP_FOLDER
    temporary.mkdir(parents=True)
    regions = write_artifacts(network, temporary)
    version = import_regions(job, tools, temporary, len(regions)) if tools else None
    record = Artifacts(
        folder=name,
        files=list_bundle_files(regions, imported=tools is not None),
        model=model.sha256,
        frames=len(network.samples),
        samples=tuple(sample_digest(s) for s in network.samples),
        tools=version,
        regions=tuple(regions),
    )
    write_record(folder / "artifacts.json", record)
    print(summary(job, record))
    for option in find_unmapped_options(network.options):
        print(f"   {job.recipe.name}: TI's import tool is not told {option}")


def import_regions(job: Job, tools: ToolFolder, folder: Path, regions: int) -> str:
    """Let TI's tools import every region; return their version. Their logs stay in the cache."""
    from firmwright.targets.tidl.names import RegionFiles
    from firmwright.targets.tidl.tools import run_import

    logs = job.cache / "tidl_import"
    files = [RegionFiles(number) for number in range(regions)]
    versions = [run_import(tools, folder, f, logs / f"{f.stem}.log") for f in files]
    return " and ".join(dict.fromkeys(versions))


def summary(job: Job, record: Artifacts) -> str:
    """Say what was written, and whether TI's tools were there."""
    count = f"{len(record.regions)} region{'s' if len(record.regions) != 1 else ''}"
    done = (
        f"imported by TI's tools {record.tools}"
        if record.tools is not None
        else "not imported: TIDL_TOOLS_PATH is not set"
    )
    return f"   {job.recipe.name}: {record.folder}: {count} for TIDL, {done}"


def refuse_foreign_files(folder: Path) -> None:
    """Raise UserError for files in the stage's folder that the build did not write.

    Users run TI's tools in this folder, and copy from it what they deploy.
    """
    index = folder / INDEX_FILE
    listed: dict[str, str] = {}
    with suppress(OSError, ValueError):  # no index, or a damaged one, lists nothing
        listed = json.loads(index.read_text(encoding="utf-8"))["files"]
    found = (p for p in folder.rglob("*") if p.is_file() and p != index)
    names = sorted(p.relative_to(folder).as_posix() for p in found)
    strange = [name for name in names if name not in listed]
    if strange:
        raise UserError(
            f"{folder}: holds files that the build did not write: {', '.join(strange)}; move them "
            "elsewhere, for this stage replaces the folder"
        )


def read_batch_size(job: Job) -> int:
    """Return the samples of an inference where the recipe asks for several, else 0."""
    from firmwright.ir.records import read_record
    from firmwright.ir.tensors import BatchLayout

    if not job.has_stage("batch"):
        return 0
    return read_record(job.folder("partition") / "batch.json", BatchLayout).size


def read_regions(job: Job, batch: int) -> TidlNetwork:
    """Read the regions, and the samples for them."""
    import tvm

    from firmwright.ir.records import read_record
    from firmwright.ir.regions import Partition
    from firmwright.targets.tidl.artifacts import TidlNetwork
    from firmwright.targets.tidl.options import read_options

    source = job.folder("partition")
    (device,) = (d for d in job.mix if d.name == "tidl")
    options = read_options(device.context)
    partition = read_record(source / "partition.json", Partition)
    offloads = any(region.device == "tidl" for region in partition.regions)
    frames = options.number(FRAMES)
    stated = FRAMES in device.context.options
    samples = calibration_samples(job, batch or 1, frames, stated) if offloads else []
    return TidlNetwork(
        module=tvm.ir.load_json((source / "module.json").read_text(encoding="utf-8")),
        partition=partition,
        samples=samples,
        options=options,
    )


STAGE = Stage(
    name="artifacts",
    sentence="write what TI's tools need of each region",
    run="firmwright.tasks.artifacts:run",
    reads=(
        *(MODEL_INTERFACE, NETWORK_INTERFACE, BATCH),
        *(PARTITION, REGIONS, BATCH_LAYOUT),
    ),
    writes=(ARTIFACTS,),
    options=options,
    inputs=calibration_files,
    tools=lambda job: [
        Tool(
            "TIDL tools",
            partial(stamp_tools, job.platform),
            partial(read_tools_version, job.platform),
        )
    ],
    applies=lambda job: any(device.name == "tidl" for device in job.recipe.target),
    archive=list_archive,
)
