"""Runs the stage ``run``: runs the firmware and compares it with the reference."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firmwright.data.samples import Column, Sample, sample_digest, to_samples
from firmwright.emulator import ClockCycles, Execution, load_emulator, run_firmware
from firmwright.hardware.access import load_access
from firmwright.hardware.board_run import run_on_board
from firmwright.ir.kernels import Kernels
from firmwright.ir.regions import Partition
from firmwright.ir.tensors import ModelInterface
from firmwright.models.formats import ReferenceOutputs
from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.artifacts import BOXES, MODEL_INTERFACE
from firmwright.pipeline.job import Job
from firmwright.pipeline.recipe_samples import dequantize_samples, read_run_columns, run_reference
from firmwright.pipeline.stage_options import require
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.classes import read_class_names
from firmwright.postprocess.detector import fit_detector
from firmwright.postprocess.drawing import draw_boxes
from firmwright.postprocess.numpy_detection import detect
from firmwright.recipe.recipe import error_at_key
from firmwright.stages.check_outputs import judge, stack_sides
from firmwright.verify.batches import join_outputs, join_samples
from firmwright.verify.detection import AGREEMENT_IOU, DetectionReport, match_samples
from firmwright.verify.protocol import (
    decode_boxes,
    decode_counts,
    decode_cycles,
    decode_outputs,
    encode_inputs,
    encode_samples,
)
from firmwright.verify.run_records import RunRecord
from firmwright.verify.several_emulators import run_side_by_side

MIN_LIMIT = 2_000_000_000
"""The limit of a run without work. Unicorn needs about 20 seconds for these instructions."""
PER_MAC, PER_ELEMENT = 2_000, 20_000
"""The instructions that the limit adds per multiply-accumulate and per element of a tensor.

A float64 multiply-accumulate in software needs about 900 instructions on a Cortex-M0.
"""

SORTS = frozenset({"argsort", "sort", "topk"})
PER_PAIR = 500
"""The instructions that the limit adds per pair of elements of a sorted row.

A sort inserts each element into a list. A sort of 1,000 random floats needs 46 instructions per
pair on a Cortex-M0.
"""

SUPPRESSIONS = frozenset({"detection_postprocess", "non_max_suppression"})
"""C functions that compare each box with all better boxes."""
PER_CALLED_PAIR = 2_000
"""The instructions that the limit adds per pair of elements of an axis, for a C function.

