"""Lists the paths of a project's rendered files.

The names of a network's files contain the network's prefix, so that two networks can be in one
folder of another project. Files that all networks share have no prefix. These files are the headers
of devices, which regions include, and the declarations of calls between cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from firmwright.codegen.c_library import HEADERS, functions_by_header
from firmwright.codegen.templates import TEMPLATE_SUFFIX, find_templates
from firmwright.errors import UserError
from firmwright.ir.kernels import Kernels
from firmwright.toolchain.project_folders import BOARD, FREESTANDING, NETWORK

MAIN_FILE = "network"
"""The stem of the templates whose files are named only after the prefix."""

INFO_TEMPLATE = f"network/info.c{TEMPLATE_SUFFIX}"

NETWORK_TEMPLATES = (
    *(
        f"network/{name}{TEMPLATE_SUFFIX}"
        for name in ("network.h", "build_id.h", "regions.h", "weights.h", "network.c")
    ),
    INFO_TEMPLATE,
)
"""Templates of the network's files that every project has, except for its constants."""


def list_called_headers(kernels: Kernels) -> list[str]:
    """Return the templates of the headers whose functions kernels call."""
    called = {function for kernel in kernels.kernels for function in kernel.functions}
    defined = functions_by_header()
    used = {header for header in HEADERS if called.intersection(defined[header])}
    used.update(*(HEADERS[header] for header in used))
    return [f"network/{header}{TEMPLATE_SUFFIX}" for header in sorted(used)]


DETECTION_TEMPLATES = tuple(
    f"postprocess/{name}{TEMPLATE_SUFFIX}" for name in ("detection.h", "detection.c")
)
"""Templates of a project that computes boxes from its outputs."""

PROFILE_TEMPLATE = f"network/profile.h{TEMPLATE_SUFFIX}"
"""The template of a project whose demo application measures cycles."""


SELFTEST_TEMPLATE = f"network/selftest.c{TEMPLATE_SUFFIX}"
"""The template of a project that tests itself with golden samples."""


def network_file(prefix: str, name: str) -> str:
    """Return the name of one of the network's files, such as ``kws.h`` or ``kws_weights.c``."""
    stem, dot, suffix = name.partition(".")
    return f"{prefix}{dot}{suffix}" if stem == MAIN_FILE else f"{prefix}_{name}"


def place_network_files(templates: Iterable[str], prefix: str) -> dict[str, str]:
    return {t: f"{NETWORK}/{network_file(prefix, file_name(t))}" for t in templates}


def place_files(templates: Iterable[str], folder: str) -> dict[str, str]:
    return {t: f"{folder}/{file_name(t)}" for t in templates}


def place_device_files(device: str, board: str, roots: Sequence[Path] = ()) -> dict[str, str]:
    """Return the paths of a device's files: its header, and its driver on the board.

    The names of the board's folder and of its template folder are equal. A board without a template
    folder uses the portable driver. The processor has no device files. Raises UserError if there is
    no driver for the device.
    """
    common = list_templates(device, roots)
    specific = list_templates(f"{device}/{PurePath(board).name}", roots)
    specific = specific or list_portable_drivers(device, roots)
    if common and not specific:
        missing = f"templates/{device}/{PurePath(board).name}"
        raise UserError(f"board '{board}' has no code for the device {device}; add it in {missing}")
    return {**place_files(common, NETWORK), **place_files(specific, BOARD)}


def list_portable_drivers(device: str, roots: Sequence[Path] = ()) -> list[str]:
    return list_templates(f"{device}/driver", roots)


def place_call_files(
    folders: Iterable[str], board: str, prefix: str, roots: Sequence[Path] = ()
) -> dict[str, str]:
    """Return the paths of the files for calls between cores, from their folders of templates.

    A core's ``call`` folder contains the declarations. The board's subfolder contains the board's
    code, and the other subfolders contain the files that are written for the network.
    """
    placed = {}
    for folder in folders:
        templates = list_templates(folder, roots)
        if folder.endswith("/call"):
            placed.update(place_files(templates, NETWORK))
        elif folder.endswith(f"/{board}"):
            placed.update(place_files(templates, BOARD))
        else:
            placed.update(place_network_files(templates, prefix))
    return placed


def place_library_files(prefix: str) -> dict[str, str]:
    shared = ("libraries/fw_dltensor.h.j2", "libraries/fw_libraries.h.j2")
    return {
        **place_network_files(["libraries/libraries.h.j2"], prefix),
        **place_files(shared, NETWORK),
    }


def place_program_files(libc: bool) -> dict[str, str]:
    """Return the paths of a program's runtime files, without its sources and the board's files."""
    templates = [] if libc else list_templates("freestanding")
    return {
        "runtime/fw_hal.h.j2": f"{BOARD}/fw_hal.h",
        **place_files(templates, FREESTANDING),
    }


def list_templates(name: str, roots: Sequence[Path] = ()) -> list[str]:
    """Return the sorted templates directly in a folder, or [] if the folder is missing."""
    entries = [e.name for folder in find_templates(name, roots) for e in folder.iterdir()]
    return [f"{name}/{n}" for n in sorted(entries) if n.endswith(TEMPLATE_SUFFIX)]


def file_name(template: str) -> str:
    return template.removesuffix(TEMPLATE_SUFFIX).rsplit("/", 1)[-1]
