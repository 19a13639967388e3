"""Declares the stages from the C project to the bundle."""

from __future__ import annotations

from pathlib import Path

from firmwright.pipeline import artifacts
from firmwright.pipeline.build_inputs import user_files
from firmwright.pipeline.declaration import ALL, Scope
from firmwright.pipeline.job import Job, Stage
from firmwright.pipeline.stage_options import (
    MIX,
    NETWORK,
    RUN_SAMPLES,
    SHOWN_SAMPLE,
    describe_board,
    describe_modules,
    find_extra_archives,
    get_build,
    list_run_files,
    list_sample_files,
    list_shown_sample_files,
    name_archives,
    require,
)
from firmwright.pipeline.tool_stamps import Tool, compiler_tool, emulator_tool, list_sdk_tools
from firmwright.toolchain import make_host_build
from firmwright.toolchain.boards import is_built_elsewhere

SELFTEST = Stage(
    name="selftest",
    sentence="compute the checksums of the layers on golden samples",
    reads=(*artifacts.OF_SAMPLES, artifacts.KERNELS, artifacts.WEIGHTS, artifacts.PLAN),
    keys=(*NETWORK, *RUN_SAMPLES, "run.tolerance", "selftest"),
    platform=ALL,
    inputs=lambda job: [*list_sample_files(job), *job.recipe.list_files("libraries")],
    templates=lambda job: [
        "network/*.j2",
        "application/*.j2",
        "boards/posix/*",
        *(f"{device}/**/*.j2" for device in job.platform.accelerators),
    ],
    tools=lambda job: [compiler_tool(make_host_build(job.platform))],
    condition="the key `selftest`",
    applies=lambda job: job.recipe.selftest and not job.origin,
    about=("selftest",),
)


def list_project_files(job: Job) -> list[Path]:
    files = [*job.device_files, *job.recipe.list_files("postprocess", "libraries")]
    return [*files, *job.platform_files]


def list_project_templates(job: Job) -> list[str]:
    used = ["network", "application", "runtime", "project", "libraries"]
    used.append("boards/*")  # templates of boards include each other
    used.append("c/layers")  # templates of other devices import them
    if not job.build.settings.libc:
        used.append("freestanding")
    if job.recipe.detection:
        used.append("postprocess")
    if job.recipe.slot:
        used.append("slot")
    owners = {part for pair in job.cores.items() for part in pair if part}
    return [
        *(f"{folder}/*.j2" for folder in used),
        *(f"{owner}/**/*.j2" for owner in sorted(owners)),
    ]


SOURCES = Stage(
    name="sources",
    sentence="write the C project",
    reads=(
        artifacts.INTERFACE,
        artifacts.BATCH_LAYOUT,
        artifacts.PARTITION,
        artifacts.KERNELS,
        artifacts.WEIGHTS,
        artifacts.PLAN,
        artifacts.GOLDEN,
    ),
    keys=(*NETWORK, "compare", "counter", "demo", "export", "run.board"),
    platform=ALL,
    facts={"board": describe_board, "build": get_build, "modules": describe_modules},
    inputs=list_project_files,
    templates=list_project_templates,
    tools=lambda job: [job.compiler] if job.has_firmware else [],
    archive=lambda job: artifacts.PROJECT.pack(job, "src/"),
)
OBJECTS = Stage(
    name="objects",
    sentence="compile the C project",
    reads=(artifacts.PROJECT,),
    keys=("cflags",),
    platform=("architecture",),
    facts={"build": get_build},
    tools=lambda job: [job.compiler],
    condition="a platform whose objects firmwright compiles",
    applies=lambda job: not is_built_elsewhere(job.platform.board),
)


LINKED = ("elf", "map")
FLASHED = ("bin", "hex")


def list_images(job: Job) -> list[str]:
    """Return the names of the results that are part of the bundle."""
    images = ["firmware", "network"] if job.recipe.slot else ["firmware"]
    suffixes = (*LINKED, *FLASHED) if job.platform.is_bare_metal else LINKED
    further = sorted(path.name for path in job.folder("firmware").glob("firmware.*.bin"))
    if job.platform.uf2_family is not None:
        further.append("firmware.uf2")
    return [*(f"{name}.{suffix}" for name in images for suffix in suffixes), *further]


