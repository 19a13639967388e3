"""Prints TIR statements as the lines of a C99 function body."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from math import prod
from typing import ClassVar

import tvm
from tvm import tirx
from tvm_ffi import structural_walk

from firmwright.codegen.array_declarations import (
    begins_assigned,
    find_array,
    is_first_value,
    is_pointer,
    list_statements,
)
from firmwright.codegen.c_blocks import ATOM, Blocks
from firmwright.codegen.c_expressions import C_TYPES, Expressions, c_type, dtype_of
from firmwright.codegen.c_library import list_reserved_names
from firmwright.codegen.c_literals import INDENTATION
from firmwright.codegen.library_calls import (
    LibraryCall,
    emit_library_call,
    is_library_call,
    read_library_call,
)

MACRO = re.compile(r"[A-Z][A-Z_]+\(\d+\)")
"""A macro in a line before a loop, without a semicolon."""

LINE_LENGTH = 100

SHORTEST_LINE = 60
"""The minimum characters of a broken line after its indentation."""


class Statements:
    """Prints the body of one function.

    ``names`` are the C names of the arrays that the caller passes. ``scalars`` are the local arrays
    of one element, which become variables.
    """

    def __init__(
        self, body: tirx.Stmt, names: Mapping[tirx.Var, str], scalars: set[tirx.Var]
    ) -> None:
        self.names, self.scalars = dict(names), scalars
        taken = {*names.values(), *C_TYPES.values(), *list_reserved_names(), *find_called(body)}
        self.blocks = Blocks(taken)
        self.expressions = Expressions(self.blocks, self.names, scalars, find_written(body))
        self.library_calls: list[LibraryCall] = []
        self.undeclared: set[tirx.Var] = set()
        self.print(body)

    @property
    def text(self) -> str:
        return "\n".join(map(break_line, self.blocks.lines))

    def print(self, statement: tirx.Stmt) -> None:
        """Write a statement. Raises ValueError if C has no equivalent."""
        self.blocks.begin_statement()
        kind = type(statement)
        if kind not in self.PRINTERS:
            raise ValueError(f"C has no equivalent of TIR's {kind.__name__}")
        self.PRINTERS[kind](self, statement)

    def print_sequence(self, sequence: tirx.SeqStmt) -> None:
        statements = list_statements(sequence)
        for number, statement in enumerate(statements):
            if isinstance(statement, tirx.AllocBuffer):
                self.declare(statement.buffer, statements[number + 1 :])
            else:
                self.print(statement)

    def declare(self, array: tirx.Var, rest: list[tirx.Stmt]) -> None:
        """Declare a local array, unless the first store of ``rest`` declares the array."""
        if array in self.scalars and rest and is_first_value(rest[0], array):
            self.undeclared.add(array)
            return
        states = (begins_assigned(statement, array) for statement in rest)
        is_assigned = next((state for state in states if state is not None), True)
        name = self.names[array] = self.make_name(array)
        length = "" if array in self.scalars else f"[{prod(int(n) for n in array.shape)}]"
        zero = self.expressions.print(tirx.const(0, array.dtype)).text
        value = "" if is_assigned else f" = {{{zero}}}" if length else f" = {zero}"
        self.blocks.write(f"{c_type(str(array.dtype))} {name}{length}{value};")

    def make_name(self, variable: tirx.Var) -> str:
        """Return a C name without the ``cse_v1`` or ``_intermediate`` of TVM's passes."""
        name = str(variable.name).replace("_intermediate", "")
        return self.blocks.make_name(re.sub(r"^cse_v\d+$", "common", name))

    def print_view(self, view: tirx.DeclBuffer) -> None:
        source = find_array(view.data)
        if source.dtype != view.buffer.dtype:
            raise ValueError(
                f"'{source.name}' is {source.dtype}, but its schedule reads {view.buffer.dtype}"
            )
        self.names[view.buffer] = self.names[source]

    def print_store(self, store: tirx.BufferStore) -> None:
        value = self.expressions.print(store.value)
        if store.buffer in self.undeclared:
            self.undeclared.remove(store.buffer)
            name = self.names[store.buffer] = self.make_name(store.buffer)
            self.blocks.write(f"{c_type(str(store.buffer.dtype))} {name} = {value.text};")
            return
        element = self.expressions.print_element(store.buffer, store.indices)
        if element.text != value.text:  # clang warns about self-assignments
            self.blocks.write(f"{element.text} = {value.text};")

    def print_binding(self, binding: tirx.Bind) -> None:
        value = self.expressions.print(binding.value)
        name = self.names[binding.var] = self.make_name(binding.var)
        self.blocks.write(f"{c_type(dtype_of(binding.var))} {name} = {value.text};")

    def print_loop(self, loop: tirx.For) -> None:
        """Write a serial loop, which is correct for all kinds of loops."""
        if loop.thread_binding is not None or loop.step is not None:
            raise ValueError("a loop has a thread or a step")
        kind = c_type(dtype_of(loop.loop_var))
        first = self.expressions.print(loop.min)
        sum_ = tvm.sym.Analyzer().simplify(loop.min + loop.extent)
        end = self.expressions.print(sum_)
        if not isinstance(sum_, tirx.IntImm):
            end = self.blocks.keep(end, kind, "end")
        with self.blocks.nest() as block:
            name = self.names[loop.loop_var] = self.make_name(loop.loop_var)
            self.print(loop.body)
        header = f"for ({kind} {name} = {first.text}; {name} < {end.text}; ++{name})"
        self.blocks.write_block(header, block.lines)

    def print_branch(self, branch: tirx.IfThenElse) -> None:
        condition = self.expressions.print(branch.condition)
        with self.blocks.nest() as then:
            self.print(branch.then_case)
        with self.blocks.nest() as other:
            if branch.else_case is not None:
                self.print(branch.else_case)
        self.blocks.write_block(f"if ({condition.text})", then.lines, "" if other.lines else "}")
        if other.lines:
            self.blocks.write_block("} else", other.lines)

    def print_while(self, loop: tirx.While) -> None:
        """Write a loop that computes the variables of its condition in each iteration."""
        with self.blocks.nest() as block:
            condition = self.expressions.print(loop.condition)
            is_plain = not block.lines
            if not is_plain:
                self.blocks.write_block(f"if (!{condition.within(ATOM)})", ["break;"])
            self.print(loop.body)
        self.blocks.write_block(f"while ({condition.text if is_plain else 'true'})", block.lines)

    def print_call(self, evaluation: tirx.Evaluate) -> None:
        value = evaluation.value
        if isinstance(value, tirx.IntImm):
            return
        if isinstance(value, tvm.ir.Call) and is_library_call(value):
            call, arrays = read_library_call(value)
            pointers = [self.expressions.print(array).text for array in arrays]
            self.library_calls.append(call)
            self.blocks.lines.extend(emit_library_call(call, pointers))
            return
        text = self.expressions.print(value).text
        self.blocks.write(text if MACRO.fullmatch(text) else f"{text};")

    PRINTERS: ClassVar[dict[type, Callable[..., None]]] = {
        tirx.SeqStmt: print_sequence,
        tirx.DeclBuffer: print_view,
        tirx.BufferStore: print_store,
        tirx.Bind: print_binding,
        tirx.For: print_loop,
        tirx.IfThenElse: print_branch,
        tirx.While: print_while,
        tirx.Evaluate: print_call,
    }


