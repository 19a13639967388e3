"""Converts a NonMaxSuppression with a result of fixed length to a call of its C function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax, te

from firmwright.ir.library_call import call_operator
from firmwright.ir.relax import static_shape


def convert_suppression(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], attributes: Mapping[str, Any]
) -> relax.Expr:
    """Convert the bounded form to a call of its C function.

    The inputs are the boxes (batches, boxes, 4), the scores (batches, classes, boxes), the limit of
    the overlap, and the minimum score. The results are the rows and the number of used rows.
    """
    batches, classes, count = static_shape(inputs[1])
    most = int(attributes["most"])
    options = [int(attributes[name]) for name in ("centered", "filtered")]
    results = [
        ((batches * classes * most, 3), "int64"),
        ((1,), "int64"),
        ((count,), "int32"),  # the heap
    ]

    def call(*tensors: te.Tensor) -> list[te.Tensor]:
        sizes = [batches, classes, count, most, *options]
        return call_operator("non_max_suppression", results, tensors, sizes)

    found = builder.emit_te(call, *inputs, primfunc_name_hint="non_max_suppression")
    return relax.Tuple([relax.TupleGetItem(found, i) for i in range(2)])
