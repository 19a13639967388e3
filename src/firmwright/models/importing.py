"""Runs TVM's importers without output, and raises the errors that all formats have in common."""

from __future__ import annotations

import gc
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from firmwright.errors import UserError, did_you_mean, first_line
from firmwright.ir.tensors import ELEMENT_BYTES

if TYPE_CHECKING:
    from firmwright.ir.nodes import IRModule


@contextmanager
def suppress_output() -> Iterator[None]:
    """Drop all output of the block to stdout and stderr, including the output of C++ code.

    Python warnings are ignored separately, because a build redirects ``sys.stderr``.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in kept:
            os.dup2(sink, descriptor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for descriptor, original in kept.items():
            os.dup2(original, descriptor)
            os.close(original)
        os.close(sink)


def run_importer(name: str, convert: Callable[[], IRModule]) -> IRModule:
    """Return the module that ``convert`` imports from the model ``name``.

    Raises UserError if ``convert`` fails.
    """
    with suppress_output():
        try:
            return convert()
        except UserError as error:
            failure = str(error)
        except Exception as error:
            failure = f"cannot import the graph: {first_line(error)}"
        # The importers are in reference cycles, and the destructor of TVM's block builder prints a
        # warning.
        gc.collect()
    raise UserError(f"{name}: {failure}")


def refuse_operators(name: str, lines: Iterable[str], advice: str = "") -> NoReturn:
    """Raise UserError with the operators that cannot be compiled, and with advice."""
    heading = f"{name}: operators that cannot be compiled:"
    advice = advice or "export the model with other operators, or end it before these operators"
    raise UserError("\n".join([heading, *lines, f"  {advice}"]))


def check_input_names(name: str, stated: Iterable[str], inputs: Iterable[str]) -> None:
    """Raise UserError if the recipe states the shape of an unknown input."""
    known = set(inputs)
    for label in sorted(set(stated) - known):
        hint = did_you_mean(label, known)
        raise UserError(f"{name}: inputs: the model has no input '{label}'{hint}")


def refuse_shape(
    name: str,
    label: str,
    shape: Sequence[object],
    declared: object,
    advice: str = "the recipe can fix only dimensions that have a name",
) -> NoReturn:
    """Raise UserError, because the recipe's shape does not fit the model's input."""
    problem = f"shape {list(shape)} does not fit the model's {declared}"
    raise UserError(f"{name}: inputs: {label}: {problem}; {advice}")


def check_element_type(name: str, label: str, dtype: str) -> None:
    """Raise UserError if the generated C has no type for the elements of an input or output."""
    if dtype not in ELEMENT_BYTES:
        known = ", ".join(sorted(ELEMENT_BYTES))
        raise UserError(f"{name}: '{label}' is {dtype}, which is not supported; expected {known}")


def refuse_open_shape(name: str, label: str, declared: object) -> NoReturn:
    """Raise UserError for an input or output of dynamic shape.

    The message names the key for the shape.
    """
    raise UserError(
        f"{name}: '{label}' has the dynamic shape {declared}; firmware needs a fixed shape: "
        f"state `inputs: {{{label}: {{shape: [1, …]}}}}` in the recipe"
    )


TVM_TERMS = (
    (re.compile(r"T\.u?int\d+\((-?\d+)\)"), r"\1"),
    (re.compile(r"R\.shape\((\[[^]]*\])\)"), r"\1"),
    (re.compile(r'metadata\["[\w.]+"\]\[\d+\]'), "is a constant with a different shape"),
    (re.compile(r"^In relax\.[\w.]+, "), ""),
)
"""Patterns of TVM's messages, and replacements in plain terms."""


INTERNAL = re.compile(
    r"<class|'\w*' object|object is not|object of type|NoneType|\btvm\b|\btir\b|\brelax\b"
    r"|Check failed|InternalError|metadata\[|\b[RT]\.\w|\blv\d|\bunpack|positional argument"
    r"|keyword argument|\bout of range$|argument must be|\bindices must be|\binvalid literal"
)
"""Matches texts of errors in the code of a library, which do not describe the model."""


def describe_failure(error: Exception) -> str:
    """Return the first line of a converter's error. Errors of other libraries also get a remedy."""
    if isinstance(error, UserError):
        return first_line(error)
    return f"{plain_failure(error)}; replace the operator, or end the model before the operator"


def plain_failure(error: Exception) -> str:
    """Return the first line of a converter's error, without terms of TVM and of Python."""
    text = first_line(error).rstrip(".")
    if isinstance(error, KeyError):  # the text of a KeyError is only the key
        return f"the value {text} is unknown"
    for internal, plain in TVM_TERMS:
        text = internal.sub(plain, text)
    if not str(error).strip() or INTERNAL.search(text):
        return "this form of the operator cannot be compiled"
    return text


def variable_name(source: str) -> str:
    """Return the name hint of a result.

    TVM renames its function ``main`` if a name hint is ``main``.
    """
    return f"{source}_" if source == "main" else source
