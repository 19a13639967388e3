"""Operators of ONNX with several results: what TVM 0.27's importer makes of them, checked.

It knows no training mode, gives Dropout's mask as numbers, pads what has no fixed number of
elements, and has constants in place of results that it does not compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.relax import Constant, constant_array, static_shape

DROPOUT_MASK_OPSET = 12
"""The opset since which Dropout's mask is defined in inference: true throughout."""

TRAINING_MODE_OPSET = 14
"""The opset since which BatchNormalization says by an attribute whether it trains."""


DYNAMIC_LENGTH = frozenset({"NonMaxSuppression"})
"""Operators whose result TVM pads to the largest length that it may have."""


def refuse_node(
    operator: str, inputs: Sequence[relax.Expr | None], attributes: Mapping[str, Any], opset: int
) -> None:
    """Raise UserError for a result of no fixed length, and for learning or dropping at run time."""
    if operator in DYNAMIC_LENGTH:
        raise UserError("only run time tells how long its result is; firmware needs fixed shapes")
    if operator == "Dropout" and len(inputs) > 2 and inputs[2] is not None:
        mode = inputs[2]
        training = not (isinstance(mode, Constant) and not constant_array(mode).any())
    elif operator == "BatchNormalization":
        several = opset < TRAINING_MODE_OPSET and count_results(attributes) > 1
        training = bool(attributes.get("training_mode", 0)) or several
    else:
        return
    if training:
        raise UserError("it is in training mode; export the model for inference")


def convert_dropout(data: relax.Expr, attributes: Mapping[str, Any], opset: int) -> relax.Expr:
    """Return the data as they are, and the mask where it is asked for."""
    if count_results(attributes) == 1:
        return data
    if opset < DROPOUT_MASK_OPSET:
        raise UserError(
            f"its mask has no defined value in opset {opset}; remove that output, or export the "
            f"model with opset {DROPOUT_MASK_OPSET} or later"
        )
    return relax.Tuple([data, relax.const(np.ones(static_shape(data), "bool"), "bool")])


def check_results(
    result: relax.Expr, inputs: Sequence[relax.Expr | None], attributes: Mapping[str, Any]
) -> None:
    """Raise UserError where the importer has fewer results than the node, or stand-ins for them."""
    wanted = count_results(attributes)
    if wanted == 1:
        return
    found = 1
    if isinstance(result, relax.Tuple):
        computed = any(i is not None and not isinstance(i, Constant) for i in inputs)
        stand_ins = [n for n, f in enumerate(result.fields) if isinstance(f, Constant) and computed]
        found = min([len(result.fields), *stand_ins])
    elif isinstance(result.ty, relax.TupleType):
        found = len(result.ty.fields)
    if found < wanted:
        raise UserError(f"only {found} of its {wanted} results can be compiled")


def count_results(attributes: Mapping[str, Any]) -> int:
    """Return how many results the node has, as the importer notes it among the attributes."""
    return int(attributes["tvm_custom"]["num_outputs"])
