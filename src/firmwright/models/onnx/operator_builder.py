"""TVM's importers write some operators as loops; here they stay operators.

A clip or pad that is a Relax operator can be rounded, folded and listed by name like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, topi


def maximum(data: relax.Expr, limit: relax.Expr | float) -> relax.Expr:
    return relax.op.maximum(data, to_tensor(limit, data))


def minimum(data: relax.Expr, limit: relax.Expr | float) -> relax.Expr:
    return relax.op.minimum(data, to_tensor(limit, data))


def to_tensor(value: relax.Expr | float, like: relax.Expr) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype)) if isinstance(value, int | float) else value


def pad(
    data: relax.Expr, before: Sequence[int], after: Sequence[int], value: float = 0.0
) -> relax.Expr:
    return relax.op.nn.pad(data, interleave(before, after), "constant", value)


def replicate_pad(data: relax.Expr, before: Sequence[int], after: Sequence[int]) -> relax.Expr:
    return relax.op.nn.pad(data, interleave(before, after), "replicate")


def einsum(equation: str, *operands: relax.Expr) -> relax.Expr:
    return relax.op.einsum(relax.Tuple(operands), equation)


def interleave(before: Sequence[int], after: Sequence[int]) -> list[int]:
    """Return before and after of each axis in turn."""
    return [int(n) for pair in zip(before, after, strict=True) for n in pair]


OPERATORS: dict[Any, Callable[..., relax.Expr]] = {
    topi.einsum: einsum,
    topi.maximum: maximum,
    topi.minimum: minimum,
    topi.nn.pad: pad,
    topi.nn.replicate_pad: replicate_pad,
    topi.tile: relax.op.tile,
}
"""The operator that computes what a function of TVM's operator library writes as loops."""


class OperatorBuilder(relax.BlockBuilder):  # type: ignore[misc]
    """A block builder that emits an operator where it is asked for the same as loops."""

    def emit_te(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> relax.Var:
        if func in OPERATORS and not kwargs:
            return self.emit(OPERATORS[func](*args))
        return super().emit_te(func, *args, **kwargs)
