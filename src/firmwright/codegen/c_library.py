"""Lists the functions that generated C may call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from firmwright.codegen.templates import read_template

MATH_FUNCTIONS = frozenset(
    """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p
    log2 logb lrint lround modf nan nearbyint nextafter pow remainder remquo rint round scalbln
    scalbn sin sinh sqrt tan tanh tgamma trunc
    """.split()
)
"""The functions of C99's <math.h> (7.12). Each has a variant for float with the suffix ``f``."""

MATH_MACROS = frozenset({"INFINITY", "NAN", "isfinite", "isinf", "isnan", "signbit"})

FUNCTION_DEFINITION = re.compile(r"^static inline \w+ (\w+)\(([^)]*)\)", re.MULTILINE)

HEADERS = {
    "bit_patterns.h": ("sixteen_bit_floats.h",),
    "dynamic_range.h": (),
    "fixed_point.h": (),
    "lstm_gates.h": (),
    "sixteen_bit_floats.h": (),
    "wrapped_integers.h": (),
}
"""The project's headers with functions for regions, and the headers that each one includes.

The headers are in templates/network.
"""


def functions_by_header() -> dict[str, tuple[str, ...]]:
    return {header: tuple(sorted(functions)) for header, functions in read_headers().items()}


@cache
def read_headers() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the functions of each header, by name, with the types of their parameters.

    The types are ``int32_t``, ``int64_t`` and ``float``.
    """
    return {
        header: {
            name: tuple(parameter.split()[0] for parameter in parameters.split(","))
            for name, parameters in FUNCTION_DEFINITION.findall(
                read_template(f"network/{header}.j2")
            )
        }
        for header in HEADERS
    }


@cache
def list_parameter_types() -> dict[str, tuple[str, ...]]:
    return {
        name: types for functions in read_headers().values() for name, types in functions.items()
    }


@cache
def list_reserved_names() -> frozenset[str]:
    """Return the names of functions and macros that a variable must not hide."""
    single = (f"{name}f" for name in MATH_FUNCTIONS)
    return MATH_MACROS.union(MATH_FUNCTIONS, single, list_parameter_types())


def find_unknown_functions(called: Iterable[str]) -> list[str]:
    """Return, sorted, the called functions that neither <math.h> nor the project defines."""
    supported = MATH_MACROS.union(*functions_by_header().values())
    return sorted(
        f for f in called if not {f, f.removesuffix("f")} & MATH_FUNCTIONS and f not in supported
    )
