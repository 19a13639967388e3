"""Defines sorts, ranks and counts of ordered elements with core operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from firmwright.models.pytorch.nodes import list_graphs

ATEN = torch.ops.aten


def state_order(program: torch.export.ExportedProgram) -> None:
    """Sort the results of ``topk(sorted=False)``, because torch does not define their order."""
    for module in list_graphs(program.graph_module):
        for node in module.graph.nodes:
            if node.target is ATEN.topk.default:
                node.args = node.args[:4]
                node.kwargs = {key: value for key, value in node.kwargs.items() if key != "sorted"}
        module.recompile()


def choose_rank(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest element of an axis, and its index."""
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, positions = torch.topk(x, k, dim, largest=False)
    chosen = values.narrow(dim, k - 1, 1), positions.narrow(dim, k - 1, 1)
    return chosen if keepdim else (chosen[0].squeeze(dim), chosen[1].squeeze(dim))


def choose_middle(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return choose_rank(x, (x.shape[dim] + 1) // 2 if x.dim() else 1, dim, keepdim)


def count_below(
    bounds: Tensor,
    x: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the number of sorted bounds along the last axis that are below each value.

    If ``right`` is true, equal bounds also count.
    """
    if sorter is not None:
        bounds = bounds.gather(-1, sorter)
    values = x if isinstance(x, Tensor) else torch.tensor(x)
    bounds = bounds.unsqueeze(-2) if bounds.dim() > 1 else bounds
    column = values.unsqueeze(-1)
    below = bounds <= column if right or side == "right" else bounds < column
    return below.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def count_in_bins(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Return the number of elements in each of ``bins`` equal intervals from ``min`` to ``max``.

    The limits are the smallest and the largest element if both arguments are equal.
    """
    flat = x.reshape(-1)
    low: Tensor | float = min
    high: Tensor | float = max
    if min == max:
        low, high = flat.amin(), flat.amax()
        is_equal = low == high  # torch also counts in a wider interval then
        low, high = torch.where(is_equal, low - 1, low), torch.where(is_equal, high + 1, high)
    position = torch.floor((flat - low) * bins / (high - low))
    position = torch.where(flat == high, bins - 1, position)
    return (position.unsqueeze(-1) == torch.arange(bins)).sum(0).to(x.dtype)


def sort_in_order(
    x: Tensor, *, dim: int = -1, descending: bool = False, **_: Any
) -> tuple[Tensor, Tensor]:
    """Sort elements. The kernel of all sorts is stable."""
    if not x.dim():
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    values, positions = ATEN.sort.default(x, dim, descending)
    return values, positions


ORDERS: dict[Any, Callable[..., Any]] = {
    ATEN.argsort.stable: lambda x, **options: sort_in_order(x, **options)[1],
    ATEN.bucketize.Tensor: lambda x, bounds, **options: count_below(bounds, x, **options),
    ATEN.histc.default: count_in_bins,
    ATEN.kthvalue.default: choose_rank,
    ATEN.median.default: lambda x: choose_middle(x.reshape(-1), 0)[0],
    ATEN.median.dim: choose_middle,
    ATEN.min.dim: lambda x, dim, keepdim=False: (x.amin(dim, keepdim), x.argmin(dim, keepdim)),
    ATEN.searchsorted.Scalar: count_below,
    ATEN.searchsorted.Tensor: count_below,
    ATEN.sort.stable: sort_in_order,
}
