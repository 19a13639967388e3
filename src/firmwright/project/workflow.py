"""Writes the files with which a service and an editor build a recipe: workflow, pins and tasks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from firmwright import __version__
from firmwright.codegen.templates import make_environment, render
from firmwright.emulator.qemu import DEBIAN_PACKAGES
from firmwright.errors import UserError
from firmwright.recipe.editor_schema import FILE_NAME, format_editor_schema
from firmwright.toolchain import Platform, Toolchain

TASKS = ".vscode/tasks.json"
WORKFLOWS = {
    "github": (".github/workflows/firmware.yml", "repository/workflow.yml.j2"),
    "gitlab": (".gitlab-ci.yml", "repository/gitlab.yml.j2"),
    "azure": ("azure-pipelines.yml", "repository/azure.yml.j2"),
}
"""Maps each service to the path and the template of its workflow."""
CONSTRAINTS = "constraints.txt"
IGNORED = "/build/\n/.cache/\n__pycache__/\n"
PLAIN = re.compile(r"(?!.*(^|/)\.\.(/|$))[A-Za-z0-9._][A-Za-z0-9._/-]*\.yaml")
"""Matches a path without special characters for shells, YAML and patterns of files."""


def write_workflow(
    recipe: str, name: str, packages: Sequence[str], pins: Sequence[str], folder: Path, ci: str
) -> dict[Path, bool]:
    """Write the files for a recipe into ``folder``. Return whether each file is new.

    The path ``recipe`` starts at ``folder``, and ``name`` is the name of its build. The workflow of
    the service ``ci`` installs the Debian ``packages``, and the versions ``pins``. An existing
    workflow stays unchanged, and the steps that it lacks are printed on stderr, like the missing
    pins of an existing file of constraints. Raises UserError if the path needs quotes or is outside
    the folder.
    """
    if not PLAIN.fullmatch(recipe):
        raise UserError(
            f"{recipe}: a workflow cannot name this path; expected a .yaml file below this folder, "
            "with letters, digits and . _ - in its path"
        )
    origin = None
    with suppress(PackageNotFoundError):
        origin = distribution("firmwright").read_text("direct_url.json")
    variables = {
        "path": recipe.removesuffix(".yaml"),
        "name": name,
        "requirement": name_requirement(origin),
        "python": "{}.{}".format(*sys.version_info),
        "packages": packages,
    }
    workflow, template = WORKFLOWS[ci]
    env = make_environment()
    rendered = {
        workflow: render(env, template, variables),
        CONSTRAINTS: "".join(f"{pin}\n" for pin in pins),
        FILE_NAME: format_editor_schema(),
        TASKS: render(env, "repository/tasks.json.j2", variables),
        ".gitignore": IGNORED,
    }
    written = write_missing(rendered, folder)
    if not written[folder / workflow]:
        print_missing_steps(folder / workflow, recipe, name, rendered[workflow])
    if not written[folder / CONSTRAINTS]:
        print_missing_pins(folder / CONSTRAINTS, pins)
    return written


def write_missing(texts: Mapping[str, str], folder: Path) -> dict[Path, bool]:
    """Write the texts to their paths in ``folder``. Existing files stay.

    Return whether each is new.
    """
    written = {}
    for path, text in texts.items():
        target = folder / path
        written[target] = not target.exists()
        if written[target]:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return written


def list_debian_packages(
    platform: Platform, toolchain: Toolchain, emulator: str | None
) -> list[str]:
    """Return the packages with a compiler and an emulator that pip does not install."""
    needed = list(toolchain.packages.get("debian", ()))
    if platform.qemu and emulator and emulator.startswith("qemu"):
        needed.append(DEBIAN_PACKAGES.get(platform.qemu.program, "qemu-system"))
    return needed


def name_requirement(origin: str | None) -> str:
    """Return the arguments with which pip installs this version of firmwright on another machine.

    ``origin`` is the text of ``direct_url.json`` (PEP 610), which has the commit of a package from
    a repository. For other packages, the arguments have the version and a folder with the wheel,
    because no index contains firmwright.
    """
    stated = json.loads(origin or "{}")
    vcs_info = stated.get("vcs_info")
    if vcs_info is None:
        return f"firmwright=={__version__} --find-links wheels"
    return f'"firmwright @ {vcs_info["vcs"]}+{stated["url"]}@{vcs_info["commit_id"]}"'


def print_missing_steps(workflow: Path, recipe: str, name: str, rendered: str) -> None:
    """Print the steps for the recipe that an existing workflow lacks.

    ``rendered`` is the text of a workflow that only builds this recipe.
    """
    known = workflow.read_text("utf-8")
    if not re.search(rf"(?<![\w./-]){re.escape(recipe)}(?![\w./-])", known):
        steps = re.split(r"^(?= +[-#])", rendered, flags=re.MULTILINE)
        needed = [step for step in steps if "apt-get" in step or recipe in step]
        missing = "".join(step for step in needed if step not in known)
        print(
            f"{workflow} builds other recipes; for this recipe, add the steps\n{missing}and "
            f"build/{name}/*.tar.gz to the paths that are uploaded",
            file=sys.stderr,
        )


def print_missing_pins(constraints: Path, pins: Sequence[str]) -> None:
    """Print the pins that an existing file of constraints lacks."""
    known = constraints.read_text("utf-8")
    missing = [p for p in pins if not re.search(rf"^{re.escape(p)}(?![\w.])", known, re.M | re.I)]
    if missing:
        print(
            f"{constraints} lacks versions of this environment, and other versions can "
            "change the bytes of the bundle; add the lines\n" + "\n".join(missing),
            file=sys.stderr,
        )
