"""Defines determinants, inverses, solutions and Cholesky factors of small matrices.

The definitions are eliminations with row pivots, like LAPACK's, with one step per row. A singular
matrix, of which torch reports an error at run time, has infinities or NaN in its inverse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from firmwright.errors import UserError

ATEN = torch.ops.aten

MAX_ROWS = 32
"""The maximum rows of a matrix, because each row becomes about 20 operators."""


def check_size(x: Tensor) -> int:
    rows: int = x.shape[-1]
    if rows > MAX_ROWS:
        raise UserError(
            f"a matrix of {rows} rows is decomposed; expected at most {MAX_ROWS} rows: compute the "
            "result outside of the model, and make it an input or a constant"
        )
    return rows


def swap_rows(x: Tensor, one: int, other: Tensor) -> Tensor:
    """Swap row ``one`` of each matrix with the row that ``other``, (…, 1), names."""
    rows = torch.arange(x.shape[-2])
    order = torch.where(rows == one, other, torch.where(rows == other, one, rows))
    return x.gather(-2, order.unsqueeze(-1).expand(x.shape))


def eliminate(x: Tensor, rows: int, above: bool) -> tuple[Tensor, Tensor]:
    """Return the matrices after the elimination of ``rows`` columns, and the sign of the swaps.

    Only the rows below a pivot change if ``above`` is false.
    """
    sign = torch.ones_like(x[..., 0, 0])
    positions = torch.arange(rows).unsqueeze(-1)
    for step in range(rows):
        pivot = x[..., step:, step].abs().argmax(-1, keepdim=True) + step
        sign = torch.where(pivot.squeeze(-1) == step, sign, -sign)
        x = swap_rows(x, step, pivot)
        row = x[..., step : step + 1, :]
        factors = x[..., step : step + 1] / row[..., step : step + 1]
        changed = positions != step if above else positions > step
        x = torch.where(changed, x - factors * row, x)
    return x, sign


def find_determinant(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the determinant. The other results, which only gradients need, are not computed."""
    rows = check_size(x)
    reduced, sign = eliminate(x, rows, above=False)
    determinant = reduced.diagonal(0, -2, -1).prod(-1) * sign
    # A pivot of 0 makes the later rows NaN.
    determinant = torch.where(torch.isnan(determinant), 0.0, determinant)
    return determinant, x.clone(), torch.zeros(x.shape[:-1], dtype=torch.int32)


def find_log_determinant(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    determinant, *others = find_determinant(x)
    reduced, _ = eliminate(x, check_size(x), above=False)
    logarithm = reduced.diagonal(0, -2, -1).abs().log().sum(-1)
    logarithm = torch.where(determinant == 0, -torch.inf, logarithm)
    return determinant.sign(), logarithm, others[0], others[1]


def solve_rows(x: Tensor, right: Tensor) -> Tensor:
    """Return the solution y of x @ y = right."""
    rows = check_size(x)
    both, _ = eliminate(torch.cat([x, right], -1), rows, above=True)
    return both[..., rows:] / both[..., :rows].diagonal(0, -2, -1).unsqueeze(-1)


def report_success(x: Tensor) -> Tensor:
    return torch.zeros(x.shape[:-2], dtype=torch.int32)


def invert(x: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    return solve_rows(x, torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape)), report_success(x)


def solve(
    x: Tensor, right: Tensor, *, left: bool = True, **_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the solution of x @ y = right, or of y @ x = right if ``left`` is false."""
    is_vector = right.dim() == 1 or right.shape == x.shape[:-1]
    columns = right.unsqueeze(-1) if is_vector else right
    matrix = x if left else x.mT
    columns = columns if left or is_vector else columns.mT
    leading = torch.broadcast_shapes(matrix.shape[:-2], columns.shape[:-2])
    matrix = matrix.expand(*leading, *matrix.shape[-2:])
    found = solve_rows(matrix, columns.expand(*leading, *columns.shape[-2:]))
    found = found if left or is_vector else found.mT
    found = found.squeeze(-1) if is_vector else found
    pivots = torch.zeros(matrix.shape[:-1], dtype=torch.int32)
    return found, matrix.clone(), pivots, report_success(matrix)


def factor(x: Tensor, *, upper: bool = False, **_: Any) -> tuple[Tensor, Tensor]:
    """Return the Cholesky factor of symmetric matrices, of which one triangle is read."""
    rows = check_size(x)
    rest = x.mT if upper else x
    columns = []
    for step in range(rows):
        column = rest[..., step : step + 1]
        column = column / column[..., step : step + 1, :].sqrt()
        column = torch.where(torch.arange(rows).unsqueeze(-1) >= step, column, 0.0)
        columns.append(column)
        rest = rest - column * column.mT
    lower = torch.cat(columns, -1)
    return (lower.mT if upper else lower).clone(), report_success(x)


def solve_triangle(
    x: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return the solution for a triangle of x, whose diagonal is 1 if ``unitriangular`` is true."""
    triangle = x.triu() if upper else x.tril()
    if unitriangular:
        is_diagonal = torch.eye(x.shape[-1], dtype=torch.bool)
        triangle = torch.where(is_diagonal, 1.0, triangle)
    return solve(triangle, right, left=left)[0]


def solve_with_factor(right: Tensor, x: Tensor, upper: bool = False) -> Tensor:
    """Return the solution for the matrix whose Cholesky factor is x."""
    return solve(x.mT @ x if upper else x @ x.mT, right)[0]


def find_inverse(x: Tensor) -> Tensor:
    return invert(x)[0]


def find_solution(x: Tensor, right: Tensor, *, left: bool = True) -> Tensor:
    return solve(x, right, left=left)[0]


def find_factor(x: Tensor, *, upper: bool = False) -> Tensor:
    return factor(x, upper=upper)[0]


LINEAR_ALGEBRA: dict[Any, Callable[..., Any]] = {
    ATEN._linalg_det.default: find_determinant,
    ATEN._linalg_slogdet.default: find_log_determinant,
    ATEN._linalg_solve_ex.default: solve,
    # torch's definitions of the next four report singular matrices at run time.
    ATEN.inverse.default: find_inverse,
    ATEN.linalg_cholesky.default: find_factor,
    ATEN.linalg_inv.default: find_inverse,
    ATEN.linalg_solve.default: find_solution,
    ATEN.cholesky_solve.default: solve_with_factor,
    ATEN.linalg_cholesky_ex.default: factor,
    ATEN.linalg_inv_ex.default: invert,
    ATEN.linalg_solve_triangular.default: solve_triangle,
}
