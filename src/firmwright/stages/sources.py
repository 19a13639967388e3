"""Runs the stage ``sources``: writes the C project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from firmwright.errors import UserError
from firmwright.ir.tensors import BatchLayout, ModelInterface
from firmwright.pipeline.artifacts import GOLDEN, PLAN, PROJECT
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import locate_library_errors
from firmwright.planning import Plan
from firmwright.postprocess.classes import read_class_names
from firmwright.postprocess.detector import Detector, fit_detector
from firmwright.project.build_id import list_stating, state_build_id
from firmwright.project.constants import are_large
from firmwright.project.network import Network
from firmwright.project.selftest import find_checks
from firmwright.project.slot import NetworkSlot, refuse_slot
from firmwright.project.write import write_project
from firmwright.recipe.recipe import error_at_key
from firmwright.stages.network import find_driven_devices, read_network
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.compilers import explain_missing_compiler


def make_detector(
    job: Job, interface: ModelInterface, batch: BatchLayout | None
) -> Detector | None:
    """Return the detector for the network's outputs. Raises DiagnosticError if it does not fit."""
    detection = job.recipe.detection
    if detection is None:
        return None
    classes = len(read_class_names(detection.classes, job.data_folders))
    with error_at_key(job.recipe, ("postprocess", "detection")):
        return fit_detector(detection, classes, interface.outputs, batch)


def list_class_names(job: Job) -> tuple[str, ...]:
    """Return the names of the classes, or () if the recipe only states their number."""
    detection = job.recipe.detection
    classes = detection.classes if detection else job.recipe.classes
    if classes is None or classes.count is not None:
        return ()
    return read_class_names(classes, job.data_folders)


def read_compiler_version(job: Job) -> str:
    """Return the compiler's version, or '' if the compiler is not installed.

    Raises UserError if the compiler is installed and does not run. Without this error, the next
    build would keep the result.
    """
    try:
        missing = explain_missing_compiler(job.build.toolchain, job.platform.architecture)
    except UserError:  # incomplete installation
        return ""
    return "" if missing else job.compiler.version() or ""


def refuse_shared_devices(job: Job) -> None:
    """Raise UserError if several instances of the network would share a device."""
    for device in find_driven_devices(job):
        raise UserError(
            f"`arena: caller` allows several instances of a network, which cannot share {device}; "
            "remove the key, or build with `target: c`"
        )


def refuse_second_arena(job: Job, plan: Plan) -> None:
    """Raise UserError if a package's network would need a second arena of the caller."""
    if job.recipe.arena == "caller" and plan.other_arenas:
        raise UserError(
            f"packages pass one arena, but this network has a second arena in "
            f"{' and '.join(plan.other_arenas)}; add `memory: {{arena: ram}}` to the recipe, or "
            "remove `arena: caller`"
        )


def read_whole_network(job: Job) -> Network:
    """Return the network with all parts that a project contains in addition to the layers.

    Raises UserError if a device does not support the caller's arena or an export.
    """
    if job.recipe.arena == "caller":
        with error_at_key(job.recipe, ("arena",)):
            refuse_shared_devices(job)
    network, slot = read_network(job, PLAN.read(job)), find_slot(job)
    if job.recipe.export and job.origin is None:  # the network of a comparison is not exported
        with error_at_key(job.recipe, ("export",)):
            refuse_second_arena(job, network.plan)
    if slot:
        with error_at_key(job.recipe, ("slot",)):
            refuse_slot(slot, job.build, network.plan.arena_bytes)
    detector = make_detector(job, network.interface, network.batch)
    return replace(
        network,
        checks=find_checks(network.partition, network.plan) if job.has_stage("selftest") else None,
        golden=GOLDEN.read(job) if job.has_stage("selftest") else None,
        detector=detector,
        demo=job.recipe.demo,
        class_names=list_class_names(job),
        slot=slot,
        binary_constants=includes_constants(job, network),
    )


def includes_constants(job: Job, network: Network) -> bool:
    """Return whether the assembler includes the constants, which are then large.

    Packages contain no assembly. If there are several memories or cores, only C code can state the
    memory of each constant.
    """
    called = any(network.cores.called_core(device) for device in network.devices)
    placed = network.plan.constants or load_board(job.platform.board).data_section
    is_text = called or placed or job.recipe.export or not job.has_firmware
    return are_large(network.weights) and not is_text


def find_slot(job: Job) -> NetworkSlot | None:
    """Return the location of the network's image, or None if the firmware contains the network."""
    options = job.recipe.slot
    if options is None:
        return None
    numbers = options.address, options.size, options.version
    return NetworkSlot(*numbers, job.recipe.counter or 0, options.workspace)


def run(job: Job, folder: Path) -> None:
    network = replace(read_whole_network(job), measured=job.measures_cycles)
    roots = tuple(template_folders(job.recipe).values())
    with locate_library_errors(job):
        variables = write_project(network, job.build, folder, roots)
    for device in job.mix:
        device.extend_project(folder, variables)
    compiler = read_compiler_version(job) if job.has_firmware else ""
    state_build_id(folder, list_stating(job.recipe.c_prefix), compiler)
    if not job.has_firmware:
        job.note(
            f"firmwright does not compile the firmware of {job.platform.name}; build it with the "
            f"platform's SDK: {PROJECT.path(job)}/Makefile"
        )
