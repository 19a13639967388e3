"""Converts the probabilities of pairs of classes to one probability per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as script

from firmwright.models.onnx.local_arrays import make_local

ROUNDS = 100
"""The maximum number of rounds of ONNX Runtime's approximation."""


def convert_pairwise_probabilities(
    builder: relax.BlockBuilder, inputs: Sequence[relax.Expr], _: Mapping[str, Any]
) -> relax.Expr:
    """Convert PairwiseProbabilities, the second part of an SVMClassifier with probabilities.

    The input has the shape (rows, classes, classes). Element (i, j) is the probability of class i
    if the class is i or j. The result has the shape (rows, classes).
    """

    def compute(pairs: te.Tensor) -> te.Tensor:
        rows, count, _ = (int(length) for length in pairs.shape)
        return te.extern(
            [[rows, count]],
            [pairs],
            lambda ins, outs: build_statement(ins[0], outs[0], rows, count),
            # TVM's operators have buffers without a layout.
            in_buffers=[tirx.decl_buffer(pairs.shape, "float32", layout=None)],
            out_buffers=[tirx.decl_buffer([rows, count], "float32", layout=None)],
            dtype=["float32"],
            name="probabilities",
        )

    return builder.emit_te(compute, *inputs, primfunc_name_hint="pairwise_probabilities")


def build_statement(pairs: Any, result: Any, rows: int, count: int) -> tirx.Stmt:
    """Approximate the probabilities until the error of each probability is below 0.005 / ``count``.

    Source: Wu, Lin, Weng, "Probability Estimates for Multi-class Classification by Pairwise
    Coupling" (2004), algorithm 2. The maximum number of rounds is equal to ONNX Runtime's maximum.
    """
    limit = tirx.const(np.float32(0.005) / np.float32(count), "float32")
    with IRBuilder() as builder:
        pairs, p = script.buffer_proxy(pairs), script.buffer_proxy(result)
        with script.serial(0, rows) as row:
            IRBuilder.name("row", row)
            matrix, products = make_local("matrix", count, count), make_local("products", count)
            total, error, step = (make_local(name, 1) for name in ("total", "error", "step"))
            fill_matrix(pairs, matrix, p, row, count)
            with script.serial(0, ROUNDS) as number:
                IRBuilder.name("number", number)
                measure_error(matrix, products, total, error, p, row, count)
                with script.If(error[0] >= limit), script.Then(), script.serial(0, count) as i:
                    IRBuilder.name("i", i)
                    step[0] = (total[0] - products[i]) / matrix[i, i]
                    p[row, i] = p[row, i] + step[0]
                    grown = tirx.const(1, "float32") + step[0]
                    change = step[0] * (step[0] * matrix[i, i] + products[i] + products[i])
                    total[0] = (total[0] + change) / grown / grown
                    with script.serial(0, count) as j:
                        IRBuilder.name("j", j)
                        products[j] = (products[j] + step[0] * matrix[i, j]) / grown
                        p[row, j] = p[row, j] / grown
        return builder.get()


def fill_matrix(pairs: Any, matrix: Any, p: Any, row: Any, count: int) -> None:
    """Compute the matrix of the quadratic form, and set all probabilities to 1 / ``count``."""
    with script.serial(0, count) as i:
        IRBuilder.name("i", i)
        p[row, i] = tirx.const(np.float32(1) / np.float32(count), "float32")
        matrix[i, i] = tirx.const(0, "float32")
        with script.serial(0, count) as j:
            IRBuilder.name("j", j)
            with script.If(tirx.NE(i, j)), script.Then():
                matrix[i, i] = matrix[i, i] + pairs[row, j, i] * pairs[row, j, i]
                matrix[i, j] = -(pairs[row, j, i] * pairs[row, i, j])


def measure_error(
    matrix: Any, products: Any, total: Any, error: Any, p: Any, row: Any, count: int
) -> None:
    """Compute the matrix-vector product, the quadratic form, and their largest difference."""
    total[0] = tirx.const(0, "float32")
    with script.serial(0, count) as i:
        IRBuilder.name("i", i)
        products[i] = tirx.const(0, "float32")
        with script.serial(0, count) as j:
            IRBuilder.name("j", j)
            products[i] = products[i] + matrix[i, j] * p[row, j]
        total[0] = total[0] + p[row, i] * products[i]
    error[0] = tirx.const(0, "float32")
    with script.serial(0, count) as k:
        IRBuilder.name("k", k)
        error[0] = tirx.max(error[0], tirx.abs(products[k] - total[0]))
