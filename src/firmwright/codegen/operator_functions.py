"""Writes the C functions of built-in operators.

A function is a template in ``templates/operators``. A function of several types has one template,
and its name ends with the dtype.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from firmwright.codegen.templates import (
    TEMPLATE_SUFFIX,
    find_templates,
    make_environment,
    render,
)
from firmwright.ir.kernels import SourceFile

FOLDER = "operators"

INCLUDES = ("#include <stdbool.h>", "#include <stdint.h>")

TYPES: Mapping[str, Mapping[str, str | int]] = {
    "int16": {"scalar": "int16_t", "wide": "int32_t", "bits": 15},
    "int32": {"scalar": "int32_t", "wide": "int64_t", "bits": 31},
    "float32": {"scalar": "float", "wide": "float", "bits": 0},
}
"""The C types of a function's numbers and products, and the bits of the numbers, by dtype."""

PROTOTYPE = re.compile(r"^void (\w+)\(([^)]*)\)", re.MULTILINE)
"""The only public function of a source, with its parameters."""


def find_template(function: str) -> str | None:
    """Return the template of a built-in operator's C function, or None for other functions."""
    for name in (function, function.rpartition("_")[0]):
        if name and find_templates(template := f"{FOLDER}/{name}.c{TEMPLATE_SUFFIX}"):
            return template
    return None


def write_operator_files(functions: Iterable[str]) -> tuple[SourceFile, ...]:
    return tuple(file for name in sorted(functions) for file in write_files(name))


@cache
def write_files(function: str) -> tuple[SourceFile, ...]:
    template = find_template(function)
    if template is None:
        return ()
    dtype = function.rpartition("_")[2]
    variables = {"name": function, "dtype": dtype, **TYPES.get(dtype, {})}
    source = render(make_environment(), template, variables).strip("\n")
    (prototype,) = PROTOTYPE.finditer(source)
    guard = f"{function.upper()}_H"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        *INCLUDES,
        "",
        f"{prototype[0]};",
        "",
        "#endif",
    ]
    return (
        SourceFile(f"{function}.h", "\n".join([*lines, ""])),
        SourceFile(f"{function}.c", f'#include "{function}.h"\n\n{source}\n'),
    )
