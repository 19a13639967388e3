"""Prints TIR expressions as C99, with the parentheses that C and compiler warnings require.

C computes short integers as ``int``. :mod:`firmwright.codegen.c_integers` makes the types of short
integers explicit before the printing. The type of a C literal depends on its value. If no operand
has the TIR type of the expression, a literal is cast to this type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import tvm
from tvm import tirx
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_walk

from firmwright.codegen.c_blocks import (
    AND,
    ATOM,
    BITS,
    CHOICE,
    COMPARISON,
    OR,
    PRODUCT,
    QUOTIENT,
    SUM,
    UNARY,
    Blocks,
    C,
)
from firmwright.codegen.c_library import MATH_MACROS, list_parameter_types
from firmwright.codegen.c_literals import format_c_float, format_c_value

C_TYPES = {
    "bool": "bool", "float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t",
    "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip
"""The C types of the TIR types. Half-precision floats are bit patterns and have no entry."""

OPERATORS = {
    tirx.Mul: ("*", PRODUCT, PRODUCT, UNARY),
    tirx.Div: ("/", QUOTIENT, PRODUCT, UNARY),
    tirx.Mod: ("%", QUOTIENT, PRODUCT, UNARY),
    tirx.Add: ("+", SUM, SUM, QUOTIENT),
    tirx.Sub: ("-", SUM, SUM, QUOTIENT),
    prim.LShift: ("<<", BITS, UNARY, UNARY),
    prim.RShift: (">>", BITS, UNARY, UNARY),
    prim.BitwiseAnd: ("&", BITS, UNARY, UNARY),
    prim.BitwiseOr: ("|", BITS, UNARY, UNARY),
    prim.BitwiseXor: ("^", BITS, UNARY, UNARY),
    tirx.LT: ("<", COMPARISON, SUM, SUM),
    tirx.LE: ("<=", COMPARISON, SUM, SUM),
    tirx.GT: (">", COMPARISON, SUM, SUM),
    tirx.GE: (">=", COMPARISON, SUM, SUM),
    tirx.EQ: ("==", COMPARISON, SUM, SUM),
    tirx.NE: ("!=", COMPARISON, SUM, SUM),
}
"""The symbol and level of each operator, then the levels up to which operands need no
parentheses."""

SIGNED = frozenset({"int8", "int16", "int32", "int64"})

MATH_INTRINSICS = frozenset(
    "acos acosh asin asinh atan atan2 atanh copysign cosh "
    "erf fabs fmod hypot log10 log2 sinh".split()
)
"""Functions of C's <math.h> that TVM keeps as intrinsics when it lowers for C."""

LONGEST_CHOICE = 60
"""The maximum characters of a ``?:`` expression. A longer choice becomes an if statement."""


def dtype_of(value: tvm.ir.Expr) -> str:
    return str(value.ty.dtype)


def c_type(dtype: str) -> str:
    """Return the C type of a TIR type. Raises ValueError if C99 has no such type."""
    if dtype not in C_TYPES:
        raise ValueError(f"C99 has no type for {dtype}")
    return C_TYPES[dtype]


