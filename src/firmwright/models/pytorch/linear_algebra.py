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


def find_pivots(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pivots, the sign of the swaps, and whether the matrix is singular."""
    reduced, sign = eliminate(x, check_size(x), above=False)
    pivots = reduced.diagonal(0, -2, -1)
    return pivots, sign, (pivots == 0).any(-1)  # the pivots after a 0 are NaN


def find_determinant(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the determinant. The other results, which only gradients need, are not computed."""
    pivots, sign, is_singular = find_pivots(x)
    determinant = torch.where(is_singular, 0.0, pivots.prod(-1) * sign)
    return determinant, x.clone(), torch.zeros(x.shape[:-1], dtype=torch.int32)


def find_log_determinant(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    pivots, sign, is_singular = find_pivots(x)
    signs = torch.where(is_singular, 0.0, pivots.sign().prod(-1) * sign)
    logarithm = torch.where(is_singular, -torch.inf, pivots.abs().log().sum(-1))
    return signs, logarithm, x.clone(), torch.zeros(x.shape[:-1], dtype=torch.int32)


def solve_rows(x: Tensor, right: Tensor) -> Tensor:
    """Return the solution y of x @ y = right."""
    rows = check_size(x)
    both, _ = eliminate(torch.cat([x, right], -1), rows, above=True)
    return both[..., rows:] / both[..., :rows].diagonal(0, -2, -1).unsqueeze(-1)


def report_failure(result: Tensor) -> Tensor:
    """Return 1 for each matrix with infinities or NaN, else 0. LAPACK's numbers name a row."""
    return (~torch.isfinite(result)).flatten(-2).any(-1).to(torch.int32)


def invert(x: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    inverse = solve_rows(x, torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape))
    return inverse, report_failure(inverse)


def solve_matrix(x: Tensor, right: Tensor, left: bool) -> Tensor:
    """Return the solution of x @ y = right, or of y @ x = right if ``left`` is false."""
    matrix, columns = (x, right) if left else (x.mT, right.mT)
    leading = torch.broadcast_shapes(matrix.shape[:-2], columns.shape[:-2])
    matrix, columns = (part.expand(*leading, *part.shape[-2:]) for part in (matrix, columns))
    solution = solve_rows(matrix, columns)
    return solution if left else solution.mT


def solve(
    x: Tensor, right: Tensor, *, left: bool = True, **_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the solution for a matrix or a vector, and further results of torch."""
    is_vector = right.dim() == 1 or right.shape == x.shape[:-1]
    columns = right.unsqueeze(-1) if is_vector else right
    solution = solve_matrix(x, columns, left or is_vector)
    failure = report_failure(solution)
    solution = solution.squeeze(-1) if is_vector else solution
    matrix = x.expand(*failure.shape, *x.shape[-2:])
    return solution, matrix.clone(), torch.zeros(matrix.shape[:-1], dtype=torch.int32), failure


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
    return (lower.mT if upper else lower).clone(), report_failure(lower)


def solve_triangle(
    x: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Return the solution for a triangle of x, whose diagonal is 1 if ``unitriangular`` is true."""
    triangle = x.triu() if upper else x.tril()
    if unitriangular:
        is_diagonal = torch.eye(x.shape[-1], dtype=torch.bool)
        triangle = torch.where(is_diagonal, 1.0, triangle)
    return solve_matrix(triangle, right, left)


def solve_with_factor(right: Tensor, x: Tensor, upper: bool = False) -> Tensor:
    """Return the solution for the matrix whose Cholesky factor is x."""
    lower = x.mT if upper else x
    intermediate = solve_triangle(lower, right, upper=False)
    return solve_triangle(lower.mT, intermediate, upper=True)


LINEAR_ALGEBRA: dict[Any, Callable[..., Any]] = {
    ATEN._linalg_det.default: find_determinant,
    ATEN._linalg_slogdet.default: find_log_determinant,
    ATEN._linalg_solve_ex.default: solve,
    # torch's definitions of the next four report singular matrices at run time.
    ATEN.inverse.default: lambda x: invert(x)[0],
    ATEN.linalg_cholesky.default: lambda x, **options: factor(x, **options)[0],
    ATEN.linalg_inv.default: lambda x: invert(x)[0],
    ATEN.linalg_solve.default: lambda x, right, **options: solve(x, right, **options)[0],
    ATEN.cholesky_solve.default: solve_with_factor,
    ATEN.linalg_cholesky_ex.default: factor,
    ATEN.linalg_inv_ex.default: invert,
    ATEN.linalg_solve_triangular.default: solve_triangle,
}
