"""TVM's importers print on their own, in Python and in C++; what matters they raise as well."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from firmwright.errors import UserError, first_line

if TYPE_CHECKING:
    from firmwright.ir.nodes import IRModule


@contextmanager
def suppress_output() -> Iterator[None]:
    """Drop what is written to the process's stdout and stderr meanwhile, also from C++.

    Warnings of libraries in Python go, too: the terminal of a build has another stderr.
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
    """Return what an importer makes of the model ``name``; UserError with its reason otherwise."""
    with suppress_output():
        try:
            return convert()
        except UserError as error:
            failure = str(error)
        except Exception as error:  # importers raise all kinds
            failure = f"cannot import the graph: {first_line(error)}"
        # TVM's block builder prints a warning when it is deleted, and importers form cycles.
        gc.collect()
    raise UserError(f"{name}: {failure}")


def refuse_operators(name: str, lines: Iterable[str], advice: str = "") -> NoReturn:
    """Raise UserError that lists the operators that nothing can compile, and a way out."""
    heading = f"{name}: operators that cannot be compiled:"
    advice = advice or "export the model with other operators, or end it before these"
    raise UserError("\n".join([heading, *lines, f"  {advice}"]))


def variable_name(source: str) -> str:
    """Return the name hint of a result: TVM would rename its own function ``main`` otherwise."""
    return f"{source}_" if source == "main" else source