def list_firmware_files(job: Job) -> dict[str, Path]:
    """Return a mapping from names in the bundle to the results.

    Headers are in the folder of the sources.
    """
    folder = job.folder("firmware")
    headers = {f"src/network/{path.name}": path for path in sorted(folder.glob("*_stack.h"))}
    return {name: folder / name for name in list_images(job)} | headers


def list_linked_archives(job: Job) -> list[Path]:
    return [archive for archive in find_extra_archives(job) if archive.is_file()]


FIRMWARE = Stage(
    name="firmware",
    sentence="link the firmware",
    reads=(artifacts.PROJECT, artifacts.OBJECTS),
    keys=(*MIX, "slot", "libraries", "c_prefix"),
    platform=ALL,
    facts={"board": describe_board, "build": get_build, "archives": name_archives},
    inputs=list_linked_archives,
    tools=lambda job: [job.compiler, *list_sdk_tools(job.platform)],
    condition="the compiler and the SDK of the platform",
    applies=lambda job: job.has_firmware,
    archive=list_firmware_files,
)
REFERENCE = Stage(
    name="reference",
    sentence="compute the samples in the model's runtime",
    reads=artifacts.OF_SAMPLES,
    keys=(*RUN_SAMPLES, "model", "inputs"),
    inputs=list_run_files,
    condition="an emulator or a board that runs the firmware",
    applies=lambda job: job.is_run,
    scope=Scope.TARGET,
)


def list_emulators(job: Job) -> list[Tool]:
    """Return the emulator, or [] for a board, whose flash tool does not affect results."""
    if job.recipe.run.board is not None:
        return []
    return [emulator_tool(job.emulator, job.platform)]


def list_run_inputs(job: Job) -> list[Path]:
    return [*list_sample_files(job), *job.recipe.list_files("run.board")]


RUN = Stage(
    name="run",
    sentence="run the firmware and compare it with the reference",
    reads=(
        *artifacts.OF_SAMPLES,
        artifacts.REFERENCE,
        artifacts.REFERENCE_OUTPUTS,
        artifacts.KERNELS,
        artifacts.FIRMWARE,
    ),
    keys=(
        *(*RUN_SAMPLES, "run.tolerance", "run.board", "detection", "classes", "c_prefix"),
        *("inputs", "slot", "hooks", "quantize"),
    ),
    platform=ALL,
    facts={"board": describe_board},
    inputs=list_run_inputs,
    templates=lambda job: [f"{device}/**/*.j2" for device in job.platform.accelerators],
    tools=list_emulators,
    condition="an emulator or a board that runs the firmware",
    applies=lambda job: job.is_run,
)


def list_stats(job: Job) -> dict[str, Path]:
    """Return the file by its name in the bundle; empty for a board without a cycle counter."""
    path = job.folder("stats") / job.stats_file
    return {f"stats/{job.stats_file}": path} if path.is_file() else {}


STATS = Stage(
    name="stats",
    sentence="report when each layer runs",
    reads=(artifacts.PARTITION, artifacts.KERNELS, artifacts.PLAN, artifacts.RUN),
    keys=("name", "c_prefix", "clock"),
    platform=("name", "clock", "cycle_table", "cycle_bound", "memories", "energy"),
    condition="an emulator that counts instructions, or a board",
    applies=lambda job: job.counts_instructions or job.measures_cycles,
    archive=list_stats,
)


def explain_no_comparison(job: Job) -> str:
    if not job.recipe.compare or job.has_stage(artifacts.MAPPING.stage):
        return ""
    if not job.platform.emulators:
        return f"nothing to compare: {job.platform.name} lists no emulator"
    return (
        f"nothing to compare: {job.emulator} counts no instructions, and {job.platform.name} "
        "states no `timing`"
    )