The function is a suppression of boxes or a function of the user, whose loops are unknown. The
overlap of two boxes in software floats needs about 1,000 instructions on a Cortex-M0.
"""

CompiledNetwork = tuple[Partition, Kernels]


def limit_instructions(networks: Iterable[CompiledNetwork], runs: int) -> int:
    """Return the number of instructions above which a firmware counts as hung.

    Each of ``runs`` inferences runs all networks.
    """
    work = sum(
        PER_MAC * p.macs
        + PER_ELEMENT * sum(prod(t.shape) for t in p.tensors)
        + PER_PAIR * count_pairs(p, list_sorted(p))
        + PER_CALLED_PAIR * count_pairs(p, list_called(p, kernels))
        for p, kernels in networks
    )
    return MIN_LIMIT + runs * work


def list_sorted(partition: Partition) -> set[str]:
    sorting = [r for r in partition.regions if SORTS.intersection(r.operators)]
    return {name for region in sorting for name in region.inputs}


def list_called(partition: Partition, kernels: Kernels) -> set[str]:
    """Return the tensors of C functions whose work is not counted in multiply-accumulates."""
    calling = {
        k.region
        for k in kernels.kernels
        if k.library_functions or SUPPRESSIONS.intersection(k.functions)
    }
    regions = [r for r in partition.regions if r.name in calling and not r.macs]
    return {name for region in regions for name in (*region.inputs, *region.outputs)}


def count_pairs(partition: Partition, names: Collection[str]) -> int:
    """Return the pairs of elements along the longest axis of the tensors with these names."""
    tensors = (t for t in partition.tensors if t.name in names)
    return sum(prod(t.shape) * max(t.shape, default=1) for t in tensors)


def read_compiled(job: Job) -> CompiledNetwork:
    return artifacts.PARTITION.read(job), artifacts.KERNELS.read(job)


def run(job: Job, folder: Path) -> None:
    """Write ``run.json``, all outputs (``outputs.npz``), and the first sample (``sample.npz``).

    ``outputs.npz`` has the outputs of the firmware and of the reference. ``boxes.json``, and
    ``boxes-<number>.png`` for every picture of every batch, are also written if there is a
    detection.
    """
    if job.recipe.run.board is None:
        with error_at_key(job.recipe, ("run", "emulator")):
            load_emulator(job.emulator).find_version(job.platform)
    single = artifacts.NETWORK_INTERFACE.read(job)
    interface = artifacts.INTERFACE.read(job)
    layout = recipe_samples.read_batch_layout(job, interface)
    data, alone = recipe_samples.read_run_samples(job, single, job.recipe.run.samples * layout.size)
    chosen = join_samples(alone, layout.size)
    layers = find_counted_functions(job)
    execution = execute_firmware(job, interface, chosen, layers)
    outputs = decode_outputs(execution.console, interface.outputs, len(chosen), execution.exit_code)
    first = recipe_samples.pack_first_sample(interface, chosen[0], outputs[0])
    artifacts.RUN_SAMPLE.write(folder, first)
    reference = recipe_samples.read_reference(job, len(alone))
    reference, agreement = judge(job, interface, alone, outputs, reference)
    expected = join_outputs(reference.outputs, layout.size, layout.output_axes)
    arrays = stack_sides({"firmware": outputs, "reference": expected})
    artifacts.RUN_OUTPUTS.write(folder, arrays)
    total = count_on_processor(execution.instructions, execution.by_part, layers)
    cycles = execution.cycles
    if job.measures_cycles:
        cycles = read_board_cycles(job, execution, len(chosen), layers)
    record = RunRecord(
        emulator=execution.emulator,
        reference=reference.runtime,
        samples=len(chosen),
        batch=layout.size,
        macs=layers.macs,
        instructions=None if total is None else total // len(chosen),
        instructions_total=total,
        instructions_by_function=dict(sorted(execution.by_symbol.items())),
        instructions_by_region=dict(zip(layers.functions, execution.by_part, strict=False)),
        tolerance=job.recipe.run.tolerance,
        **asdict(agreement),
        inputs=tuple(sample_digest(s) for s in alone) if data else (),
        drawn={} if data else recipe_samples.find_drawn_ranges(job, single),
        counts=decode_counts(execution.console),
        **name_cycles(cycles, layers),
    )
    artifacts.RUN.write(folder, record)
    remarks = [*execution.notes, *list_remarks(record)]
    if job.measures_cycles and cycles is None:
        remarks.append("the board has no cycle counter, so no cycles are measured")
    if job.recipe.run.board and job.unmeasured_by:
        remarks.append(f"`{job.unmeasured_by}` prevents the measurement of cycles on the board")
    if are_all_equal(outputs):
        remarks.append("all samples have equal outputs; use real samples (`run.inputs`)")
    if remarks:
        job.note("; ".join(remarks))
    if job.recipe.detection is not None:
        boxes = decode_boxes(execution.console, len(interface.outputs), len(chosen), layout.size)
        compare_boxes(job, folder, data, boxes, alone, single, reference)


def are_all_equal(results: Sequence[Sequence[NDArray[Any]]]) -> bool:
    """Return whether several samples have equal outputs, which is weak evidence."""
    first, *others = results
    return bool(others) and all(
        np.array_equal(a, b) for other in others for a, b in zip(first, other, strict=True)
    )


@dataclass(frozen=True)
class CountedFunctions:
    """The C functions whose instructions are counted separately.

    ``functions`` are the functions of the regions, in the order of the calls. ``waits`` are the
    functions that wait for the jobs of other devices, or that let jobs wait for each other.
    ``macs`` are the multiply-accumulates of one inference. The processor runs the C code of another
    core if ``stand_in`` is set. The count then differs from the instructions of the real processor.
    """

    functions: Mapping[str, str]
    waits: tuple[str, ...]
    macs: int
    stand_in: bool


def find_counted_functions(job: Job) -> CountedFunctions:
    partition = artifacts.PARTITION.read(job)
    kernels = artifacts.KERNELS.read(job)
    plan = artifacts.PLAN.read(job)
    functions = plan.name_functions(kernels, job.recipe.c_prefix)
    waits = {k.wait_function for k in kernels.kernels if k.wait_function}
    waits |= {event.function for step in plan.schedule.steps for event in step.events}
    stand_in = any(kernel.stand_in for kernel in kernels.kernels)
    return CountedFunctions(functions, tuple(sorted(waits)), partition.macs, stand_in)


def execute_firmware(
    job: Job, interface: ModelInterface, batches: Sequence[Sample], layers: CountedFunctions
) -> Execution:
    """Run the firmware on whole batches of samples, on a board if the recipe names one."""
    board = job.recipe.run.board
    if board is not None:
        boxes = count_box_lines(job, recipe_samples.read_batch_layout(job, interface).size)
        given = [[encode_inputs(interface.inputs, batch)] for batch in batches]
        access = load_access(job.recipe.resolve(board))
        with error_at_key(job.recipe, ("run", "board")):
            counts = len(layers.functions) + 1 if job.measures_cycles else 0
            answers = [len(interface.outputs) + boxes + counts]
            return run_on_board(access, job.folder("firmware"), given, answers)
    images = ["firmware.elf", "network.elf"] if job.recipe.slot else ["firmware.elf"]

    def emulate(some: Sequence[Sample]) -> Execution:
        return run_firmware(
            tuple(job.folder("firmware") / image for image in images),
            job.platform,
            job.emulator,
            encode_samples(interface.inputs, some),
            f"{job.recipe.c_prefix}_run",
            limit_instructions([read_compiled(job)], len(some)),
            (*layers.functions.values(), *layers.waits),
        )

    if interface.states or job.platform.accelerators:  # a sample may depend on earlier samples
        return emulate(batches)
    return run_side_by_side(emulate, batches, layers.macs)


def count_box_lines(job: Job, batch: int) -> int:
    return batch if job.recipe.detection else 0


def read_board_cycles(
    job: Job, ran: Execution, samples: int, layers: CountedFunctions
) -> ClockCycles | None:
    """Return the cycles by the counter of the board's core; None without a counter."""
    with error_at_key(job.recipe, ("run", "board")):
        whole, *parts = decode_cycles(ran.console, samples, len(layers.functions))
    source = f"measured by the cycle counter of {ran.emulator}"
    return ClockCycles(source, whole, tuple(parts)) if whole else None


