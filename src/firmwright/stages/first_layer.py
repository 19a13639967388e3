"""Names the first layer of a network whose results differ from the reference."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from firmwright.data.samples import Sample
from firmwright.errors import UserError
from firmwright.ir.regions import Region
from firmwright.models import FORMATS
from firmwright.pipeline import artifacts
from firmwright.pipeline.artifact import NETWORK_STAGE
from firmwright.pipeline.job import Job
from firmwright.pipeline.python_operators import load_custom_operators
from firmwright.planning.plan import make_plan
from firmwright.project.network import Network
from firmwright.report.advice import shorten_name
from firmwright.stages.network import read_network
from firmwright.verify.crossed_steps import find_crossed_step
from firmwright.verify.host_run import run_on_host
from firmwright.verify.layer_differences import (
    LayerDifference,
    compare_layers,
    find_first_layer,
    find_reached,
    is_different,
)

WRONG = "a layer has wrong results; please report it with the model and the samples"


def observe_layers(network: Network) -> Network:
    """Return the network with every result as an output, between the outputs and the states.

    The additional outputs have the names of the partition's tensors. Each result has separate
    memory, so an error in the memory plan is not visible.
    """
    partition, interface = network.partition, network.interface
    tensors = {tensor.name: tensor for tensor in partition.tensors}
    computed = (region for region in partition.regions if not region.view)
    more = [n for region in computed for n in region.outputs if n not in partition.outputs]
    count = len(interface.outputs)
    outputs = (*partition.outputs[:count], *more, *partition.outputs[count:])
    partition = replace(partition, outputs=outputs)
    return replace(
        network,
        partition=partition,
        interface=replace(
            interface, outputs=(*interface.outputs, *(tensors[name] for name in more))
        ),
        plan=make_plan(partition, network.kernels),
        hooks=False,
    )


def describe_first_layer(job: Job, alone: Sequence[Sample]) -> str:
    """Return sentences about the first layer that differs, or why the layers were not compared.

    The C code of the firmware is compiled for this machine, and all results are outputs.
    """
    try:
        compared, outcome = find_difference(job, alone)
    except UserError as error:
        return f"{WRONG}\n  the layers were not compared: {error}"
    if not compared:
        return f"{WRONG}\n  the layers were not compared: no result has a name of the model"
    agreed = f"compiled for this machine, with separate memory for each result, {compared} results"
    if isinstance(outcome, list):
        unknown = name_layers(outcome)
        return f"{WRONG}\n  {agreed} agree with the reference; not compared: {unknown}"
    if outcome is None:
        return (
            f"{WRONG}\n  {agreed} agree with the reference: the compiler, the emulator or the "
            "memory plan is at fault"
        )
    return describe_difference(outcome)


def describe_difference(difference: LayerDifference) -> str:
    """Return sentences that name a layer that differs, and a crossed step that may explain it."""
    region = difference.region
    name = f"'{shorten_name(region.sources[0])}' ({region.name} on {region.device})"
    tensor = shorten_name(difference.result.tensor)
    unknown = name_layers(difference.unknown)
    before = f"; not compared before it: {unknown}" if unknown else ""
    note = (
        f"\n  a quantization in the run may explain it: {difference.note}"
        if difference.note
        else ""
    )
    return (
        f"{WRONG}\n  the first layer that differs: {name}, tensor '{tensor}': "
        f"{difference.result}{before}{note}"
    )


def name_layers(regions: Sequence[Region]) -> str:
    names = (shorten_name(next(iter(region.sources), region.name)) for region in regions)
    return ", ".join(f"'{name}'" for name in names)


def find_difference(
    job: Job, alone: Sequence[Sample]
) -> tuple[int, LayerDifference | list[Region] | None]:
    """Return the number of compared results, and the first layer that differs.

    The layer has a note if rounding before a run-time quantization changed an integer by one step.
    If all compared layers agree, the second value lists the layers that were not compared and may
    explain the difference. The second value is None if all layers were compared. Raises UserError
    if the results or the reference's tensors are not available.
    """
    model = artifacts.NETWORK_INTERFACE.read(job)
    reader = FORMATS[model.format].load_tensor_reader()
    if reader is None:
        raise UserError(
            f"firmwright does not read the tensors of a model of the format '{model.format}'"
        )
    if artifacts.LOWERED_MODEL.path(job).is_file():
        raise UserError("a device replaced layers of the network")
    if job.has_stage("batch"):
        raise UserError("the network computes several samples at once")
    network = replace(read_network(job), caller_arena=False)
    observed = observe_layers(network)
    scratch = job.cache / f"compared-layers-{job.platform.name}"
    try:
        ran = run_on_host(observed, job.platform, alone, scratch, job.cache)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    data = (job.folder(NETWORK_STAGE) / f"model.{model.format}").read_bytes()
    with load_custom_operators(job.recipe):
        reference = reader.read_tensors(data, alone, model.states)
    columns = zip(*ran.outputs, strict=True)
    results = dict(zip(observed.partition.outputs, map(np.stack, columns), strict=False))
    compared = compare_layers(network.partition, model.operators, results, reference)
    difference = find_first_layer(network.partition, compared)
    if difference is not None:
        crossed = find_crossed_step(network.partition, difference.unknown, results, compared)
        if crossed is not None:
            difference = replace(difference, note=str(crossed))
    unknown = find_reached(network.partition, compared, is_different)
    return len(compared), difference or unknown or None
