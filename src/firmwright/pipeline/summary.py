"""Summarizes the results of a build from the records of its manifest."""

from __future__ import annotations

from collections.abc import Iterator

from firmwright.ir.kernels import Kernel, Kernels, StoredWeights
from firmwright.pipeline import artifacts
from firmwright.pipeline.explain import explain_partition
from firmwright.pipeline.job import Job
from firmwright.report.advice import shorten_name
from firmwright.report.explanation import Explanation, compute_mac_share, format_count
from firmwright.report.rows import GOOD, WARNING, Part, Row, make_row
from firmwright.report.timeline import CYCLES, NO_TIME
from firmwright.verify.run_records import RunRecord

LARGEST = 3


def summarize(job: Job) -> list[Row]:
    """Return the rows of the table from the records. The caller adds rows with file paths."""
    if job.members:
        return [*describe_run(job), *describe_memories(job)]
    return [
        *describe_run(job),
        *describe_time(job),
        *describe_memories(job),
        *describe_devices(job),
        *describe_layers(job),
        *describe_weights(artifacts.KERNELS.read(job)),
        *describe_fallbacks(job),
    ]


def describe_run(job: Job) -> Iterator[Row]:
    if job.not_built:
        yield make_row("outputs", (f"no firmware was compiled or run: {job.not_built}", WARNING))
        return
    if not job.has_stage("run"):
        yield make_row("outputs", ("nothing was run: the platform has no emulator", WARNING))
        yield make_row("time", NO_TIME)
        return
    if job.members:
        yield from describe_networks(job)
        return
    record = artifacts.RUN.read(job)
    yield describe_agreement(record)
    counted = "instructions not counted"
    if record.instructions is not None:
        counted = f"{record.instructions:,} instructions"
    yield make_row("inference", f"{counted}, {record.macs:,} MACs ({record.emulator})")
    if job.has_stage("batch"):
        yield make_row("batch", str(artifacts.BATCH.read(job)))


def describe_time(job: Job) -> Iterator[Row]:
    timeline = artifacts.TIMELINE.find(job)
    if timeline is None:
        return
    shown = str(timeline) if timeline.unit == CYCLES else timeline.describe_bound()
    if shown:
        yield make_row("time", shown)


def describe_networks(job: Job) -> Iterator[Row]:
    record = artifacts.NETWORKS_RUN.read(job)
    for name, agreement in record.networks.items():
        counted = f"{agreement.exact_samples} of {record.turns} samples exact"
        difference = f", largest difference {agreement.max_difference:g} ({record.emulator})"
        yield make_row(name, (counted, GOOD), difference)


def describe_agreement(record: RunRecord) -> Row:
    """Return the agreement of outputs that are all within the tolerance of the reference."""
    exact = record.exact_samples == record.samples
    counted = f"{record.exact_samples} of {record.samples} samples exact"
    difference = f"largest difference {record.max_difference:g}"
    if exact:
        return make_row("outputs", (counted, GOOD), f", {difference} ({record.reference})")
    rest = f", {difference}; {counted} ({record.reference})"
    return make_row("outputs", ("within the tolerance", GOOD), rest)


def describe_memories(job: Job) -> Iterator[Row]:
    if not job.has_firmware:
        return
    linked = artifacts.FIRMWARE_SIZE.read(job)
    arenas = {} if job.members else artifacts.PLAN.read(job).other_arenas
    used = {"ram": linked.ram_bytes, **arenas, **linked.other_bytes}
    if not job.platform.all_in_ram:
        used = {"flash": linked.flash_bytes, **used}
    for name, needs in used.items():
        memory = job.platform.memories.get(name)
        label = name if name == "flash" else name.upper()
        if memory is None:
            yield make_row(label, f"{needs:,} bytes")
            continue
        share = f"{100 * needs / memory.size:.1f} %"
        yield make_row(label, (share, "bold"), f"  {needs:,} of {memory.size:,} bytes")
    for prefix, stack in linked.stacks.items():
        if stack.bytes is None:
            yield make_row("stack", (str(stack), WARNING))
            continue
        share = f"{100 * stack.bytes / job.platform.stack:.1f} %"
        rest = f"  {stack.bytes:,} of {job.platform.stack:,} bytes in {prefix}_run"
        yield make_row("stack", (share, "bold"), rest)


def describe_devices(job: Job) -> Iterator[Row]:
    """Yield each device's share of the MACs, and mark a requested device without operators."""
    summary = explain_partition(job).summary
    *offered, _ = summary.macs_by_device
    parts: list[Part] = []
    for device, operators in summary.operators_by_device.items():
        idle = device in offered and not operators
        share = f"{compute_mac_share(summary, device):.1f} %"
        if not summary.macs:
            share = format_count(operators, "operator", "operators")
        parts += [(", ", "")] if parts else []
        parts.append((f"{share} on {device}", WARNING if idle else ""))
    yield make_row("MACs" if summary.macs else "work", *parts)