class Expressions:
    """Prints the expressions of one function and records the names that they use.

    ``names`` are the C names of variables and arrays. ``scalars`` are the arrays of one element
    that become plain variables. ``written`` are the arrays that the function writes. If a
    subexpression needs a variable, the innermost block of ``blocks`` declares it.
    """

    def __init__(
        self,
        blocks: Blocks,
        names: dict[tirx.Var, str],
        scalars: set[tirx.Var],
        written: set[tirx.Var],
    ) -> None:
        self.blocks, self.names, self.scalars, self.written = blocks, names, scalars, written
        self.used: set[str] = set()
        self.functions: set[str] = set()

    def print(self, value: tvm.ir.Expr) -> C:
        """Return an expression in C. Raises ValueError if C has no equivalent."""
        kind = type(value)
        if kind in OPERATORS:
            return self.print_operator(value)
        if kind not in self.PRINTERS:
            raise ValueError(f"C has no equivalent of TIR's {kind.__name__}")
        return self.PRINTERS[kind](self, value)

    def print_all(self, values: Sequence[tvm.ir.Expr]) -> list[C]:
        return [self.print(value) for value in values]

    def print_operator(self, value: tirx.Expr) -> C:
        symbol, level, left, right = OPERATORS[type(value)]
        one, other = value.a, value.b
        if symbol == "%" and dtype_of(value).startswith("float"):
            return self.call("fmodf" if dtype_of(value) == "float32" else "fmod", [one, other])
        needs_type = symbol in ("<<", ">>") or isinstance(other, tirx.IntImm)
        a = self.print_typed(one) if needs_type else self.print(one)
        if symbol == "+" and isinstance(other, tirx.IntImm) and is_negative(other):
            symbol, b = "-", C(str(-other.value))
        else:
            b = self.print(other)
        is_stable = a.is_stable and b.is_stable
        return C(f"{a.within(left)} {symbol} {b.within(right)}", level, is_stable)

    def print_typed(self, value: tvm.ir.Expr) -> C:
        printed = self.print(value)
        if isinstance(value, tirx.IntImm) and dtype_of(value) not in ("int8", "uint8", "bool"):
            return C(f"({c_type(dtype_of(value))}){printed.within(UNARY)}", UNARY)
        return printed

    def print_integer(self, value: tirx.IntImm) -> C:
        dtype = dtype_of(value)
        text = format_c_value(np.dtype(dtype).type(value.value))
        if dtype in ("uint32", "uint64") and not text.endswith("U"):
            text += "U"
        return C(text, UNARY if text.startswith("-") else ATOM)

    def print_float(self, value: tirx.FloatImm) -> C:
        bits = np.array(value.value, dtype_of(value)).tobytes()[::-1].hex()
        text = format_c_float(bits).strip("()")
        if text.lstrip("-") in MATH_MACROS:
            self.functions.add(text.lstrip("-"))
        return C(text, UNARY if text.startswith("-") else ATOM)

    def print_variable(self, value: tirx.Var) -> C:
        return C(self.use(value))

    def use(self, variable: tirx.Var) -> str:
        name = self.names[variable]
        self.used.add(name)
        return name

    def print_load(self, load: tvm.ir.TensorLoad) -> C:
        return self.print_element(load.source, load.indices)

    def print_element(self, array: tirx.Var, indices: Sequence[tirx.Expr]) -> C:
        """Return the C of an element of an array with one axis."""
        name = self.use(array)
        is_stable = array not in self.written
        if array in self.scalars:
            return C(name, ATOM, is_stable)
        (index,) = self.print_all(indices)
        return C(f"{name}[{index.text}]", ATOM, is_stable and index.is_stable)

    def print_cast(self, cast: tirx.Cast) -> C:
        value, dtype = self.print(cast.value), dtype_of(cast)
        if dtype == dtype_of(cast.value):
            return value
        return C(f"({c_type(dtype)}){value.within(UNARY)}", UNARY, value.is_stable)

    def print_not(self, value: tirx.Not | prim.BitwiseNot) -> C:
        operand = self.print(value.a)
        return C(f"!{operand.within(ATOM)}", UNARY, operand.is_stable)

    def print_complement(self, value: prim.BitwiseNot) -> C:
        if dtype_of(value) == "bool":
            return self.print_not(value)
        operand = self.print_typed(value.a)
        return C(f"~{operand.within(UNARY)}", UNARY, operand.is_stable)

    def print_extreme(self, value: tirx.Max | tirx.Min) -> C:
        """Return ``a > b ? a : b`` for a maximum. The result is b if a or b is NaN."""
        kind = c_type(dtype_of(value))
        sides = [self.print_once(side, kind) for side in (value.a, value.b)]
        a, b = (side.within(UNARY) for side in sides)
        symbol = ">" if isinstance(value, tirx.Max) else "<"
        is_stable = all(side.is_stable for side in sides)
        return C(f"{a} {symbol} {b} ? {a} : {b}", CHOICE, is_stable)

    def print_once(self, value: tvm.ir.Expr, kind: str) -> C:
        printed = self.print(value)
        is_constant = isinstance(value, (tirx.IntImm, tirx.FloatImm))
        return printed if is_constant else self.blocks.keep(printed, kind)

    def print_logic(self, value: tirx.And | tirx.Or) -> C:
        """Return an expression that computes its second operand only if the first does not
        decide."""
        is_and = isinstance(value, tirx.And)
        symbol, level = ("&&", AND) if is_and else ("||", OR)
        a = self.print(value.a)
        name = self.blocks.make_name("chosen")
        with self.blocks.nest(is_part=is_always_defined(value.b)) as block:
            b = self.print(value.b)
        if block.lines:
            self.blocks.write(f"bool {name} = {a.text};")
            lines = [*block.lines, f"{name} = {b.text};"]
            self.blocks.write_block(f"if ({name if is_and else f'!{name}'})", lines)
            return C(name)
        self.blocks.release(name)
        left = a.text if a.level == level else a.within(COMPARISON)
        text = f"{left} {symbol} {b.within(COMPARISON)}"
        return C(text, level, a.is_stable and b.is_stable)

    def print_select(self, value: tirx.Select) -> C:
        return self.choose(value, value.condition, value.true_value, value.false_value)

    def choose(
        self, value: tvm.ir.Expr, condition: tirx.Expr, then: tirx.Expr, other: tirx.Expr
    ) -> C:
        """Return a choice that computes only the chosen expression."""
        test = self.print(condition)
        kind = c_type(dtype_of(value))
        name = self.blocks.make_name("chosen")
        with self.blocks.nest() as then_block:
            a = self.print(then)
        with self.blocks.nest() as else_block:
            b = self.print(other)
        is_stable = test.is_stable and a.is_stable and b.is_stable
        is_plain = not then_block.lines and not else_block.lines
        if isinstance(then, tirx.IntImm) and isinstance(other, tirx.IntImm):
            a = self.print_typed(then)
        text = f"{test.within(COMPARISON)} ? {a.within(SUM)} : {b.within(SUM)}"
        lines = [text, *then_block.lines, "else", *else_block.lines]
        choice = C("\n".join(lines), CHOICE, is_stable)
        known = self.blocks.find_value(choice.text)
        if known is not None or (is_plain and len(text) <= LONGEST_CHOICE):
            self.blocks.release(name)
            return known or choice._replace(text=text)
        self.blocks.write(f"{kind} {name};")
        then_lines = (*then_block.lines, f"{name} = {a.text};")
        self.blocks.write_block(f"if ({test.text})", then_lines, "")
        self.blocks.write_block("} else", (*else_block.lines, f"{name} = {b.text};"))
        return self.blocks.note_value(choice, name)

    def print_let(self, value: tirx.Let) -> C:
        bound = self.print(value.value)
        name = self.blocks.make_name(str(value.var.name))
        self.blocks.write(f"{c_type(dtype_of(value.var))} {name} = {bound.text};")
        self.names[value.var] = name
        return self.print(value.body)

    def print_call(self, call: tvm.ir.Call) -> C:
        name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
        name = name.removeprefix("tirx.").removeprefix("prim.")
        if name in ("call_extern", "call_pure_extern"):
            return self.call(str(call.args[0].value), call.args[1:], name == "call_pure_extern")
        if name == "if_then_else":
            return self.choose(call, *call.args)
        if name == "likely":
            return self.print(call.args[0])
        if name == "address_of":
            return C(f"&{self.print(call.args[0]).text}", UNARY, False)
        if name == "buffer_data":
            return C(self.use(call.args[0]))
        if name == "isnan":
            return self.call("isnan", call.args)
        if name in MATH_INTRINSICS:
            return self.call(name + "f" * (dtype_of(call) == "float32"), call.args)
        if name in ("tvm_call_packed", "tvm_call_cpacked"):
            raise ValueError(
                f"its schedule calls '{call.args[0].value}' of TVM's runtime, which firmware lacks"
            )
        raise ValueError(f"C has no equivalent of TIR's {name}")

    def call(self, function: str, arguments: Sequence[tvm.ir.Expr], is_pure: bool = True) -> C:
        """Return a call.

        A 64-bit argument is cast if the parameter of the project's function has 32 bits.
        """
        self.functions.add(function)
        types = dict(enumerate(list_parameter_types().get(function, ())))
        given = self.print_all([narrow(a, types.get(n)) for n, a in enumerate(arguments)])
        is_stable = is_pure and all(argument.is_stable for argument in given)
        return C(f"{function}({', '.join(a.text for a in given)})", ATOM, is_stable)

    PRINTERS: ClassVar[dict[type, Callable[..., C]]] = {
        tirx.IntImm: print_integer,
        tirx.FloatImm: print_float,
        tirx.Var: print_variable,
        tvm.ir.TensorLoad: print_load,
        tirx.Cast: print_cast,
        tirx.Not: print_not,
        prim.BitwiseNot: print_complement,
        tirx.Max: print_extreme,
        tirx.Min: print_extreme,
        tirx.And: print_logic,
        tirx.Or: print_logic,
        tirx.Select: print_select,
        tirx.Let: print_let,
        tvm.ir.Call: print_call,
    }


