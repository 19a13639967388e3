"""Checks the C names that the recipe states for inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from firmwright.codegen.names import make_unique_identifiers
from firmwright.errors import did_you_mean
from firmwright.ir.tensors import Tensor


def find_unfit_names(
    what: str, tensors: Sequence[Tensor], chosen: Mapping[str, str], absent: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield each tensor whose C name does not fit the model, and the reason.

    ``what`` is ``input`` or ``output``. ``chosen`` maps tensors to C names of the recipe.
    ``absent`` contains the tensors of the model that the C function does not have.
    """
    names = [tensor.name for tensor in tensors]
    others = [name for name in names if name not in chosen]
    taken = dict(zip(map(str.lower, make_unique_identifiers(others)), others, strict=True))
    for name, c_name in chosen.items():
        if name in absent:
            yield name, f"the C function has no such {what}: '{name}' is a state or has a `value`"
        elif name not in names:
            yield name, f"the model has no {what} '{name}'{did_you_mean(name, names)}"
        elif c_name.lower() in taken:
            other = taken[c_name.lower()]
            yield (
                name,
                f"'{c_name}' is also the C name of the {what} '{other}'; choose another name, or "
                f"state a `c_name` for '{other}'",
            )
