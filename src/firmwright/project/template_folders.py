"""Renders all templates of a folder. The written files have the templates' relative paths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmwright.codegen.templates import (
    TEMPLATE_SUFFIX,
    make_environment,
    render,
    template_folder,
)
from firmwright.project.write import write_file


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
