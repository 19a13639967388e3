"""Parses arguments, lists subcommands, and suggests the nearest known argument in messages."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from firmwright.errors import did_you_mean


class Parser(argparse.ArgumentParser):
    """A parser that suggests the nearest option or command. Options may be between arguments."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[Any, list[str]]:
        """Return the parsed arguments. The parser of a command rejects unknown options."""
        options, others = super().parse_known_args(args, namespace)
        for argument in (other.partition("=")[0] for other in others):
            if argument.startswith("-"):
                known = [option for option in self._option_string_actions if option[1] == "-"]
                self.error(f"unknown option '{argument}'{did_you_mean(argument, known)}")
        for action in self._actions:
            if action.nargs in ("+", "*") and not action.option_strings:
                getattr(options, action.dest).extend(others)
                return options, []
        return options, others

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        known = action.choices
        if isinstance(value, str) and known is not None and value not in known:
            raise argparse.ArgumentError(action, f"unknown '{value}'{did_you_mean(value, known)}")
        super()._check_value(action, value)


def list_commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the name and the parser of each subcommand."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()
