"""A parser of arguments that names the nearest known word, as all messages do."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from firmwright.errors import did_you_mean

CHOICE = re.compile(r"(argument .*): invalid choice: '(.*)' \(choose from (.*)\)")
"""How argparse says that a word is none of those that it knows."""


class Parser(argparse.ArgumentParser):
    """Of an unknown option or command it tells the nearest."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[Any, list[str]]:
        """Parse; the parser of a command itself refuses options that are left over."""
        options, others = super().parse_known_args(args, namespace)
        for word in (other.partition("=")[0] for other in others):
            if word.startswith("-"):
                known = [option for option in self._option_string_actions if option[1] == "-"]
                self.error(f"unknown option '{word}'{did_you_mean(word, known)}")
        return options, others

    def error(self, message: str) -> NoReturn:
        refused = CHOICE.fullmatch(message)
        if refused:
            argument, word, choices = refused.groups()
            known = re.findall(r"[\w-]+", choices)
            message = f"{argument}: unknown '{word}'{did_you_mean(word, known)}"
        super().error(message)
