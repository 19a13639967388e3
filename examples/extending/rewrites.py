"""A rewrite of the network: a division by a power of two becomes a multiplication, exactly."""

from __future__ import annotations

import math

import tvm
from tvm import relax

from firmwright.device import Constant, constant_array, operator_name, rewrite_calls


def multiply_by_reciprocal(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module without such divisions, because a division is slow on many cores."""

    def rewrite(_builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
        if operator_name(call) != "relax.divide" or not isinstance(call.args[1], Constant):
            return call
        divisor = constant_array(call.args[1])
        if divisor.ndim or abs(math.frexp(divisor)[0]) != 0.5:
            return call
        return relax.op.multiply(call.args[0], relax.const(1.0 / float(divisor), divisor.dtype))

    return rewrite_calls(module, rewrite)
