"""Writes the texts of a bundle: a README, and the descriptions that the build used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from firmwright.codegen.templates import make_environment, render
from firmwright.pipeline import artifacts
from firmwright.pipeline.devices import template_folders
from firmwright.pipeline.job import Job
from firmwright.project.calls import arena_name
from firmwright.project.inter_core_calls import make_cores
from firmwright.project.interface import Port
from firmwright.project.project_files import place_call_files, place_device_files
from firmwright.project.write import make_ports
from firmwright.recipe.value_origins import serialize
from firmwright.toolchain.boards import is_built_elsewhere
from firmwright.toolchain.project_folders import BOARD, FOLDERS

README, NETWORKS_README = "bundle/README.md.j2", "bundle/networks.md.j2"
DESCRIBED = frozenset({"src", "exports", "firmware", "network"})
"""Prefixes of names that the README describes in separate texts."""


def write_texts(job: Job, result: str) -> dict[str, bytes]:
    """Map names in the bundle to texts. ``result`` describes the run of the firmware."""
    recipe = f"{job.recipe.name}.yaml"
    described = {name: path.read_bytes() for name, path in job.description_files.items()}
    return {
        "README.md": write_readme(job, recipe, result).encode(),
        f"recipe/{recipe}": serialize(job.recipe).encode(),
        **{f"recipe/{name}": content for name, content in described.items()},
    }


def write_readme(job: Job, recipe: str, result: str) -> str:
    """Return the README in Markdown. ``recipe`` is the recipe's name in the bundle."""
    interface, plan = artifacts.INTERFACE.read(job), artifacts.PLAN.read(job)
    inputs, outputs = make_ports(interface)
    memories = job.platform.memories
    kernels = artifacts.KERNELS.read(job).kernels
    stand_ins = Counter(kernel.stand_in for kernel in kernels if kernel.stand_in)
    variables = {
        "name": job.recipe.name,
        "description": job.recipe.description,
        "recipe": recipe,
        "model": artifacts.MODEL_INTERFACE.read(job),
        "platform": job.platform,
        "toolchain": job.build.toolchain,
        "target": job.target,
        "result": result,
        "has_firmware": job.has_firmware,
        "is_built_elsewhere": is_built_elsewhere(job.platform.board),
        "exports": job.recipe.export.to if job.recipe.export else (),
        "prefix": job.recipe.c_prefix,
        "caller_arena": job.recipe.arena == "caller",
        "stateful": bool(interface.states),
        "more_arenas": [arena_name(m) for m in plan.other_arenas],
        "stored_apart": [m for m in sorted({*plan.constants.values()}) if memories[m].read_only],
        "slot": job.recipe.slot,
        "drivers": [f"src/{file}" for file in list_drivers(job)],
        "further": list_further_folders(artifacts.PROJECT.path(job)),
        "recorded": [*list_recorded(job)],
        "stand_ins": [(count, text) for text, count in stand_ins.items()],
        "inputs": initialize(inputs),
        "outputs": initialize(outputs),
    }
    return render(make_environment(), README, variables)


def write_networks_readme(job: Job, result: str) -> bytes:
    variables = {
        "name": job.recipe.name,
        "description": job.recipe.description,
        "exports": job.recipe.export.to if job.recipe.export else (),
        "members": [member.recipe.c_prefix for member in job.members],
        "platform": job.platform,
        "toolchain": job.build.toolchain,
        "result": result,
        "has_firmware": job.has_firmware,
        "prefix": job.recipe.c_prefix,
    }
    return render(make_environment(), NETWORKS_README, variables).encode()


def list_drivers(job: Job) -> list[str]:
    """Return the C files of the project's board folder that drive the devices of the network."""
    board, roots = job.platform.board, tuple(template_folders(job.recipe).values())
    devices = {region.device for region in artifacts.PARTITION.read(job).regions}
    carriers = make_cores(job.cores).template_folders(devices, board)
    placed = place_call_files(carriers, board, job.recipe.c_prefix, roots)
    for device in sorted(devices):
        placed |= place_device_files(device, board, roots)
    return sorted(f for f in placed.values() if f.startswith(f"{BOARD}/") and f.endswith(".c"))


def list_further_folders(project: Path) -> list[str]:
    return sorted(p.name for p in project.iterdir() if p.is_dir() and p.name not in FOLDERS)


def list_recorded(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the other stage results in the bundle, and the sentence of each stage."""
    for stage in job.stages.values():
        files = stage.archive(job) if job.has_stage(stage.name) else ()
        begins = {PurePath(name).parts[0] + "/" * ("/" in name) for name in files}
        others = sorted(b for b in begins if b.partition(".")[0].rstrip("/") not in DESCRIBED)
        if others:
            yield ", ".join(f"`{name}`" for name in others), stage.sentence


def initialize(ports: Sequence[Port]) -> str:
    """Return the initializers of a struct of pointers. Each array has the member's name."""
    return ", ".join(f".{port.member} = {port.member}" for port in ports)