COMPARISON = Stage(
    name="comparison",
    sentence="compare the cycles with the cycles of another target",
    run="firmwright.stages.comparison:compare_counted",
    reads=(artifacts.RUN, artifacts.TIMELINE),
    compares=True,
    keys=("name", "target", "compare"),
    condition="the key `compare`, and an emulator that counts instructions",
    applies=lambda job: job.counts_instructions and job.recipe.compare,
    explain_absence=explain_no_comparison,
    archive=artifacts.COMPARISON.pack,
)
MAPPING = Stage(
    name="mapping",
    sentence="estimate the cost of the target and of another target",
    run="firmwright.stages.comparison:compare_estimated",
    reads=(artifacts.PARTITION, artifacts.KERNELS, artifacts.RUN),
    compares=True,
    keys=(*MIX, "name", "compare", "c_prefix"),
    platform=("timing",),
    condition="the key `compare`, and a platform with `timing`",
    applies=lambda job: job.has_firmware and job.recipe.compare and job.platform.timing,
    archive=artifacts.MAPPING.pack,
)
DEMO = Stage(
    name="demo",
    sentence="write the demo application",
    reads=(*artifacts.OF_SAMPLES, artifacts.PLAN, artifacts.PROJECT, artifacts.RUN_SAMPLE),
    keys=(*SHOWN_SAMPLE, "name", "c_prefix", "arena", "demo"),
    platform=("name", "board", "accelerators"),
    facts={"board": describe_board},
    inputs=list_shown_sample_files,
    templates=lambda job: [
        "demo/*.j2",
        "application/console.j2",
        "network/arena.j2",
        *(f"{device}/hooks/profiler_*.j2" for device in job.platform.accelerators),
    ],
    condition="the key `demo`",
    applies=lambda job: job.recipe.demo,
    archive=lambda job: artifacts.DEMO.pack(job, "src/demo/"),
)
DEMO_RUN = Stage(
    name=artifacts.DEMO_CONSOLE.stage,
    sentence="build the demo application and run it",
    run="firmwright.stages.demo_run:run",
    reads=(
        artifacts.PARTITION,
        artifacts.KERNELS,
        artifacts.PROJECT,
        artifacts.OBJECTS,
        artifacts.DEMO,
    ),
    keys=(*MIX, "c_prefix", "demo", "libraries"),
    platform=ALL,
    facts={"board": describe_board, "build": get_build, "archives": name_archives},
    inputs=list_linked_archives,
    templates=lambda job: [f"{device}/**/*.j2" for device in job.platform.accelerators],
    tools=lambda job: [job.compiler, emulator_tool(job.emulator, job.platform)],
    condition="the key `demo` without `indefinite`, and an emulator",
    applies=lambda job: job.recipe.demo and not job.recipe.demo.indefinite and job.can_emulate,
)


def list_export_templates(job: Job) -> list[str]:
    folders = [f"exports/{name}" for name in require(job.recipe.export).to]
    chosen = [f"{folder}/{files}" for folder in folders for files in ("export.yaml", "**/*.j2")]
    return ["exports/*.j2", *chosen]


EXPORTS = Stage(
    name="exports",
    sentence="package the network for other build systems",
    reads=(*artifacts.OF_SAMPLES, artifacts.PLAN, artifacts.PROJECT, artifacts.RUN_SAMPLE),
    keys=(
        *(*SHOWN_SAMPLE, "name", "c_prefix", "description", "arena", "export"),
        *("target", "devices", "compare"),
    ),
    platform=ALL,
    facts={"board": describe_board},
    inputs=lambda job: [*list_shown_sample_files(job), *job.device_files],
    templates=list_export_templates,
    condition="the key `export`",
    applies=lambda job: job.recipe.export,
    archive=lambda job: artifacts.EXPORTS.pack(job, "exports/"),
    about=("export",),
)
BUNDLE = Stage(
    name="bundle",
    sentence="pack firmware, sources and manifest",
    reads_all=True,
    keys=ALL,
    platform=ALL,
    facts={"build": get_build, "archives": name_archives, "not built": lambda job: job.not_built},
    inputs=lambda job: [*user_files(job), *job.description_files.values()],
    templates=lambda _: ["report/*.j2", "bundle/*.j2"],
    applies=lambda job: not job.origin,
    publish=lambda job: [job.bundle, job.report, *job.box_pictures.values()],
)

STAGES = (
    SELFTEST, SOURCES, OBJECTS, FIRMWARE, REFERENCE, RUN, STATS, COMPARISON, MAPPING, DEMO,
    DEMO_RUN, EXPORTS, BUNDLE,
)  # fmt: skip
