"""Applies a custom rewrite: ``transforms: {extra: ["module:function"]}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from firmwright.custom.code import load_custom_function, locate_definition
from firmwright.errors import UserError, first_line
from firmwright.ir.relax import remove_dead_bindings
from firmwright.models.relax.importer import check_calls, check_functions


def apply_user_transform(reference: str, folder: Path, module: tvm.IRModule) -> tvm.IRModule:
    """Call ``module:function`` of the recipe's folder with a Relax module. Return the result.

    The result must have inputs and outputs of the original shapes and types. The run compares its
    outputs with the reference. Raises UserError, with the user's file and line, if the function
    fails or the result does not fit.
    """
    with load_custom_function(reference, folder) as transform:
        result = transform(module)
        problem = find_problem(result, module["main"])
        if problem:
            raise UserError(f"{locate_definition(reference, folder)}: {problem} ({reference})")
        returned = f"{locate_definition(reference, folder)}: {reference} returned"
        check_functions(result, returned)
        check_calls(result, returned)
    result = relax.transform.ConvertToDataflow(min_size=1)(relax.transform.Normalize()(result))
    return remove_dead_bindings(result)


def find_problem(result: Any, before: relax.Function) -> str:
    """Return the error in a rewritten module, or '' if there is no error."""
    if not isinstance(result, tvm.IRModule):
        return f"returned a {type(result).__name__}; expected a Relax IRModule (tvm.IRModule)"
    functions = {str(v.name_hint): f for v, f in result.functions.items()}
    main = functions.get("main")
    if not isinstance(main, relax.Function):
        return "returned a module without a Relax function 'main'"
    try:
        relax.analysis.check_well_formed(result)
    except (RuntimeError, TypeError, ValueError) as error:  # TVM raises subclasses of these errors
        return f"returned a module that is not well-formed: {first_line(error)}"
    for what, now, then in (
        ("takes", [p.ty for p in main.params], [p.ty for p in before.params]),
        ("returns", [main.ret_ty], [before.ret_ty]),
    ):
        if [str(t) for t in now] != [str(t) for t in then]:
            before = format_types(then)
            return f"returned a network that {what} {format_types(now)}; before, it {what} {before}"
    return ""


def format_extent(extent: tvm.tirx.Expr) -> str:
    return str(int(extent) if isinstance(extent, tvm.tirx.IntImm) else extent)


def format_types(types: list[Any]) -> str:
    """Return tensor types in short notation, such as ``float32 [1, 3, 8, 8]``."""
    flat = [f for t in types for f in getattr(t, "fields", [t])]
    return ", ".join(
        f"{t.dtype} [{', '.join(format_extent(d) for d in t.shape)}]"
        if getattr(t, "shape", None) is not None
        else str(t)
        for t in flat
    )
