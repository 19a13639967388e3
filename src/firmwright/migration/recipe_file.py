"""Writes the recipe of a converted configuration. Settings without a key become comments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firmwright.documents.stated_values import put
from firmwright.documents.whole_file import write_whole
from firmwright.documents.yaml_text import write_yaml
from firmwright.errors import DiagnosticError, UserError, to_printable
from firmwright.migration.c_arrays import EmbeddedModel
from firmwright.migration.draft import Draft, load_rules, shorten
from firmwright.migration.source import Setting, read_source
from firmwright.migration.source_formats import SourceFormat, find_format
from firmwright.project.new_repository import make_file_name
from firmwright.recipe.catalog import Catalog
from firmwright.recipe.editor_schema import FIRST_LINE
from firmwright.recipe.load_recipe import load_recipe
from firmwright.recipe.schema import load_schema

LAST_DEVICES = ("c7x",)
"""The devices that replace ``c`` as the last device of the target."""

NO_PLATFORM = (
    "Without the key `platform`, the firmware is for rv32-bare. `firmwright platforms` lists all."
)


def write_converted(given: str, stated: Mapping[str, str]) -> tuple[list[Path], list[str]]:
    """Convert a configuration. Write the recipe, and a model that the file contains.

    Returns the written files, and the errors of the recipe that the user must fix. ``stated`` has
    recipe keys of the command line, which replace keys of the file. Raises UserError if the
    configuration cannot be converted.
    """
    from firmwright.pipeline.command_line import make_catalog

    source = read_source(given)
    kind = find_format(source)
    catalog = make_catalog()
    draft = Draft(source, catalog, load_rules()[kind.name])
    draft.apply(kind.read(source))
    data = make_recipe(draft, kind, stated)
    if "model" not in data:
        advice = f"write `firmwright init MODEL --from {given}`"
        raise UserError(f"{given}: names no model{explain_model(draft)}; {advice}")
    recipe = Path(f"{name_recipe(data)}.yaml")
    files = {recipe: render(data, draft, kind).encode("utf-8")}
    files |= {} if "model" in stated else find_models(draft)
    for path in files:
        if os.path.exists(path):  # noqa: PTH110  # False for a name that is too long
            raise UserError(f"{path}: exists already; remove it, or convert in another folder")
    for path, content in files.items():
        write_whole(path, content)
    return [*files], find_errors(recipe, catalog)


def find_errors(recipe: Path, catalog: Catalog) -> list[str]:
    try:
        load_recipe(recipe, {}, catalog)
    except DiagnosticError as error:
        return [str(each) for each in error.diagnostics]
    return []


def explain_model(draft: Draft) -> str:
    """Return the reason why a configuration names no model, or ''."""
    reasons = (
        f" ({s.location}: {text})" for s, text in draft.notes if text.endswith("state `model`")
    )
    return next(reasons, "")


def find_models(draft: Draft) -> dict[Path, bytes]:
    models = (setting.value for _, setting in draft.values.values())
    return {Path(m.name): m.content for m in models if isinstance(m, EmbeddedModel)}


def make_recipe(draft: Draft, kind: SourceFormat, stated: Mapping[str, str]) -> dict[str, Any]:
    """Return the data of the recipe in the order of the schema."""
    data: dict[str, Any] = {}
    plain = {p: value for p, (value, _) in draft.values.items() if p[0] not in ("use", "option")}
    model = plain.pop(("model",), None)
    model = stated.get("model", model)
    parts = {p: plain.pop(p) for p in [*plain] if p[0] == "model"}
    if model:
        plain[("model",)] = (
            {"path": model} | {p[-1]: v for p, v in parts.items()} if parts else model
        )
    for pointer, value in plain.items():
        put(data, pointer, value)
    if kind.c_prefix:
        data.setdefault("c_prefix", kind.c_prefix)
    target = make_target(draft, kind)
    if target:
        data["target"] = target
    data |= {key: value for key, value in stated.items() if key != "model"}
    order = [*load_schema()["properties"]]
    return {key: data[key] for key in sorted(data, key=order.index)}


def make_target(draft: Draft, kind: SourceFormat) -> str | list[Any] | None:
    """Return the target: the devices with their options, and the last device.

    Options of excluded devices become notes.
    """
    used = dict.fromkeys(kind.uses, True)
    used |= {p[1]: value for p, (value, _) in draft.values.items() if p[0] == "use"}
    options: dict[str, dict[str, int | str]] = {}
    for pointer, (value, setting) in draft.values.items():
        if pointer[0] == "option":
            name = pointer[1]
            if used.setdefault(name, True):
                options.setdefault(name, {})[pointer[2]] = value
            else:
                draft.note(setting, f"the target does not have the device '{name}'")
    last = next((name for name in LAST_DEVICES if used.pop(name, False)), "c")
    first = [name for name, is_used in used.items() if is_used]
    if not first and last == "c":
        return None
    if not options:
        return ", ".join([*first, last])
    given = [{"device": n, "options": options[n]} if n in options else n for n in first]
    return [*given, last]


def name_recipe(data: Mapping[str, Any]) -> str:
    model = data["model"]["path"] if isinstance(data["model"], dict) else data["model"]
    return make_file_name(str(data.get("name") or Path(str(model)).stem))


def render(data: Mapping[str, Any], draft: Draft, kind: SourceFormat) -> str:
    head = [FIRST_LINE, comment(f"From {draft.source.shown}, {kind.title}.")]
    if "platform" not in data and "target" not in data:
        head.append(comment(NO_PLATFORM))
    lines = [f"{setting.location}: {describe(setting)}: {text}" for setting, text in draft.notes]
    if lines:
        head_of_rest = f"Settings without a key, and notes (docs/migration/{kind.page}):"
        lines = ["", comment(head_of_rest), *map(comment, lines)]
    body = [write_key(key, value) for key, value in data.items()]
    return "\n".join([*head, *body, *lines, ""])


def write_key(key: str, value: Any) -> str:
    """Return a key as YAML. The innermost lists and mappings are on one line."""
    is_flow = None if isinstance(value, list | dict) else False
    return write_yaml({key: value}, sort_keys=False, default_flow_style=is_flow).rstrip()


def describe(setting: Setting) -> str:
    return setting.name if setting.value is True else f"{setting.name} {shorten(setting.value)}"


def comment(text: str) -> str:
    return f"# {' '.join(to_printable(text).split())}"
