"""Writes the ranges of whole numbers that a recipe states for float inputs into the network."""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

from firmwright.ir.relax import bind, set_functions

Limits = tuple[int, int]
"""The smallest and the largest whole number."""


def round_inputs(module: tvm.IRModule, limits: Sequence[Limits | None]) -> tvm.IRModule:
    """Round down and clip the parameters of ``main`` that have limits.

    Whole numbers within the limits do not change. Later rewrites can use the range of the rounded
    value, because the range is proven.
    """
    main = module["main"]
    parameters: list[relax.Var] = []
    bindings: list[relax.VarBinding] = []
    for parameter, stated in zip(main.params, limits, strict=True):
        if stated is None:
            parameters.append(parameter)
            continue
        given = relax.Var(str(parameter.name), parameter.ty)
        parameters.append(given)
        low, high = (float(limit) for limit in stated)
        rounded = bind(bindings, relax.op.floor(given), "lv", relax.Var)
        bind(bindings, relax.op.clip(rounded, low, high), parameter)
    if not bindings:
        return module
    body = relax.SeqExpr([relax.BindingBlock(bindings), *main.body.blocks], main.body.body)
    function = relax.Function(parameters, body, main.ret_ty, main.is_pure, main.attrs)
    return relax.transform.ConvertToDataflow()(set_functions(module, {"main": function}))
