"""Writes the inputs of TI's tools for the regions of TIDL, and imports them with the tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firmwright.data.samples import Sample, repeat_samples, sample_digest, to_samples
from firmwright.devices.tidl.artifact_records import Artifacts, RegionFiles
from firmwright.devices.tidl.artifacts import (
    TEMP_FOLDER,
    TidlNetwork,
    list_bundle_files,
    write_artifacts,
)
from firmwright.devices.tidl.import_config import find_unmapped_options
from firmwright.devices.tidl.options import read_options
from firmwright.devices.tidl.stages import RECORD, artifacts_name, is_for_chip
from firmwright.devices.tidl.tools import TOOLS_VARIABLE, find_tools, run_import
from firmwright.errors import UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.pipeline.recipe_samples import read_network_columns
from firmwright.pipeline.stage_options import select_run_inputs
from firmwright.recipe.quantize_keys import Inputs
from firmwright.toolchain.tool_folder import ToolFolder
from firmwright.verify.batches import join_samples

FRAMES = "advanced_options:calibration_frames"


NO_SAMPLES = (
    "target: tidl: there are no calibration samples, and TI's tools would use random "
    "numbers; state `calibration: {inputs: …}`"
)

FLOATS = (
    "tensor_bits=32 keeps floats, which TI's tools run only on a PC; add `compile_for_device: "
    "false`, or use 8 or 16 bits"
)

ZERO = "TI's tools need zero points of 0 in a quantized graph; state `quantize: {symmetric: true}`"


def run(job: Job, folder: Path) -> None:
    tools = find_tools(job.platform)
    size = read_batch_size(job)
    network = read_regions(job, size or 1)
    name = artifacts_name(job, size)
    temporary = folder / name / TEMP_FOLDER
    temporary.mkdir(parents=True)
    regions = write_artifacts(network, temporary)
    version = import_regions(job, tools, temporary, len(regions)) if tools else None
    record = Artifacts(
        folder=name,
        files=list_bundle_files(regions, imported=tools is not None),
        model=artifacts.MODEL_INTERFACE.read(job).sha256,
        frames=len(network.samples),
        samples=tuple(sample_digest(s) for s in network.samples),
        tools=version,
        regions=tuple(regions),
    )
    RECORD.write(folder, record)
    job.note(format_summary(record))
    for text in describe_shifted_inputs(record):
        job.note(text)
    if is_for_chip(job) and network.options.number("tensor_bits") == 32:
        job.note(FLOATS)
    for option in find_unmapped_options(network.options):
        job.note(f"{option} has no effect, because TI's import tool does not support this option")


def read_batch_size(job: Job) -> int:
    """Return the recipe's number of samples per inference, or 0 without a batch."""
    return artifacts.BATCH_LAYOUT.read(job).size if job.has_stage("batch") else 0


def read_regions(job: Job, batch: int) -> TidlNetwork:
    (device,) = (d for d in job.mix if d.name == "tidl")
    options = read_options(device.context)
    partition = artifacts.PARTITION.read(job)
    offloads = any(region.device == "tidl" for region in partition.regions)
    frames = options.number(FRAMES)
    stated = FRAMES in device.context.options
    samples = calibration_samples(job, batch, frames, stated) if offloads else []
    return TidlNetwork(artifacts.REGIONS.read(job), partition, samples, options)


def import_regions(job: Job, tools: ToolFolder, folder: Path, regions: int) -> str:
    """Import every region with TI's tools, and return their version.

    The cache contains the logs of the tools.
    """
    logs = job.cache / "tidl_import"
    files = [RegionFiles(number) for number in range(regions)]
    versions = [run_import(tools, folder, f, logs / f"{f.stem}.log") for f in files]
    return " and ".join(dict.fromkeys(versions))


def format_summary(record: Artifacts) -> str:
    count = f"{len(record.regions)} region{'s' if len(record.regions) != 1 else ''}"
    done = (
        f"imported by TI's tools {record.tools}"
        if record.tools is not None
        else f"not imported: {TOOLS_VARIABLE} is not set"
    )
    return f"{record.folder}: {count} for TIDL, {done}"


def describe_shifted_inputs(record: Artifacts) -> Iterator[str]:
    """Yield a note per region with nonzero input zero points. TI's documentation requires 0."""
    for region in record.regions:
        named = [f"{t.name} ({t.zero_point})" for t in region.inputs if t.zero_point]
        if named:
            yield f"subgraph{region.number}: zero points of inputs: {', '.join(named)}; {ZERO}"


def calibration_inputs(job: Job) -> tuple[Inputs, int | None, str]:
    """Return the calibration samples of TIDL, their maximum number, and the recipe's key.

    Raises UserError if the recipe names no samples.
    """
    calibration = job.recipe.calibration
    if calibration is not None:
        return calibration.inputs, calibration.samples, "calibration"
    quantize = job.recipe.quantize
    if quantize and quantize.calibration.inputs is not None:
        return quantize.calibration.inputs, quantize.calibration.samples, "quantize.calibration"
    given = select_run_inputs(job)
    if given is None:
        raise UserError(NO_SAMPLES)
    return given, None, "run" if job.recipe.run.inputs is not None else "evaluate"


def calibration_samples(job: Job, batch: int, frames: int, stated: bool) -> list[Sample]:
    """Return the calibration frames of TIDL, of ``batch`` samples each.

    The result has ``frames`` frames, or fewer frames if the recipe does not contain their number.
    If the samples do not fill a batch, they are repeated. Raises UserError, with the recipe's key,
    if the data does not fit or is too small.
    """
    given, limit, key = calibration_inputs(job)
    try:
        columns = read_network_columns(job, artifacts.NETWORK_INTERFACE.read(job), given, limit)
    except UserError as error:
        raise UserError(f"target: tidl: the calibration samples, {key}.inputs: {error}") from error
    held = min(len(c.arrays) for c in columns.values())
    if stated and held < frames * batch:
        raise UserError(
            f"target: tidl: {key}.inputs has {held} calibration samples; {FRAMES}={frames} needs "
            f"{frames * batch}: add samples, or lower {FRAMES}"
        )
    if held < batch:
        job.note(f"TIDL repeats the {held} calibration samples, because a batch needs {batch}")
    count = min(frames, max(held // batch, 1)) * batch
    return join_samples(to_samples(repeat_samples(columns, count), count), batch)