def is_negative(number: tirx.IntImm) -> bool:
    dtype = dtype_of(number)
    return dtype in SIGNED and np.iinfo(dtype).min < number.value < 0


def is_always_defined(value: tirx.Expr) -> bool:
    """Return whether an expression is defined even if the condition before it is false."""
    undefined: list[bool] = []

    def check_load(load: tvm.ir.TensorLoad) -> None:
        undefined.append(not all(isinstance(index, tirx.IntImm) for index in load.indices))

    def check_division(part: tirx.Div | tirx.Mod) -> None:
        is_integer = dtype_of(part).startswith(("int", "uint"))
        undefined.append(is_integer and not isinstance(part.b, tirx.IntImm))

    rules = ((tvm.ir.TensorLoad, check_load), ((tirx.Div, tirx.Mod), check_division))
    structural_walk(value, rules)
    return not any(undefined)


def narrow(argument: tvm.ir.Expr, wanted: str | None) -> tvm.ir.Expr:
    """Return a 64-bit argument as 32 bits if its parameter has 32 bits, to avoid a compiler
    warning."""
    if wanted != "int32_t" or dtype_of(argument) != "int64":
        return argument
    if isinstance(argument, tirx.IntImm):
        return tirx.IntImm("int32", argument.value)
    return tirx.Cast("int32", argument)
