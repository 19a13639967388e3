"""Exports programs with dynamic shapes again, for the shapes of a recipe.

TVM's converters need lengths that are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from firmwright.errors import UserError, first_line
from firmwright.models.formats import OpenShapesError, Shapes
from firmwright.models.importing import check_input_names, refuse_shape, suppress_output

Lengths = Sequence[Any]


def fix_shapes(
    program: torch.export.ExportedProgram, shapes: Shapes, name: str
) -> tuple[torch.export.ExportedProgram, tuple[str, ...]]:
    """Return the program for the inputs' shapes, and notes for the user.

    Raises OpenShapesError if an open input has no shape, and UserError if a shape does not fit.
    """
    wanted = [str(n) for n in program.graph_signature.user_inputs]
    values = {n.name: n.meta["val"] for n in program.graph.nodes if n.name in wanted}
    declared = {n: v.shape for n, v in values.items() if isinstance(v, torch.Tensor)}
    if all(isinstance(d, int) for shape in declared.values() for d in shape):
        return program, ()
    refuse_unknown(shapes, declared, name)
    chosen = {n: tuple(shapes.get(n, shape)) for n, shape in declared.items()}
    remarks = tuple(check_lengths(program, chosen, declared, name))
    samples = [torch.zeros(chosen[n], dtype=values[n].dtype) for n in wanted]
    arguments, options = pytree.tree_unflatten(samples, program.call_spec.in_spec)
    with suppress_output():
        try:
            return torch.export.export(program.module(), arguments, options), remarks
        except Exception as error:
            failure = first_line(error)
    shown = ", ".join(f"{n}: {list(shape)}" for n, shape in chosen.items())
    raise UserError(
        f"{name}: inputs: torch rejects the shapes {shown}: {failure}; state shapes that the "
        "program allows"
    )


def refuse_unknown(shapes: Shapes, declared: Mapping[str, Lengths], name: str) -> None:
    """Raise UserError if an input is unknown, and OpenShapesError if a shape is missing."""
    check_input_names(name, shapes, declared)
    left = {
        n: describe(shape)
        for n, shape in declared.items()
        if n not in shapes and not all(isinstance(d, int) for d in shape)
    }
    if left:
        raise OpenShapesError(name, left)


def describe(shape: Lengths) -> list[int | str]:
    return [d if isinstance(d, int) else str(d) for d in shape]


def check_lengths(
    program: torch.export.ExportedProgram,
    chosen: Mapping[str, Lengths],
    declared: Mapping[str, Lengths],
    name: str,
) -> list[str]:
    """Return notes on lengths of 1 that the export excludes.

    Raises UserError if a length does not fit. ``Dim.AUTO`` begins at 2, because torch.export
    handles a length of 1 separately. But most programs are also correct for a length of 1.
    """
    ranges = {str(symbol): limits for symbol, limits in program.range_constraints.items()}
    lengths: dict[str, int] = {}
    remarks = []
    for label, shape in chosen.items():
        wanted = f"[{', '.join(map(str, declared[label]))}]"
        if len(shape) != len(declared[label]):
            refuse_shape(name, label, shape, wanted)
        for length, stated in zip(shape, declared[label], strict=True):
            symbol = str(stated)
            if isinstance(stated, int) and stated != length:
                refuse_shape(name, label, shape, wanted)
            if lengths.setdefault(symbol, length) != length:
                advice = f"choose one length for each '{symbol}'"
                refuse_shape(name, label, shape, wanted, advice)
            if symbol not in ranges:
                continue
            low, high = int(ranges[symbol].lower), ranges[symbol].upper
            if length == 1 and low == 2:
                remarks.append(
                    f"input '{label}' has the length 1; torch.export's automatic range of "
                    f"'{symbol}' begins at 2"
                )
            elif not low <= length <= high:
                limited = f"{wanted}: '{symbol}' is {low} to {high} in the export"
                refuse_shape(name, label, shape, limited, "choose a length in this range")
    return remarks
