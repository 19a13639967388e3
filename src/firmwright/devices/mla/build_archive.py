"""Writes the inputs of SiMa's compiler, runs it, and reads its results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx

from firmwright.codegen.templates import new_environment, read_template
from firmwright.compile import prepare_module
from firmwright.data.samples import Sample, sample_digest
from firmwright.devices.mla.afe_settings import AfeSettings, make_settings
from firmwright.devices.mla.compiled import (
    describe_archive,
    read_compiled,
    write_schedule,
    write_stand_in,
)
from firmwright.devices.mla.compiler_input import SimaNetwork, export_network, order_samples
from firmwright.devices.mla.options import MlaOptions, read_options
from firmwright.devices.mla.sdk import SCRIPT, find_sdk, run_script
from firmwright.devices.mla.stages import RECORD
from firmwright.errors import UserError
from firmwright.ir.array_files import write_arrays
from firmwright.ir.tensors import Tensor
from firmwright.pipeline import artifacts
from firmwright.pipeline.custom_rewrites import list_custom_rewrites
from firmwright.pipeline.job import Job
from firmwright.pipeline.label_files import read_labels
from firmwright.pipeline.recipe_samples import read_real_samples
from firmwright.pipeline.stage_options import select_rewrites, select_run_inputs
from firmwright.report.manifest import ArtifactsReport, CompiledArchive

CALIBRATION = "calibration.npz"
EVALUATION = "evaluation.npz"
NO_LABELS = (
    "target: mla: target_accuracy needs the right class of each sample; state `evaluate: {inputs: "
    "…, labels: classes.npy}`"
)
NOT_QUANTIZED = (
    "target: mla: convert_to_sima_quantization needs a model with QuantizeLinear and "
    "DequantizeLinear, and this model has no such operators; omit the option, and state `quantize`"
)
NO_SAMPLES = (
    "target: mla: there are no calibration samples, and random samples would change the results; "
    "state `quantize: {calibration: {inputs: …}}`, or `run: {inputs: …}` if the model is already "
    "quantized"
)


def run(job: Job, folder: Path) -> None:
    """Write ``artifacts.json``, and the folder ``<recipe>_<platform>_mla`` that this file names."""
    (device,) = (d for d in job.mix if d.name == "mla")
    options = read_options(device.context)
    batch = job.recipe.batch.size if job.recipe.batch else 1
    settings = make_settings(options, job.recipe.quantize, batch)
    sdk = find_sdk()
    name = job.recipe.name
    workspace = folder / f"{name}_{job.platform.name}_mla"
    workspace.mkdir()
    network = read_network(job)
    samples = read_calibration(job, options, network)
    (workspace / f"{name}.onnx").write_bytes(network.data)
    write_calibration(workspace, network, samples)
    data = CALIBRATION if samples else ""
    evaluation = write_evaluation(workspace, job, network) if options.evaluates else ""
    script = write_script(name, f"{name}.onnx", network.inputs, data, settings, evaluation)
    (workspace / SCRIPT).write_text(script, encoding="utf-8")
    if sdk is None:
        version, archive = None, write_stand_in(workspace, name, network, batch)
    else:
        version = run_script(sdk, workspace, job.cache / "mla" / "compile.log")
        required = job.recipe.batch is not None and job.recipe.batch.require
        archive, remarks = read_compiled(workspace, name, batch, required)
        for remark in remarks:
            job.note(f"{archive.file}: {remark}")
    if archive.static_schedule:
        write_schedule(workspace / f"{name}_schedule.yaml", archive.static_schedule, name)
    record = ArtifactsReport(
        folder=workspace.name,
        files=list_bundle_files(name, archive),
        model=artifacts.MODEL_INTERFACE.read(job).sha256,
        frames=len(samples),
        samples=tuple(sample_digest(sample) for sample in samples),
        tools=version,
        archive=archive,
    )
    RECORD.write(folder, record)
    for note in describe_archive(record, archive):
        job.note(note)


def read_network(job: Job) -> SimaNetwork:
    """Return the model before the recipe's quantization, because SiMa's compiler quantizes the
    model."""
    custom = list_custom_rewrites(job)
    module = prepare_module(artifacts.MODEL_MODULE.read(job), select_rewrites(job), custom)
    return export_network(module, artifacts.MODEL_INTERFACE.read(job))


def read_calibration(job: Job, options: MlaOptions, network: SimaNetwork) -> list[Sample]:
    """Return the samples as real numbers. Raises UserError if the recipe names no samples.

    The result is empty if the Arm cores run the whole network, or if the SDK keeps the model's
    scales. Raises UserError if the model has no scales to keep.
    """
    nodes = onnx.load_from_string(network.data).graph.node if options.converts else ()
    if options.converts and all(node.op_type != "QuantizeLinear" for node in nodes):
        raise UserError(NOT_QUANTIZED)
    if options.is_on("arm_only") or options.converts:
        return []
    quantize = job.recipe.quantize
    given = quantize.calibration.inputs if quantize else select_run_inputs(job)
    if given is None:
        raise UserError(NO_SAMPLES)
    limit = quantize.calibration.samples if quantize else None
    return read_real_samples(job, network.model_inputs, given, limit)


def write_calibration(workspace: Path, network: SimaNetwork, samples: Sequence[Sample]) -> None:
    if samples:
        columns = [[sample[t.name] for sample in samples] for t in network.inputs]
        arrays = {f"input_{i}": order_samples(c, network.layout) for i, c in enumerate(columns)}
        write_arrays(workspace / CALIBRATION, arrays)


def write_evaluation(workspace: Path, job: Job, network: SimaNetwork) -> str:
    """Write a file with the samples and classes of ``evaluate``, and return its name.

    Raises UserError if the samples have no classes.
    """
    stated = job.recipe.evaluate
    if stated is None or stated.labels is None or stated.metric is not None:
        raise UserError(NO_LABELS)
    samples = read_real_samples(job, network.model_inputs, stated.inputs, stated.samples)
    labels = read_labels(job, artifacts.MODEL_INTERFACE.read(job), len(samples)).classes
    if labels is None:
        raise UserError(NO_LABELS)
    columns = [[sample[t.name] for sample in samples] for t in network.inputs]
    arrays = {f"input_{i}": order_samples(c, network.layout) for i, c in enumerate(columns)}
    write_arrays(workspace / EVALUATION, {**arrays, "labels": labels})
    return EVALUATION


def list_bundle_files(name: str, archive: CompiledArchive) -> tuple[str, ...]:
    """Return the files for a bundle, without the user's samples."""
    schedule = [f"{name}_schedule.yaml"] if archive.static_schedule else []
    return (f"{name}.onnx", SCRIPT, archive.file, *schedule)


