"""Runs the stage ``demo``: writes an application that shows one inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
from numpy.typing import NDArray

from firmwright.codegen.templates import TEMPLATE_SUFFIX, make_environment, render
from firmwright.ir.regions import Region
from firmwright.ir.tensors import ModelInterface
from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.job import Job
from firmwright.pipeline.stage_options import require
from firmwright.project.calls import arena_name
from firmwright.project.interface import view_as_c_type
from firmwright.project.project_files import file_name
from firmwright.project.write import make_ports, write_file
from firmwright.recipe.recipe import DemoOptions
from firmwright.toolchain.boards import Board, load_board
from firmwright.verify.batches import join_outputs, join_samples


def run(job: Job, folder: Path) -> None:
    regions = {r.name: r for r in artifacts.PARTITION.read(job).regions if not r.view}
    plan, caller = artifacts.PLAN.read(job), job.recipe.arena == "caller"
    write_demo(
        ShownNetwork(
            job.recipe.name,
            job.recipe.c_prefix,
            artifacts.INTERFACE.read(job),
            [regions[step.region] for step in plan.schedule.steps if step.region in regions],
            caller,
            tuple(plan.other_arenas) if caller else (),
        ),
        require(job.recipe.demo),
        read_sample(job),
        load_board(job.platform.board),
        folder,
    )


def read_sample(job: Job) -> dict[str, NDArray[Any]]:
    """Return the inputs of one inference, and the outputs of the firmware or the reference."""
    return artifacts.RUN_SAMPLE.read(job) if job.has_stage("run") else make_reference_sample(job)


def make_reference_sample(job: Job) -> dict[str, NDArray[Any]]:
    """Return the inputs of one inference, and the reference outputs of this inference."""
    single = artifacts.NETWORK_INTERFACE.read(job)
    interface = artifacts.INTERFACE.read(job)
    layout = recipe_samples.read_batch_layout(job, interface)
    _, alone = recipe_samples.read_run_samples(job, single, layout.size)
    reference = recipe_samples.run_reference(job, interface, alone)
    (outputs,) = join_outputs(reference.outputs, layout.size, layout.output_axes)
    (chosen,) = join_samples(alone, layout.size)
    return recipe_samples.pack_first_sample(interface, chosen, outputs)


FILES = ("demo.c", "demo.gdb", "demo_data.c", "demo_data.h", "gdb_anchor.c", "gdb_anchor.h",
         "malloc_wrapper.c", "malloc_wrapper.h")  # fmt: skip
GDB_TYPES = {
    "bool": "char", "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short",
    "uint16_t": "unsigned short", "int32_t": "int", "uint32_t": "unsigned int",
    "int64_t": "long long", "uint64_t": "unsigned long long", "float": "float", "double": "double",
}  # fmt: skip
"""The names of C types in a debugger that has no debug information."""
ALIGNMENT = 16
"""The alignment of the demo allocator's blocks, and the space before each block, in bytes
(``malloc_wrapper.c``).
"""


@dataclass(frozen=True)
class ShownNetwork:
    """The facts about a network in an application. ``regions`` are in execution order.

    The application contains the network's working memory if ``caller_arena`` is set.
    ``more_arenas`` are the memories other than RAM that contain a part of the working memory.
    """

    name: str
    c_prefix: str
    interface: ModelInterface
    regions: Sequence[Region]
    caller_arena: bool = False
    more_arenas: tuple[str, ...] = ()


def write_demo(
    network: ShownNetwork,
    options: DemoOptions,
    sample: Mapping[str, npt.NDArray[Any]],
    board: Board,
    folder: Path,
) -> None:
    """Render the application's files into ``folder``.

    ``sample`` contains the network's inputs and the resulting outputs, as ``input_0`` … and
    ``output_0`` …, with their shapes.
    """
    interface = network.interface
    inputs, outputs = make_ports(interface)
    expected = outputs if options.compare else []
    tensors = (*interface.inputs, *interface.outputs)
    variables = {
        "name": network.name,
        "prefix": network.c_prefix,
        "demo": options,
        "inputs": inputs,
        "outputs": outputs,
        "states": interface.states,
        "input_data": [(p, view_as_c_type(sample[f"input_{i}"])) for i, p in enumerate(inputs)],
        "expected": [(p, view_as_c_type(sample[f"output_{i}"])) for i, p in enumerate(expected)],
        "gdb_types": GDB_TYPES,
        "layers": [region.name for region in network.regions],
        "data_section": board.data_section,
        "nanoseconds": board.nanoseconds,
        "caller_arena": network.caller_arena,
        "more_arenas": network.more_arenas,
        "arena_name": arena_name,
        "hook_folders": sorted({region.device for region in network.regions}),
        "arena_bytes": sum(ALIGNMENT + -(-t.bytes // ALIGNMENT) * ALIGNMENT for t in tensors),
    }
    profiler = () if options.profile == "none" else ("profiler.c",)
    for file in (*FILES, *profiler):
        template = f"demo/{file}{TEMPLATE_SUFFIX}"
        write_file(folder / file_name(template), render(make_environment(), template, variables))