def count_on_processor(
    total: int | None, by_part: Sequence[int], layers: CountedFunctions
) -> int | None:
    """Return the processor's part of a count, without emulated devices, or None."""
    if total is None or layers.stand_in:
        return None
    return total - sum(by_part[len(layers.functions) :])


def name_cycles(cycles: ClockCycles | None, layers: CountedFunctions) -> dict[str, Any]:
    """Return the run record's fields about clock cycles, or {} if no cycles are known."""
    if cycles is None:
        return {}
    return {
        "cycles_total": count_on_processor(cycles.total, cycles.by_part, layers),
        "cycles_source": cycles.source,
        "cycles_by_region": dict(zip(layers.functions, cycles.by_part, strict=False)),
        "cycles_by_function": dict(sorted(cycles.by_symbol.items())),
        "stalls": dict(cycles.stalls),
    }


def list_remarks(record: RunRecord) -> list[str]:
    given, different = len(record.inputs), len(set(record.inputs))
    filled = record.batch > 1 and different < given
    all_cycles = sum(record.cycles_by_function.values())
    count = f"{different} sample{'s' if different > 1 else ''}"
    again = [f"{count} in turn fill{'s' if different == 1 else ''} the batches"] if filled else []
    stalls = [f"{name} {100 * count / all_cycles:.1f} %" for name, count in record.stalls.items()]
    stalled = [f"cycles without an instruction: {', '.join(stalls)}"] if stalls else []
    return again + stalled + [f"{name} {count:,}" for name, count in record.counts.items()]


def run_float_reference(
    job: Job, quantized: ModelInterface, samples: Sequence[Sample]
) -> tuple[ModelInterface, ReferenceOutputs]:
    """Return the interface of the network before its quantization, and its reference outputs.

    The network runs on the recipe's data as real numbers. Random integers are converted with the
    scale of the input.
    """
    interface = MODEL_INTERFACE.read(job)
    count = len(samples)
    data = read_run_columns(job, interface, count)
    real = to_samples(data, count) if data else dequantize_samples(quantized.inputs, samples)
    outputs = run_reference(job, interface, real, MODEL_INTERFACE.stage)
    return interface, replace(outputs, runtime=f"the float network in {outputs.runtime}")


def compare_boxes(
    job: Job,
    folder: Path,
    data: Mapping[str, Column],
    boxes: list[list[Box]],
    samples: Sequence[Sample],
    interface: ModelInterface,
    expected: ReferenceOutputs,
) -> None:
    """Compare the firmware's boxes with the reference's boxes. Write and draw the boxes.

    ``interface`` describes the compiled network, and ``expected`` has the reference outputs. The
    float network is the reference if the recipe quantizes the network.
    """
    detection = require(job.recipe.detection)
    if job.recipe.quantize is not None:
        interface, expected = run_float_reference(job, interface, samples)
    names = read_class_names(detection.classes, job.data_folders)
    detector = fit_detector(detection, len(names), interface.outputs)
    origins = [{name: c.origins[i] for name, c in data.items()} for i in range(len(boxes))]
    matched = match_samples(
        expected.runtime,
        [", ".join(o.name for o in by.values()) or f"sample {i}" for i, by in enumerate(origins)],
        [{name: o.sha256 for name, o in by.items()} for by in origins],
        names,
        boxes,
        [detect(detector, outputs) for outputs in expected.outputs],
    )
    report = DetectionReport(detection.threshold, AGREEMENT_IOU, expected.runtime, matched)
    BOXES.write(folder, report)
    for i, by in enumerate(origins):
        for origin in by.values():
            if origin.picture and origin.preprocess:
                target = folder / f"boxes-{i}.png"
                draw_boxes(origin.picture, origin.preprocess, boxes[i], names, target)
    count = sum(map(len, boxes))
    job.note(f"{count} boxes, equal to the boxes of {expected.runtime}")