TEMPLATE = "mla/sdk/compile.py.j2"
TITLES = {"gen1": "MLSoC", "gen2": "Modalix"}


def write_script(
    name: str,
    model: str,
    inputs: Sequence[Tensor],
    calibration: str,
    settings: AfeSettings,
    evaluation: str = "",
) -> str:
    """Return the text of the script ``compile.py`` for SiMa's compiler.

    ``model``, ``calibration`` and ``evaluation`` are files next to the script. ``calibration`` and
    ``evaluation`` are '' without samples.
    """
    cache = "l2_caching_mode"
    compiled = [a for a in settings.compile if a.name != cache or a.value != a.default]
    values = [a.value for a in (*settings.quantize, *compiled)]
    used = " ".join([*(v for _, v in settings.quantization), *values])
    environment = new_environment(read_template)
    environment.filters["literal"] = format_literal
    return environment.get_template(TEMPLATE).render(
        name=name,
        title=TITLES[settings.chip],
        model=model,
        inputs=inputs,
        calibration=calibration,
        evaluation=evaluation,
        settings=settings,
        compiled=compiled,
        used=used,
        defines=[n for n in ("BiasCorrectionType", "RequantizationMode") if f"{n}." in used],
    )


def format_literal(value: Any) -> str:
    """Return a value as a Python literal, with text in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
