"""Runs the stages of a firmware with several networks: project, run and bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from firmwright import __version__
from firmwright.bundle.archive import write_archive
from firmwright.data.samples import Sample
from firmwright.emulator import Execution, run_firmware
from firmwright.errors import DiagnosticError, UserError
from firmwright.hardware.access import load_access
from firmwright.hardware.board_run import run_on_board
from firmwright.ir.records import encode_record, to_plain, write_record
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.pipeline import artifacts, recipe_samples
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.pipeline.linking import locate_library_errors
from firmwright.pipeline.summary import summarize
from firmwright.project.build_id import list_stating, read_build_id, state_build_id
from firmwright.project.several_networks import TakenFileError, write_networks
from firmwright.recipe.recipe import error_at_key
from firmwright.report.manifest import (
    BundledFile,
    NetworkEntry,
    NetworksManifest,
    NetworksRun,
)
from firmwright.stages.bundle import collect_files
from firmwright.stages.bundle_texts import write_networks_readme
from firmwright.stages.check_outputs import find_steps
from firmwright.stages.run import limit_instructions, read_compiled
from firmwright.stages.sources import read_compiler_version, read_whole_network
from firmwright.verify.batches import join_samples
from firmwright.verify.compare import compare
from firmwright.verify.protocol import decode_outputs, encode_inputs
from firmwright.verify.run_records import Agreement


def write_sources(job: Job, folder: Path) -> None:
    """Write the C project of all networks. Raises DiagnosticError if file names are equal."""
    networks = [read_whole_network(member) for member in job.members]
    if job.recipe.export:  # packages contain no assembly
        networks = [replace(network, binary_constants=False) for network in networks]
    prefix = job.recipe.c_prefix
    roots = tuple(f for member in job.members for f in template_folders(member.recipe).values())
    try:
        with locate_library_errors(job):
            write_networks(
                job.recipe.name, prefix, networks, job.concurrent, job.build, folder, roots
            )
    except TakenFileError as error:
        target = job.recipe.make_diagnostic(("networks", error.prefix), str(error))
        raise DiagnosticError([target]) from None
    prefixes = [network.c_prefix for network in networks]
    stating = {name for each in prefixes for name in list_stating(each)}
    state_build_id(folder, sorted(stating), read_compiler_version(job))


@dataclass(frozen=True)
class MemberSamples:
    """The samples of one network of a firmware, and the reference outputs."""

    job: Job
    interface: ModelInterface
    batches: list[Sample]
    expected: list[list[NDArray[Any]]]


def read_member_samples(job: Job) -> MemberSamples:
    """Return the samples and the reference outputs of the network's separate run."""
    single, interface = artifacts.NETWORK_INTERFACE.read(job), artifacts.INTERFACE.read(job)
    layout = recipe_samples.read_batch_layout(job, interface)
    _, alone = recipe_samples.read_run_samples(job, single, job.recipe.run.samples * layout.size)
    batches = join_samples(alone, layout.size)
    outputs = artifacts.RUN_OUTPUTS.read(job)
    columns = [outputs[f"reference_{i}"] for i in range(len(interface.outputs))]
    expected = [[column[sample] for column in columns] for sample in range(len(batches))]
    return MemberSamples(job, interface, batches, expected)


def run(job: Job, folder: Path) -> None:
    """Run the networks in turn, once per sample of the network with the most samples.

    Writes ``run.json``. Raises UserError if a network's outputs differ from the reference.
    """
    members = [read_member_samples(member) for member in job.members]
    turns = max(len(member.batches) for member in members)
    members = [go_on(member, turns) for member in members]
    ran = execute_firmware(job, members, turns)
    tensors: list[Tensor] = [t for member in members for t in member.interface.outputs]
    results = decode_outputs(ran.console, tensors, turns, ran.exit_code)
    agreements: dict[str, Agreement] = {}
    first = 0
    for member in members:
        count = len(member.interface.outputs)
        given = [outputs[first : first + count] for outputs in results]
        first += count
        agreements[member.job.recipe.c_prefix] = judge(member, given)
    artifacts.NETWORKS_RUN.write(folder, NetworksRun(ran.emulator, turns, agreements))


