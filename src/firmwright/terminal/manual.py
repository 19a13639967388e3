"""Renders the manual page of the command line from its parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from firmwright import __version__
from firmwright.terminal.arguments import list_commands

NAME = "firmwright \\- build firmware from a trained neural network"
FOOTER = """\
.SH EXIT STATUS
0: success. 1: a build or a check failed. 2: wrong usage, or a file that cannot be read. Builds and
lists return 1 for a recipe that they cannot read. A signal ends with 128 and its number.
"""


def render_manual(parser: argparse.ArgumentParser) -> str:
    """Return the page in the language of roff, with every command and its options."""
    title = f'.TH FIRMWRIGHT 1 "" "firmwright {escape(__version__)}" "User commands"'
    sections = {
        "NAME": NAME,
        "SYNOPSIS": ".B firmwright\n.I COMMAND\n\\&...",
        "DESCRIPTION": escape(parser.description or ""),
    }
    pages = [f"{title}\n", *(f".SH {name}\n{text}\n" for name, text in sections.items())]
    pages.append(".SH COMMANDS\n")
    for name, command in list_commands(parser):
        inner = list(list_commands(command)) or [("", command)]
        pages += [render_command(f"{name} {kind}".strip(), each) for kind, each in inner]
    return "".join([*pages, FOOTER])


def render_command(name: str, command: argparse.ArgumentParser) -> str:
    usage = escape(" ".join(command.format_usage().split()).removeprefix("usage: "))
    lines = [f".SS {escape(name)}", f".B {usage}", ".PP", escape(command.description or "")]
    for term, meaning in list_arguments(command):
        lines += [".TP", f".B {escape(term)}", escape(meaning)]
    if command.epilog:
        lines += [".PP", escape(command.epilog)]
    return "\n".join(lines) + "\n"


def list_arguments(command: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    """Yield the arguments and options of a command with their descriptions, except ``--help``."""
    for action in command._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
        names = ", ".join(action.option_strings)
        term = f"{names} {value}".strip() if names else str(value)
        yield term, command._get_formatter()._expand_help(action) if action.help else ""


def escape(text: str) -> str:
    """Return a text as one line of roff. Roff's commands and hyphens are escaped."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    line = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in line)
    return f"\\&{line}" if line.startswith((".", "'")) else line
