"""What a bundle has beside the results of stages: a README, and what it was built by."""

from __future__ import annotations

from firmwright.codegen.templates import make_environment, render
from firmwright.ir.tensors import Tensor
from firmwright.pipeline import artifacts
from firmwright.pipeline.job import Job
from firmwright.project.locations import arena_name
from firmwright.project.write import make_ports
from firmwright.recipe.restated import restate
from firmwright.toolchain.boards import is_built_elsewhere

README = "bundle/README.md.j2"


def write_texts(job: Job, result: str) -> dict[str, bytes]:
    """Return files by their names in the bundle; ``result`` tells how the firmware was tried."""
    recipe = f"{job.recipe.name}.yaml"
    described = {name: path.read_bytes() for name, path in job.description_files.items()}
    return {
        "README.md": write_readme(job, recipe, result).encode(),
        f"recipe/{recipe}": restate(job.recipe).encode(),
        **{f"recipe/{name}": content for name, content in described.items()},
    }


def write_readme(job: Job, recipe: str, result: str) -> str:
    """Return the README in Markdown; ``recipe`` is the recipe's name in the bundle."""
    interface, plan = artifacts.INTERFACE.read(job), artifacts.PLAN.read(job)
    memories = job.platform.memories
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
        "inputs": initialize(interface.inputs),
        "outputs": initialize(interface.outputs),
    }
    return render(make_environment(), README, variables)


def initialize(tensors: tuple[Tensor, ...]) -> str:
    """Return the members of a struct of pointers, each with an array of its name."""
    return ", ".join(f".{port.member} = {port.member}" for port in make_ports(tensors))
