"""Runs the commands that write a user's first files: ``new``, ``init`` and ``schema``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from firmwright.errors import UserError

DEFAULT_PLATFORM = "rv32-bare"
"""The platform of a recipe without the key `platform`, equal to the schema's default."""


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    new = commands.add_parser(
        "new", help="create the files of a custom board, or the package of a device"
    ).add_subparsers(dest="kind", required=True, metavar="KIND")
    sentence = "copy a built-in platform file and its board's folder as a custom board"
    board = new.add_parser("board", help=sentence, description=sentence)
    board.add_argument("name", metavar="NAME", help="the name of the new platform and board")
    board.add_argument("--like", required=True, metavar="PLATFORM", help="a built-in platform")
    overwrite = "overwrite the files of an existing board with this name"
    board.add_argument("--force", action="store_true", help=overwrite)
    sentence = "write a Python package with a device: its class, rules, driver and a test"
    device = new.add_parser("device", help=sentence, description=sentence)
    device.add_argument("name", metavar="NAME", help="the name of the device, as in `target`")
    sentence = "write the first files for a model: a recipe, samples, dodo.py and a CI workflow"
    begin = commands.add_parser("init", help=sentence, description=sentence)
    model = "a model file; or a recipe, which gets a CI workflow"
    begin.add_argument("model", nargs="?", metavar="MODEL", help=model)
    begin.add_argument("--platform", help=f"the platform (default: {DEFAULT_PLATFORM})")
    begin.add_argument("--target", help="the devices, the preferred device first (default: c)")
    services = "the service that runs the workflow (default: github)"
    begin.add_argument("--ci", choices=["github", "gitlab", "azure"], help=services)
    formats = "convert a command, script or settings file of another tool to a recipe"
    begin.add_argument("--from", dest="source", metavar="FILE", help=formats)
    begin.add_argument("--signature-name", help="the network to use, if a TFLite file has several")
    shape = "the shape of an input with open lengths, such as x=1,3,32,32"
    begin.add_argument("--shape", action="append", default=[], metavar="INPUT=SHAPE", help=shape)
    value = "the value of an input that becomes a constant, such as sr=16000"
    begin.add_argument("--value", action="append", default=[], metavar="INPUT=VALUE", help=value)
    sentence = "write the schema of recipes for editors, with all keys and all installed names"
    schema = commands.add_parser("schema", help=sentence, description=sentence)
    schema.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="default: .")


def run_command(options: argparse.Namespace) -> int:
    """Write a user's first files, such as a board or a repository. Return the exit code."""
    try:
        lines = COMMANDS[options.command](options)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


def begin_board(options: argparse.Namespace) -> list[str]:
    """Write a custom board. Return the lines to print."""
    from firmwright.project.new_board import describe_emulation, write_new_board
    from firmwright.toolchain import load_platform, platform_names

    name = options.name
    ready = load_platform(options.like) if options.like in platform_names() else None
    if ready and ready.is_bare_metal and "unicorn" not in ready.emulators:
        print(f"note: {describe_emulation(ready)}", file=sys.stderr)
    written = write_new_board(name, options.like, Path(), options.force)
    use = f"Build for it with platform={name}.yaml, or `platform: {name}.yaml` in a recipe."
    return [*(f"wrote {path}" for path in written), use]


def begin_device(options: argparse.Namespace) -> list[str]:
    """Write the package of a device. Return the lines to print."""
    from firmwright.project.new_device import write_new_device

    written = write_new_device(options.name, Path())
    install = "python -m pip install -e '.[test]' && python -m pytest"
    use = f"Install and test it: cd {os.path.commonpath(written)} && {install}"
    return [*(f"wrote {path}" for path in written), use]


def begin_new(options: argparse.Namespace) -> list[str]:
    return {"board": begin_board, "device": begin_device}[options.kind](options)


