"""Collects blocks of C: lines, declared names, and values of variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from firmwright.codegen.c_literals import INDENTATION
from firmwright.codegen.names import c_identifier

ATOM, UNARY, PRODUCT, QUOTIENT, SUM, BITS, COMPARISON, AND, OR, CHOICE = range(10)
"""Levels of C expressions. An operator of a higher level binds less tightly."""


class C(NamedTuple):
    """A C expression, the level of its operator, and whether its value stays constant.

    A value can change if the expression reads an array that the function writes.
    """

    text: str
    level: int = ATOM
    is_stable: bool = True

    def within(self, level: int) -> str:
        """Return the text, in parentheses if its level is above ``level``."""
        return self.text if self.level <= level else f"({self.text})"


@dataclass
class Block:
    """The lines between two braces, and the names and values that exist only there.

    ``values`` and ``statement_values`` map the text of an expression to the variable that has its
    value. ``statement_values`` is valid within one statement, because the next statement can change
    the arrays.
    """

    names: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    statement_values: dict[str, str] = field(default_factory=dict)


class Blocks:
    """The open blocks of a function, outermost first. Each name is unique."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.open = [Block(set(taken))]

    @property
    def lines(self) -> list[str]:
        return self.open[-1].lines

    def write(self, line: str) -> None:
        self.lines.append(line)

    def make_name(self, stem: str) -> str:
        """Declare an identifier in the innermost block that no open block has, and return the
        identifier."""
        stem = name = c_identifier(stem)
        number = 0
        while any(name in block.names for block in self.open):
            number += 1
            name = f"{stem}_{number}"
        self.open[-1].names.add(name)
        return name

    def release(self, name: str) -> None:
        self.open[-1].names.discard(name)

    @contextmanager
    def nest(self, is_part: bool = False) -> Iterator[Block]:
        """Open a block for the caller's lines, or none if the lines are part of the innermost
        block."""
        block = Block()
        if is_part:
            yield block
            return
        self.open.append(block)
        try:
            yield block
        finally:
            self.open.pop()

    def write_block(self, header: str, lines: Iterable[str], end: str = "}") -> None:
        self.write(f"{header} {{")
        self.lines.extend(INDENTATION + line for line in lines)
        if end:
            self.write(end)

    def begin_statement(self) -> None:
        """Forget the values that the previous statement can change."""
        for block in self.open:
            block.statement_values.clear()

    def find_value(self, text: str) -> C | None:
        for block in reversed(self.open):
            for values in (block.values, block.statement_values):
                if text in values:
                    return C(values[text])
        return None

    def note_value(self, value: C, name: str) -> C:
        block = self.open[-1]
        (block.values if value.is_stable else block.statement_values)[value.text] = name
        return C(name)

    def keep(self, value: C, c_type: str, stem: str = "value") -> C:
        """Return a variable for the value of an expression, and declare the variable if
        necessary."""
        if value.level == ATOM and value.text.isidentifier():
            return value
        known = self.find_value(value.text)
        if known is not None:
            return known
        name = self.make_name(stem)
        self.write(f"{c_type} {name} = {value.text};")
        return self.note_value(value, name)
