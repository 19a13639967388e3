"""Writes the generated C project, and computes the variables of all templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt
from jinja2 import Environment

from firmwright.codegen.c_library import functions_by_header
from firmwright.codegen.names import make_unique_identifiers
from firmwright.codegen.templates import (
    TEMPLATE_SUFFIX,
    make_environment,
    render,
    template_folder,
)
from firmwright.ir.kernels import C_TYPES
from firmwright.ir.regions import RAM
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.project import build_id
from firmwright.project.board import list_further_memories, render_makefile, write_board
from firmwright.project.calls import (
    arena_name,
    emit_location,
    list_buffers,
    make_blocks,
    make_kernel_calls,
)
from firmwright.project.constants import (
    BYTES_FILE,
    BYTES_TEMPLATE,
    TEXT_TEMPLATE,
    list_included,
    write_bytes,
)
from firmwright.project.interface import (
    InterfaceModel,
    NetworkInterface,
    Port,
    describe_ports,
    describe_states,
    encode_interface,
)
from firmwright.project.network import Network
from firmwright.project.project_files import (
    DETECTION_TEMPLATES,
    NETWORK_TEMPLATES,
    PROFILE_TEMPLATE,
    SELFTEST_TEMPLATE,
    file_name,
    list_called_headers,
    network_file,
    place_call_files,
    place_device_files,
    place_library_files,
    place_network_files,
    place_program_files,
)
from firmwright.project.selftest import list_checks, selftest_variables
from firmwright.project.slot import place_slot_files, slot_variables
from firmwright.project.user_libraries import (
    ARCHIVE_SUFFIXES,
    collect_library_functions,
    copy_libraries,
)
from firmwright.toolchain import Build, makefile_variables
from firmwright.toolchain.boards import load_board
from firmwright.toolchain.project_folders import BOARD, DEMO, NETWORK, list_sources

REGION_TEMPLATE = f"network/region.c{TEMPLATE_SUFFIX}"
CALLS_TEMPLATE = f"network/regions.c{TEMPLATE_SUFFIX}"


def place_files_of(network: Network, build: Build, roots: Sequence[Path]) -> dict[str, str]:
    """Map templates to the paths of the files that belong only to this network."""
    board, prefix = build.platform.board, network.c_prefix
    constants = BYTES_TEMPLATE if network.binary_constants else TEXT_TEMPLATE
    templates = [*NETWORK_TEMPLATES, constants, *(DETECTION_TEMPLATES if network.detector else ())]
    templates += [PROFILE_TEMPLATE] if network.profile != "none" else []
    templates += [SELFTEST_TEMPLATE] if network.golden else []
    templates += list_called_headers(network.kernels)
    placed = place_network_files(templates, prefix)
    placed |= place_slot_files(prefix) if network.slot else {}
    for device in sorted(network.devices):
        placed |= place_device_files(device, board, roots)
    carriers = network.cores.template_folders(network.devices, board)
    placed |= place_call_files(carriers, board, prefix, roots)
    return placed | (place_library_files(prefix) if network.calls_libraries else {})


def list_hook_folders(network: Network, build: Build) -> list[str]:
    """Return the folders whose ``hooks`` contain lines for ``network.c`` and ``main.c``.

    ``network_headers.j2`` and ``main_headers.j2`` include headers. ``main_report.j2`` is called
    after the last sample.
    """
    carriers = network.cores.template_folders(network.devices, build.platform.board)
    return [*carriers, *sorted(network.devices)]


def write_project(
    network: Network, build: Build, folder: Path, roots: tuple[Path, ...] = ()
) -> dict[str, Any]:
    """Render all files of the project into ``folder``. ``roots`` has templates of custom devices.

    Returns the variables of the templates.
    """
    env = make_environment(roots)
    variables = write_network(network, build, folder, roots)
    program = {"application/main.c.j2": f"{DEMO}/main.c"}
    for template, target in (program | place_program_files(build.settings.libc)).items():
        write_file(folder / target, render(env, template, variables))
    write_board(env, build.platform.board, variables, folder / BOARD)
    makefile = project_makefile_variables([network], build, folder)
    write_file(folder / "Makefile", render_makefile(env, build.platform.board, makefile))
    return variables


def write_network(
    network: Network,
    build: Build,
    folder: Path,
    roots: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """Render the network's files into the project in ``folder``. Return the variables."""
    env = make_environment(roots)
    variables = template_variables(network, build)
    for template, target in place_files_of(network, build, roots).items():
        write_file(folder / target, render(env, template, variables))
    for name, text in render_regions(env, variables):
        write_file(folder / NETWORK / name, text)
    if network.binary_constants:
        packed = folder / NETWORK / network_file(network.c_prefix, BYTES_FILE)
        write_bytes(packed, network.unshared_weights)
    described = folder / NETWORK / network_file(network.c_prefix, "interface.json")
    write_file(described, encode_interface(describe_interface(network)))
    copy_libraries(network.libraries, folder / NETWORK)
    return variables