def describe_layers(job: Job) -> Iterator[Row]:
    """Yield the layers with the highest costs in the timeline, or in MACs without a timeline."""
    timeline = artifacts.TIMELINE.find(job)
    if timeline is not None:
        unit, total = timeline.unit, timeline.total
        costs = [(layer.length, layer.name) for layer in timeline.layers]
    else:
        partition = artifacts.PARTITION.read(job)
        unit, total = "MACs", partition.macs
        costs = [(region.macs, region.name) for region in partition.regions]
    largest = sorted(costs, key=lambda cost: (-cost[0], cost[1]))[:LARGEST]
    named = name_layers(job)
    shown = [
        f"{named.get(name, name)} {100 * cost / total:.1f} %" for cost, name in largest if cost
    ]
    if shown:
        yield make_row("layers", f"{', '.join(shown)} of the {unit}")


def name_layers(job: Job) -> dict[str, str]:
    """Map each region that runs to its number and name in the report, such as ``2: stem``."""
    regions = {r.name: r for r in artifacts.PARTITION.read(job).regions if not r.view}
    order = [s.region for s in artifacts.PLAN.read(job).schedule.steps if s.region in regions]
    titles = {name: (*regions[name].sources, name)[0] for name in order}
    return {n: f"{number}: {shorten_name(titles[n])}" for number, n in enumerate(order, 1)}


def describe_weights(kernels: Kernels) -> Iterator[Row]:
    """Yield the bits per weight, if narrow or compressed weights save bytes."""
    layers = [(k, k.stored) for k in kernels.kernels if k.stored and k.stored.saved > 0]
    # Layers may share their weights, such as the steps of a recurrent layer.
    stored = {name_weights(kernel): weights for kernel, weights in layers}
    if layers:
        count = sum(weights.count for weights in stored.values())
        total = StoredWeights(count, sum(weights.bytes for weights in stored.values()))
        counted = format_count(len(layers), "layer", "layers")
        yield make_row("weights", f"{total} in {counted}; layers.csv lists each layer")


def name_weights(kernel: Kernel) -> tuple[str, ...]:
    names = tuple(w.tensor for w in kernel.weights if w.name.startswith("weights"))
    return names or (kernel.region,)


def describe_fallbacks(job: Job) -> Iterator[Row]:
    """Yield the operators that do not run on the requested device or in the requested form."""
    explanation = explain_partition(job)
    summary = explanation.summary
    *offered, last = summary.macs_by_device
    why = "`firmwright explain` lists all"
    at_work = {region.device for region in artifacts.PARTITION.read(job).regions}
    for device in offered:
        if device not in at_work:
            yield make_row("fall-back", (f"no operator runs on {device}; {why}", WARNING))
    fallen = summary.operators_by_device[last]
    if offered and fallen:
        counted = format_count(fallen, "operator", "operators")
        first = describe_first_refusal(explanation, last)
        yield make_row("fall-back", f"{counted} on {last}{first}; {why}")
    kernels = artifacts.KERNELS.read(job)
    if kernels.float_operators:
        floats = f"{len(kernels.float_operators)} of {kernels.quantized_operators}"
        cost = describe_float_cost(job, kernels)
        yield make_row("fall-back", f"quantized operators that run in float32: {floats}{cost}")


def describe_float_cost(job: Job, kernels: Kernels) -> str:
    """Return ``, in layers of 12.3 % of the cycles``, or '' without a timeline."""
    timeline = artifacts.TIMELINE.find(job)
    if timeline is None:
        return ""
    floats = {kernel.region for kernel in kernels.kernels if kernel.float_operators}
    length = sum(layer.length for layer in timeline.layers if layer.name in floats)
    return f", in layers of {100 * length / timeline.total:.1f} % of the {timeline.unit}"


def describe_first_refusal(explanation: Explanation, device: str) -> str:
    """Return ``, first conv2d 'a' (npu: strides: …)`` for the first rejected operator of a device.

    Operators with multiply-accumulates come before other operators.
    """
    refused = [o for o in explanation.operators if o.device == device and o.refusals and not o.view]
    if not refused:
        return ""
    first = min(refused, key=lambda operator: operator.macs == 0)
    rule = first.refusals[0]
    return f", first {first.kind} '{first.name}' ({rule.device}: {rule.rule}: {rule.sentence})"
