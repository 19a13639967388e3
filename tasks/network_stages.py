"""Declares the stages from the model to the positions of its buffers in memory."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline import artifacts
from firmwright.pipeline.declaration import ALL, Scope
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import (
    MEMORIES,
    MEMORY_FIELDS,
    MIX,
    PORTABLE_NETWORK,
    REWRITES,
    RUN_SAMPLES,
    canonical_run_inputs,
    list_run_files,
    require,
)
from firmwright.pipeline.tool_stamps import compiler_tool
from firmwright.toolchain import make_host_build


def list_model_files(job: Job) -> list[Path]:
    """Return the files of the model, and the other files with the supplier's signature."""
    source, files = job.recipe.model, job.recipe.list_files("model")
    if source.signature is None or source.path is None:
        return files
    # The import is late, because few recipes have a signature.
    from firmwright.bundle.model_signature import list_signed_files

    model = job.recipe.resolve(source.path).absolute()
    return [*files, *list_signed_files(job.recipe.resolve(source.signature), model)]


MODEL = Stage(
    name="model",
    sentence="fetch the model and import it",
    keys=("model", "inputs", "outputs", "dimensions"),
    inputs=list_model_files,
    scope=Scope.MODEL,
    about=("model",),
)
CALIBRATION = Stage(
    name="calibration",
    sentence="find the range of each tensor's values",
    reads=(artifacts.MODEL_INTERFACE, artifacts.MODEL_MODULE),
    keys=(
        "inputs",
        *("quantize.calibration.inputs", "quantize.calibration.samples", "quantize.equalize"),
        *("quantize.arithmetic", "quantize.activations", "quantize.weights", "quantize.layers"),
        *("quantize.per_channel", "quantize.search"),
    ),
    inputs=lambda job: job.recipe.list_files("quantize"),
    condition="the key `quantize`",
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
    about=("quantize", "calibration", "inputs"),
)


def list_quantizing_files(job: Job) -> list[Path]:
    quantize = job.recipe.quantize
    samples = job.recipe.list_files("quantize") if quantize and quantize.sees_samples else []
    return [*samples, *job.precision_files]


def list_quantized(job: Job) -> dict[str, Path]:
    """Return the record and the quantized network, which another recipe can use as its model."""
    shift = require(job.recipe.quantize).arithmetic == "shift"
    network = artifacts.QUANTIZED_RELAX if shift else artifacts.QUANTIZED_MODEL
    return {**artifacts.QUANTIZATION.pack(job), **network.pack(job, "quantized/")}


QUANTIZED = Stage(
    name="quantized",
    sentence="quantize the network",
    reads=(
        artifacts.MODEL_INTERFACE,
        artifacts.CALIBRATION,
        artifacts.DISTRIBUTIONS,
        artifacts.PREPARED_MODEL,
    ),
    keys=("quantize", "inputs"),
    inputs=list_quantizing_files,
    condition="the key `quantize`",
    applies=lambda job: job.recipe.quantize,
    scope=Scope.MODEL,
    archive=list_quantized,
    about=("quantize",),
)
SAMPLES = Stage(
    name="samples",
    sentence="check that the samples fit the network",
    reads=(artifacts.MODEL_INTERFACE, artifacts.NETWORK_INTERFACE, artifacts.NETWORK_VALUES),
    keys=(
        *(*RUN_SAMPLES, "classes", "detection", "inputs"),
        *("evaluate.samples", "evaluate.labels", "evaluate.metric"),
    ),
    inputs=lambda job: [
        *list_run_files(job),
        *job.recipe.list_files("evaluate.inputs", "evaluate.labels", "postprocess"),
    ],
    condition="samples in `run` or `evaluate`, or class names in `postprocess`",
    applies=lambda job: canonical_run_inputs(job) or job.recipe.detection or job.recipe.classes,
    scope=Scope.MODEL,
)
BATCH = Stage(
    name="batch",
    sentence="find the largest batch that fits",
    reads=(artifacts.NETWORK_MODULE, artifacts.NETWORK_INTERFACE),
    keys=(*MIX, *REWRITES, *MEMORIES, "batch", "compare", "extensions"),
    platform=ALL,
    inputs=lambda job: [*job.recipe.list_files("transforms", "extensions"), *job.device_files],
    condition="the key `batch`",
    applies=lambda job: job.recipe.batch,
    for_both=True,
    about=("batch",),
)
PARTITION = Stage(
    name="partition",
    sentence="cut the network into regions, each on one device",
    reads=(artifacts.NETWORK_MODULE, artifacts.NETWORK_INTERFACE, artifacts.BATCH),
    keys=(*MIX, *REWRITES, "name"),
    platform=ALL,
    facts={"states rounding": lambda job: job.recipe.states(("rounding",))},
    inputs=lambda job: [*job.recipe.list_files("transforms"), *job.device_files],
    scope=Scope.TARGET,
)
KERNELS = Stage(
    name="kernels",
    sentence="lower every region to C",
    reads=(artifacts.PARTITION, artifacts.LOWERED),
    keys=(*MIX, "allow_fallback", "require_offload", "extensions", "tune", "compress"),
    platform=ALL,
    inputs=lambda job: [*job.recipe.list_files("extensions"), *job.device_files, *job.tuned_files],
    templates=lambda job: [
        "operators/*.j2",
        *(f"{device.name}/layers/*.j2" for device in job.recipe.target),
    ],
    scope=Scope.TARGET,
)
ACCURACY = Stage(
    name="accuracy",
    sentence="compare networks on the samples of `evaluate`",
    reads=(
        artifacts.MODEL_INTERFACE,
        artifacts.CALIBRATION,
        artifacts.PREPARED_MODEL,
        artifacts.QUANTIZATION,
        artifacts.QUANTIZED_MODEL,
        artifacts.NETWORK_INTERFACE,
        artifacts.PARTITION,
        artifacts.INTERFACE,
        artifacts.BATCH_LAYOUT,
        artifacts.KERNELS,
        artifacts.WEIGHTS,
    ),
    keys=(*PORTABLE_NETWORK, "evaluate"),
    platform=ALL,
    inputs=lambda job: job.recipe.list_files(
        "evaluate", "postprocess", "libraries", "model.custom_operators"
    ),
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    condition="the key `evaluate`",
    applies=lambda job: job.recipe.evaluate and (not job.origin or job.precision),
    scope=Scope.TARGET,
    archive=artifacts.ACCURACY.pack,
    about=("evaluate",),
)
ADVICE = Stage(
    name="advice",
    sentence="find changes that would make the network faster",
    reads=(artifacts.PARTITION, artifacts.REGIONS),
    keys=(*MIX, "tune"),
    platform=ALL,
    inputs=lambda job: [*job.device_files, *job.tuned_files],
    applies=lambda job: not job.origin,
)
PLAN = Stage(
    name="plan",
    sentence="assign every buffer its position in memory",
    reads=(artifacts.INTERFACE, artifacts.PARTITION, artifacts.KERNELS),
    keys=(*MEMORIES, "slot"),
    platform=(*MEMORY_FIELDS, "accelerators"),
)

STAGES = (
    MODEL, CALIBRATION, QUANTIZED, SAMPLES, BATCH, PARTITION, KERNELS, ACCURACY, ADVICE, PLAN,
)  # fmt: skip