def begin_repository(options: argparse.Namespace) -> list[str]:
    if options.source is not None:
        return convert_settings(options)
    if options.model is None:
        raise UserError("init: expected MODEL, or --from FILE")
    if options.model.endswith((".yaml", ".yml")):
        return add_workflow(options)
    from firmwright.project.new_repository import describe_model, write_new_repository
    from firmwright.rebuild.wheels import pin_requirements
    from firmwright.verify.input_ranges import find_index_ranges

    platform, target = options.platform or DEFAULT_PLATFORM, options.target or "c"
    network = describe_model(
        options.model,
        find_index_ranges,
        options.signature_name,
        dict(map(read_shape, options.shape)),
        dict(map(read_value, options.value)),
    )
    pins = pin_requirements()
    ci = options.ci or "github"
    written = write_new_repository(options.model, network, platform, target, pins, Path(), ci)
    lines = list_written(written)
    if network["open_shapes"]:
        names = ", ".join(network["open_shapes"])
        first = next(iter(written))
        return [*lines, f"The recipe does not build yet: state the shape of {names} in {first}"]
    return [*lines, f"Build with: firmwright build {next(iter(written))}"]


def add_workflow(options: argparse.Namespace) -> list[str]:
    """Write the CI workflow of an existing recipe. Return the lines to print."""
    from firmwright.pipeline.command_line import make_catalog
    from firmwright.project.workflow import list_debian_packages, write_workflow
    from firmwright.rebuild.wheels import pin_requirements
    from firmwright.recipe.load_recipe import load_recipe
    from firmwright.toolchain import load_platform, load_toolchain

    refuse_options(options, ("platform", "target", "signature_name", "shape", "value"), "a recipe")
    path = Path(options.model)
    recipe = load_recipe(path, {}, make_catalog())
    platform = load_platform(recipe.platform, path.parent)
    toolchain = load_toolchain(recipe.toolchain or platform.toolchains[0], path.parent)
    emulator = recipe.run.emulator or next(iter(platform.emulators), None)
    packages = list_debian_packages(platform, toolchain, emulator)
    service, pins = options.ci or "github", pin_requirements()
    written = write_workflow(path.as_posix(), recipe.name, packages, pins, Path(), service)
    return list_written(written)


def list_written(written: Mapping[Path, bool]) -> list[str]:
    return [f"{'wrote' if new else 'kept:'} {path}" for path, new in written.items()]


def refuse_options(options: argparse.Namespace, names: Sequence[str], beside: str) -> None:
    for option in names:
        if getattr(options, option):
            name = option.replace("_", "-")
            raise UserError(f"init: --{name} has no effect with {beside}; remove it")


def read_shape(text: str) -> tuple[str, list[int]]:
    """Return the input and the lengths of an argument such as x=1,3,32,32."""
    name, lengths = read_numbers(text)
    if not name or not lengths or not all(type(n) is int and n > 0 for n in lengths):
        raise UserError(f"init: --shape {text}: expected INPUT=LENGTH,LENGTH,…, e.g. x=1,3,32,32")
    return name, lengths


def read_value(text: str) -> tuple[str, list[Any]]:
    """Return the input and the numbers or truth values of an argument such as sr=16000."""
    name, numbers = read_numbers(text)
    if not name or not numbers or not all(isinstance(n, int | float) for n in numbers):
        raise UserError(f"init: --value {text}: expected INPUT=NUMBER,NUMBER,…, e.g. sr=16000")
    return name, numbers


def read_numbers(text: str) -> tuple[str, list[Any]]:
    """Return the text before the last equals sign, and the list after it or []."""
    name, _, numbers = text.rpartition("=")
    with suppress(json.JSONDecodeError):
        return name, list(json.loads(f"[{numbers}]"))
    return name, []


def convert_settings(options: argparse.Namespace) -> list[str]:
    """Convert another tool's settings to a recipe. Return the lines to print."""
    from firmwright.migration.recipe_file import write_converted

    refuse_options(options, ("signature_name", "shape", "value", "ci"), "--from")
    given = {key: getattr(options, key) for key in ("model", "platform", "target")}
    stated = {key: value for key, value in given.items() if value is not None}
    written, errors = write_converted(options.source, stated)
    left = ["The recipe does not build yet:", *errors]
    last = left if errors else [f"Build with: firmwright build {written[0]}"]
    return [*(f"wrote {path}" for path in written), *last]


def begin_schema(options: argparse.Namespace) -> list[str]:
    from firmwright.recipe.editor_schema import FIRST_LINE, write_editor_schema

    written = write_editor_schema(Path(options.folder))
    return [f"wrote {written}", f"Recipes in its folder begin with: {FIRST_LINE}"]


COMMANDS = {"init": begin_repository, "new": begin_new, "schema": begin_schema}