def render_regions(env: Environment, variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the regions' sources, and of the files of their kernels.

    A region with loops has a separate file. Regions that only call functions of other files share
    one file, because starting the compiler needs more time than compiling such a region.
    """
    prefix, steps = variables["prefix"], [step for step in variables["steps"] if step.callers]
    for step in steps:
        if not step.only_calls:
            text = render(env, REGION_TEMPLATE, {**variables, "step": step})
            yield network_file(prefix, f"{step.region.name}.c"), text
    calls = [step for step in steps if step.only_calls]
    if calls:
        text = render(env, CALLS_TEMPLATE, {**variables, "calls": calls})
        yield network_file(prefix, file_name(CALLS_TEMPLATE)), text
    for file in (file for step in steps for file in step.kernel.files):
        yield file.name, file.text


def describe_interface(network: Network) -> NetworkInterface:
    inputs, outputs = make_ports(network.interface)
    return NetworkInterface(
        name=network.name,
        build_id=build_id.UNKNOWN,
        prefix=network.c_prefix,
        header=network_file(network.c_prefix, "network.h"),
        function=f"{network.c_prefix}_run",
        initialize=f"{network.c_prefix}_init" if network.caller_arena else None,
        model=InterfaceModel(network.interface.format, network.interface.sha256),
        batch=network.batch.size if network.batch else 1,
        inputs=describe_ports(inputs),
        outputs=describe_ports(outputs, network.detector),
        states=describe_states(network.states),
        reset=f"{network.c_prefix}_reset" if network.states else msgspec.UNSET,
        class_names=network.class_names,
        arena_bytes={RAM: network.plan.arena_bytes, **network.plan.other_arenas},
        constant_bytes=sum(array.nbytes for array in network.weights.values()),
    )


def template_variables(network: Network, build: Build) -> dict[str, Any]:
    inputs, outputs = make_ports(network.interface)
    steps, shared = make_kernel_calls(network, inputs, outputs), network.shared
    blocks = make_blocks(network, steps, inputs, outputs)
    architecture = build.platform.architecture
    return {
        "network": network,
        "build_id": build_id.UNKNOWN,
        "build_id_bytes": build_id.format_bytes(build_id.UNKNOWN),
        "prefix": network.c_prefix,
        "inputs": inputs,
        "outputs": outputs,
        "states": network.states,
        "state_names": name_states(network),
        "steps": steps,
        "blocks": blocks,
        "listed": list_buffers(network),
        "last_checks": list_checks(network.checks, steps[-1].number + 1 if steps else 0),
        "weights": network.unshared_weights,
        **(list_included(network.unshared_weights) if network.binary_constants else {}),
        "shared": shared,
        "c_types": C_TYPES,
        "arena_name": arena_name,
        "caller_arena": network.caller_arena,
        "more_arenas": dict(network.plan.other_arenas) if network.caller_arena else {},
        **list_further_memories(network.plan, network.c_prefix, build.platform),
        "hooks": network.hooks or network.measured,
        "measured": network.measured,
        **selftest_variables(network.checks, network.golden, inputs, outputs),
        **slot_variables(network.slot, describe_interface(network), architecture),
        "context_mark": f"0x{crc32(network.c_prefix.encode()):08x}u",
        "location": lambda location: emit_location(location, inputs, outputs),
        "platform": build.platform,
        "stack_bytes": build.platform.stack,
        "data_section": load_board(build.platform.board).data_section,
        "detector": network.detector,
        "byte_values": make_dequantize_tables(network.interface.outputs)
        if network.detector
        else {},
        "functions_by_header": functions_by_header(),
        "hook_folders": list_hook_folders(network, build),
        "entry": "process" if network.cores.runs_whole_network else "run",
        "library_functions": collect_library_functions(network.kernels.kernels),
        "profiled": network.profile in ("individual", "no_dma"),
    }


def name_states(network: Network) -> dict[str, str]:
    pairs = zip(network.plan.states, network.interface.states, strict=True)
    return {buffer.name: state.tensor.name for buffer, state in pairs}


def project_makefile_variables(
    networks: Sequence[Network], build: Build, project: Path
) -> dict[str, Any]:
    """Return the variables for the Makefile of a project whose sources are written.

    Only a project with one network contains a demo application.
    """
    libraries = (file for network in networks for file in network.libraries)
    archives = [f"{NETWORK}/{file.name}" for file in libraries if file.suffix in ARCHIVE_SUFFIXES]
    sources = list_sources(project)
    if networks[0].slot:
        sources = [source for source in sources if not source.startswith(f"{NETWORK}/")]
    return {
        **makefile_variables(build, sources, archives),
        "demo": len(networks) == 1 and networks[0].demo is not None,
        "prefixes": [network.c_prefix for network in networks],
    }


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def render_folder(root: str, variables: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the templates below ``root`` into ``folder``. Return the written files, sorted.

    ``{{name}}`` is also replaced in the paths of templates.
    """
    env, written = make_environment(), []
    for template in sorted(list_all_templates(root)):
        target = env.from_string(template.removeprefix(f"{root}/")).render(variables)
        written.append(folder / target.removesuffix(TEMPLATE_SUFFIX))
        write_file(written[-1], render(env, template, variables))
    return written


def list_all_templates(folder: str) -> list[str]:
    root = Path(str(template_folder().joinpath(*folder.split("/"))))
    return [
        f"{folder}/{path.relative_to(root).as_posix()}"
        for path in root.rglob(f"*{TEMPLATE_SUFFIX}")
    ]


def make_ports(interface: ModelInterface) -> tuple[list[Port], list[Port]]:
    return (
        name_ports(interface.inputs, interface.input_c_names),
        name_ports(interface.outputs, interface.output_c_names),
    )


def name_ports(tensors: Sequence[Tensor], c_names: Mapping[str, str]) -> list[Port]:
    members = make_unique_identifiers((t.name for t in tensors), c_names)
    return [Port(m, t) for m, t in zip(members, tensors, strict=True)]


def make_dequantize_tables(outputs: tuple[Tensor, ...]) -> dict[int, npt.NDArray[np.float32]]:
    """Return the real value of every byte, for the outputs that are quantized to 8 bits."""
    every = np.arange(256, dtype=np.uint8)
    return {
        index: (every.view(tensor.dtype).astype(np.int32) - (tensor.zero_point or 0)).astype("f4")
        * np.float32(tensor.scale)
        for index, tensor in enumerate(outputs)
        if tensor.dtype in ("int8", "uint8") and tensor.scale is not None
    }