def execute_firmware(job: Job, members: Sequence[MemberSamples], turns: int) -> Execution:
    """Run the firmware for ``turns`` turns, on a board if the recipe names one."""
    samples = [
        [encode_inputs(m.interface.inputs, m.batches[turn % len(m.batches)]) for m in members]
        for turn in range(turns)
    ]
    if job.recipe.run.board is not None:
        access = load_access(job.recipe.resolve(job.recipe.run.board))
        answers = [len(member.interface.outputs) for member in members]
        with error_at_key(job.recipe, ("run", "board")):
            return run_on_board(access, job.folder("firmware"), samples, answers)
    console = b"".join([turns.to_bytes(4, "little"), *chain.from_iterable(samples)])
    counted = f"{job.members[0].recipe.c_prefix}_run"
    return run_firmware(
        artifacts.FIRMWARE.path(job), job.platform, job.emulator, console, counted,
        limit_instructions([read_compiled(m.job) for m in members], turns),
    )  # fmt: skip


def go_on(member: MemberSamples, turns: int) -> MemberSamples:
    """Return the expected outputs if there are more turns than samples and samples repeat.

    The outputs differ for repeated samples if a network has states.
    """
    if not member.interface.states or len(member.batches) == turns:
        return member
    given = [member.batches[turn % len(member.batches)] for turn in range(turns)]
    reference = recipe_samples.run_reference(member.job, member.interface, given)
    return replace(member, expected=reference.outputs)


def judge(member: MemberSamples, results: Sequence[Sequence[NDArray[Any]]]) -> Agreement:
    """Compare a network's outputs with the reference.

    Raises UserError if the tolerance is exceeded.
    """
    expected = [member.expected[turn % len(member.expected)] for turn in range(len(results))]
    tolerance = member.job.recipe.run.tolerance
    outputs = member.interface.outputs
    try:
        return compare(outputs, results, expected, tolerance, find_steps(member.job))
    except UserError as error:
        raise UserError(f"{member.job.recipe.c_prefix}: {error}") from None


def describe_result(job: Job) -> str:
    """Return a line that states the exactness of the networks, or that the networks did not run."""
    if not job.has_stage("run"):
        return "not run"
    ran = artifacts.NETWORKS_RUN.read(job)
    exact = (
        f"{prefix} {agreement.exact_samples} of {ran.turns} samples exact, largest difference "
        f"{agreement.max_difference:g}"
        for prefix, agreement in ran.networks.items()
    )
    return f"run in {ran.emulator}, against each network's reference: {'; '.join(exact)}"


def pack(job: Job, folder: Path) -> None:
    """Write ``manifest.json``, and an archive of firmware, project, README and bundles."""
    contents = collect_files(job)
    networks = {}
    for member in job.members:
        bundle = member.bundle.read_bytes()
        target = f"networks/{member.bundle.name}"
        contents[target] = bundle
        networks[member.recipe.c_prefix] = NetworkEntry(
            bundle=target,
            sha256=hashlib.sha256(bundle).hexdigest(),
            model=artifacts.MODEL_INTERFACE.read(member).sha256,
            recipe=member.recipe.sha256,
            arena_bytes=artifacts.PLAN.read(member).arena_bytes,
        )
    contents["README.md"] = write_networks_readme(job, describe_result(job))
    linked = artifacts.FIRMWARE_SIZE.read(job) if job.has_firmware else None
    content = NetworksManifest(
        kind="networks",
        firmwright=__version__,
        name=job.recipe.name,
        description=job.recipe.description,
        build_id=read_build_id(artifacts.PROJECT.read(job), job.members[0].recipe.c_prefix),
        platform=job.platform.name,
        concurrent=job.concurrent,
        flash_bytes=linked.flash_bytes if linked else None,
        ram_bytes=linked.ram_bytes if linked else None,
        networks=networks,
        run=artifacts.NETWORKS_RUN.read(job) if job.has_stage("run") else None,
        files=tuple(
            BundledFile(name, len(data), hashlib.sha256(data).hexdigest())
            for name, data in sorted(contents.items())
        ),
    )
    contents["manifest.json"] = encode_record(to_plain(content))
    (folder / "manifest.json").write_bytes(contents["manifest.json"])
    write_archive(folder / job.bundle.name, job.bundle_name, contents)
    write_record(folder / artifacts.SUMMARY.file, summarize(job))
