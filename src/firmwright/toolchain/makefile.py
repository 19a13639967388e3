"""Computes the variables of ``templates/project/Makefile.j2``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from firmwright.toolchain.build import (
    LINKER_SCRIPT,
    RUNTIME_OBJECT,
    Build,
    fill_folder,
    link_flags,
    object_path,
)

_LINE_LENGTH = 90


def makefile_variables(
    build: Build, sources: Sequence[str], archives: Sequence[str] = ()
) -> dict[str, object]:
    """Return the variables of the Makefile template for sources, which are paths in the project.

    The flags are equal to the build's flags, so ``make`` and firmwright build identical firmware.
    Objects are linked in the order of ``sources``, followed by the project's ``archives``. Every
    argument is quoted for make and the shell. Lists of arguments are returned as lists of lines.
    """
    toolchain, settings = build.toolchain, build.settings
    module = toolchain.python_module
    folder = f"$({toolchain.variable or 'COMPILER_FOLDER'})"
    command = f"$(PYTHON) -m {module}" if module else toolchain.program
    if toolchain.variable:
        command = f"{folder}/{command}"
    compiler = fill_folder([command, *_quote(settings.compile)], folder)
    objects = [object_path(source) for source in sources]
    runtime = fill_folder(_quote((*settings.runtime, *settings.runtime_flags)), folder)
    return {
        "platform": build.platform.name,
        "toolchain": toolchain.name,
        "python_module": module,
        "compiler_command": command,
        "compiler": wrap_arguments(compiler),
        "compile_flags": wrap_arguments(fill_folder(_quote(build.compile_flags), folder)),
        "linker": " ".join([command, *settings.linker]) if settings.linker else "",
        "link_flags": wrap_arguments(
            fill_folder(_quote(link_flags(build, "firmware.map", "{folder}")), folder)
        ),
        "linker_script": LINKER_SCRIPT if "{script}" in settings.link_flags else "",
        "libraries": _quote(settings.libraries),
        "sources": wrap_arguments(sources),
        "archives": list(archives),
        "objects": wrap_arguments([*objects, *([RUNTIME_OBJECT] if runtime else [])]),
        "runtime": wrap_arguments(runtime) if runtime else [],
        "runtime_object": RUNTIME_OBJECT,
    }


def _quote(texts: Iterable[str]) -> list[str]:
    return [shlex.quote(text).replace("$", "$$").replace("#", r"\#") for text in texts]


def wrap_arguments(texts: Iterable[str]) -> list[str]:
    lines = [""]
    for text in texts:
        joined = f"{lines[-1]} {text}".strip()
        if len(joined) > _LINE_LENGTH and lines[-1]:
            lines.append(text)
        else:
            lines[-1] = joined
    return lines
