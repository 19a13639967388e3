"""Completes the command line: renders the script of a shell from the installed names."""

from __future__ import annotations

import argparse

from firmwright.codegen.templates import make_environment, render
from firmwright.pipeline.command_line import VARIABLES
from firmwright.recipe.editor_schema import (
    list_platforms,
    list_targets,
)
from firmwright.terminal.arguments import list_commands
from firmwright.toolchain import toolchain_names
from firmwright.toolchain.emulator_names import emulator_names

SHELLS = {"bash": "bash", "zsh": "bash", "fish": "fish"}
"""The template of each shell."""

DOIT_COMMANDS = (
    "build",
    "list",
    "info",
    "clean",
    "fleet",
    "forget",
    "help",
    "lock",
    "locked",
    "search",
    "tune",
)
"""The commands of doit and the task groups of firmwright that are completed."""


def render_completion(shell: str, parser: argparse.ArgumentParser) -> str:
    options = {name: list_candidates(command) for name, command in list_commands(parser)}
    variables = {
        "shell": shell,
        "options": options,
        "of_recipes": [name for name, command in list_commands(parser) if takes_recipes(command)],
        "variables": VARIABLES,
        "values": list_values(),
        "doit_commands": DOIT_COMMANDS,
    }
    return render(make_environment(), f"completion/{SHELLS[shell]}.j2", variables)


def list_values() -> dict[str, list[str]]:
    """Return the known values of each variable. A value is one word of a shell."""
    choices = {
        "platform": list_platforms(),
        "target": list_targets(),
        "compare": list_targets(),
        "toolchain": list(toolchain_names()),
        "emulator": list(emulator_names()),
        "compile_for_device": ["true", "false"],
    }
    return {name: [value.replace(" ", "") for value in values] for name, values in choices.items()}


def list_candidates(command: argparse.ArgumentParser) -> list[str]:
    """Return the options of a command, its subcommands, and the choices of its arguments."""
    choices = [name for name, _ in list_commands(command)]
    for action in command._actions:
        choices += [option for option in action.option_strings if option.startswith("--")]
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction):
            choices += [str(choice) for choice in action.choices or ()]
    return choices


def takes_recipes(command: argparse.ArgumentParser) -> bool:
    return any(action.dest == "recipes" for action in command._actions)