def break_line(line: str) -> str:
    line = INDENTATION + line
    if len(line) <= LINE_LENGTH:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.lstrip(),
        max(LINE_LENGTH, len(indent) + SHORTEST_LINE),
        initial_indent=indent,
        subsequent_indent=indent + 2 * INDENTATION,
        break_long_words=False,
        break_on_hyphens=False,
    )


def find_written(body: tirx.Stmt) -> set[tirx.Var]:
    """Return the arrays that a body stores to or passes to a function, and their views."""
    stored: set[tirx.Var] = set()
    views: dict[tirx.Var, tirx.Var] = {}

    def note_view(view: tirx.DeclBuffer) -> None:
        views[view.buffer] = find_array(view.data)

    def note_passed(call: tvm.ir.Call) -> None:
        stored.update(map(find_array, filter(is_pointer, call.args)))

    rules = (
        (tirx.DeclBuffer, note_view),
        (tirx.BufferStore, lambda store: stored.add(store.buffer)),
        (tvm.ir.Call, note_passed),
    )
    structural_walk(body, rules)
    written = {views.get(array, array) for array in stored}
    return written | {view for view, array in views.items() if array in written}


def find_called(body: tirx.Stmt) -> set[str]:
    names: set[str] = set()

    def note(call: tvm.ir.Call) -> None:
        names.update(str(a.value) for a in call.args[:1] if isinstance(a, tvm.ir.StringImm))

    structural_walk(body, (tvm.ir.Call, note))
    return names
