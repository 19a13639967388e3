"""Operators that are defined by others, pooling with indices, conditions and complex numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models import FORMATS
from tests.networks.firmware import SANITIZED, run_generated

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
nn = torch.nn

from tests.networks.torch_programs import Call, exported, samples  # noqa: E402 (needs torch)

BOUNDS = torch.tensor([-1.0, 0.0, 1.0])
EDGES = torch.tensor(
    [0.0, -0.0, 1e-10, -1e-10, -1.5, 0.7, 3.9, 9.0, 30.0, math.inf, -math.inf, math.nan]
)


def compute_functions(x: Any) -> Any:
    y = x.flip(0)
    return (
        x.hypot(y), (x * 1e30).hypot(y), (x * 0).hypot(y * 0), x.copysign(y), x.copysign(-0.0),
        (x * 0).copysign(y).signbit(), x.erfc(), x.exp2(), torch.ldexp(x, torch.arange(5)),
        nn.functional.rrelu(x), x.erfinv(),
        x.lgamma(), (x.abs() * 30).lgamma(), (-x.abs().round()).lgamma(),
    )  # fmt: skip


def compute_statistics(x: Any) -> Any:
    return (
        *torch.var_mean(x, 1), *torch.std_mean(x, 0, correction=0, keepdim=True),
        *torch.var_mean(x), *x.median(1), *x.kthvalue(2, 0, True), x.median(),
        *x.min(1), x.relu().norm(0, 1), x.norm(3, 0), torch.tril_indices(3, 3).sum() + x,
        torch.cdist(x, x + 1), torch.cdist(x[None], x[None] * 2, 1.0), torch.bucketize(x, BOUNDS),
        torch.bucketize(x.round(), BOUNDS, right=True), torch.searchsorted(BOUNDS, x.round()),
        x.masked_scatter(x > 0, torch.arange(20.0)), torch.addmv(x[:, 0], x, x[1], alpha=2, beta=3),
        torch.addbmm(x[:, :4], x.unsqueeze(0), x.t().unsqueeze(0), beta=0.5),
        nn.functional.bilinear(x, x + 1, x.reshape(4, 5, 1).expand(4, 5, 5)),
    )  # fmt: skip


def compute_matrices(x: Any) -> Any:
    square = x[:3, :3]
    symmetric = x @ x.mT + torch.eye(4)
    triangle = torch.linalg.cholesky(symmetric)
    return (
        torch.linalg.det(x[:2, 1:3]), torch.linalg.slogdet(square)[1], square.inverse(),
        torch.linalg.solve(symmetric, x[:, 0]), torch.linalg.solve(square, x[3:, :3], left=False),
        triangle, torch.linalg.solve_triangular(triangle, x, upper=False),
        torch.cholesky_solve(x, triangle), torch.pdist(x), torch.histc(x, 4, -2, 2),
        torch.histc(x, 3), torch.special.erfcx(x * 5),
        *torch.sort(x.round(), dim=0, descending=True, stable=True),
        torch.argsort(x.round(), stable=True),
    )  # fmt: skip


def combine_bags(x: Any, *bags: Any) -> Any:
    words = (x * 3).long().clamp(0, 9)
    flat = words.reshape(-1)[:20]
    return (*(bag(words) for bag in bags), *(bag(flat, torch.tensor([0, 7, 7])) for bag in bags))


BAGS = [nn.EmbeddingBag(10, 3, mode=mode, padding_idx=1) for mode in ("mean", "sum", "max")]


@pytest.mark.parametrize(
    "model",
    [
        Call(compute_functions),
        Call(compute_statistics),
        Call(compute_matrices),
        Call(combine_bags, *BAGS),
    ],
    ids=["functions", "statistics", "matrices", "bags"],
)
def test_definitions_are_those_of_torch(model: Any) -> None:
    """The definitions run in torch, because other tests compile the core operators."""
    from firmwright.models.pytorch.importer import check_operators, decompose

    program = torch.export.export(model, (torch.zeros(4, 5),))
    core = decompose(program, "m.pt2")
    check_operators(core, "m.pt2")
    torch.manual_seed(0)
    x = torch.randn(4, 5)
    for number, pair in enumerate(zip(core.module()(x), model(x), strict=True)):
        assert pair[0].dtype == pair[1].dtype, number
        torch.testing.assert_close(*pair, rtol=2e-5, atol=2e-6, equal_nan=True)


def test_matrices_at_the_limits_of_floats() -> None:
    from firmwright.models.pytorch import linear_algebra as definitions

    nan = torch.tensor([[1.0, torch.nan], [2.0, 3.0]])
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    for matrix in (torch.eye(24) * 0.01, torch.eye(3) * 1e20, torch.zeros(2, 2), nan, singular):
        expected = torch.linalg.det(matrix)
        found = definitions.find_determinant(matrix)[0]
        torch.testing.assert_close(found, expected, equal_nan=True)
        sign, logarithm = definitions.find_log_determinant(matrix)[:2]
        pair = torch.linalg.slogdet(matrix)
        torch.testing.assert_close(logarithm, pair.logabsdet, equal_nan=True)
        assert torch.isnan(logarithm) or sign == pair.sign
    for matrix in (torch.eye(2), singular):
        assert bool(definitions.invert(matrix)[1]) == bool(torch.linalg.inv_ex(matrix).info)


def test_a_triangle_solves_matrices_of_another_batch() -> None:
    from firmwright.models.pytorch import linear_algebra as definitions

    torch.manual_seed(0)
    batch, right = torch.rand(3, 3, 3) + torch.eye(3), torch.rand(3, 3)
    expected = torch.linalg.solve_triangular(batch, right, upper=False)
    torch.testing.assert_close(definitions.solve_triangle(batch, right, upper=False), expected)
    expected = torch.cholesky_solve(right, batch)
    torch.testing.assert_close(definitions.solve_with_factor(right, batch), expected)
    factor = torch.tensor([[1.0, 0.0], [1.0, 1e-4]])
    found = definitions.solve_with_factor(torch.ones(2, 1), factor)
    assert found.tolist() == [[1.0], [0.0]]


def test_equal_elements_are_in_the_middle_bin() -> None:
    from firmwright.models.pytorch.orders import count_in_bins

    for bins in (3, 4):
        assert torch.equal(count_in_bins(torch.ones(4), bins), torch.histc(torch.ones(4), bins))


def test_large_matrices_are_not_decomposed() -> None:
    from firmwright.models.pytorch.importer import decompose

    program = torch.export.export(Call(torch.linalg.inv), (torch.zeros(33, 33),))
    with pytest.raises(UserError, match="a matrix of 33 rows is decomposed; expected at most 32"):
        decompose(program, "m.pt2")


def compute_edges(x: Any) -> Any:
    return (
        x.erfc(), x.lgamma(), x.erfinv(), x.hypot(x.roll(1)), x.angle(),
        x.copysign(x.flip(0).double()),
    )  # fmt: skip


def compute_integers(x: Any) -> Any:
    a, b = x.reshape(1, 3, 4), x.reshape(1, 4, 3)
    sums = torch.zeros(3, 3, dtype=x.dtype)
    return x.lgamma(), x.angle(), x.copysign(x), torch.addbmm(sums, a, b)


def omit_sums(x: Any) -> Any:
    """Return a product alone, because beta is 0 and x contains NaN."""
    return (torch.addbmm(x[9:], torch.ones(1, 3, 2), torch.ones(1, 2, 3), beta=0),)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (compute_edges, EDGES),
        (compute_edges, EDGES.half()),
        (compute_edges, EDGES.bfloat16()),
        (compute_integers, torch.arange(12, dtype=torch.int32)),
        (omit_sums, EDGES),
    ],
    ids=["float32", "float16", "bfloat16", "int32", "beta"],
)
def test_definitions_hold_for_edges_and_types(function: Any, x: Any) -> None:
    from firmwright.models.pytorch.importer import decompose

    core = decompose(torch.export.export(Call(function), (torch.zeros_like(x),)), "m.pt2")
    limits = torch.finfo(x.dtype if x.is_floating_point() else torch.float32)
    least = limits.tiny if x.is_floating_point() else 2e-6
    near = {"rtol": max(2e-5, limits.eps), "atol": least, "equal_nan": True}
    for number, pair in enumerate(zip(core.module()(x), function(x), strict=True)):
        assert pair[0].dtype == pair[1].dtype, number
        torch.testing.assert_close(*pair, **near, msg=lambda text, n=number: f"{n}: {text}")


def pool(x: Any) -> Any:
    largest = nn.functional.max_pool2d
    halved = largest(x, 2, return_indices=True)
    return (
        *halved, *largest(x.round(), 3, 2, 1, return_indices=True),
        *largest(x, 2, padding=1, return_indices=True),
        *largest(x, 2, (1, 2), 0, 2, return_indices=True),
        *largest(x, 2, 2, 0, 1, True, return_indices=True),
        *nn.functional.adaptive_max_pool2d(x, (2, 4), return_indices=True),
        nn.functional.max_unpool2d(*halved, 2, output_size=(5, 6)),
        nn.functional.adaptive_max_pool3d(x, (3, 5, 2)),
    )  # fmt: skip


class Turns(nn.Module):  # type: ignore[misc, name-defined]
    """Complex factors, like those of rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(3), torch.arange(3.0)))

    def forward(self, x: Any) -> Any:
        pairs = torch.view_as_complex(x.reshape(1, 4, 5, 3, 2))
        return torch.view_as_real(pairs * self.turns).flatten(3)


def transform(x: Any, turns: Any) -> Any:
    signal = x.flatten(1)
    spectrum = torch.stft(signal, 16, 8, window=torch.hann_window(16), return_complex=True)
    image = torch.fft.rfft2(x)
    shifted = torch.view_as_real(
        image[:, 1:] * image[:, :1].conj() / 2 + image[:, 1:] * x[:, :1, :, :4]
    )
    return (turns(x), spectrum.abs(), spectrum.transpose(1, 2).imag, spectrum.angle(), shifted,
            torch.fft.irfft2(image, (5, 6)), torch.fft.fft(torch.fft.ifft(x)[0]).real)  # fmt: skip


class Choice(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        def inner(y: Any) -> Any:
            return torch.cond(y.sum() > 0, self.first, self.second, (y,))

        return torch.cond(x.max() > 2.5, lambda y: self.second(y) * 2, inner, (x,))


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "model", [Call(pool), Call(transform, Turns()), Choice()], ids=lambda m: str(m)[:6]
)
def test_outputs_are_those_of_torch(model: Any, tmp_path: Path) -> None:
    data = exported(model, torch.zeros(1, 4, 5, 6))
    given = samples(data, 2)
    found = run_generated(data, given, tmp_path, ("-O0",), "pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    for ours, theirs in zip(found, wanted, strict=True):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), number
            np.testing.assert_allclose(a, b, 2e-5, 1e-5, err_msg=str(number))


@pytest.mark.needs("gcc")
def test_a_condition_selects_one_of_three_branches(tmp_path: Path) -> None:
    model = Choice()
    data = exported(model, torch.zeros(1, 6))
    inputs = [torch.full((1, 6), number) for number in (3.0, 1.0, -1.0)]
    found = run_generated(data, [{"x": x.numpy()} for x in inputs], tmp_path, ("-O0",), "pt2")
    with torch.no_grad():
        wanted = (model.second(inputs[0]) * 2, model.first(inputs[1]), model.second(inputs[2]))
    for (ours,), theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, 2e-5, 1e-5)


def mix_types(x: Any) -> Any:
    narrow = torch.complex(x, x * 2)
    wide = torch.complex(x.double(), x.double() + 1)
    return torch.view_as_real(narrow * wide - narrow), torch.view_as_real(narrow * x.double())


def divide_if_chosen(x: Any) -> Any:
    """Return a quotient, or the dividend if the divisor may be 0."""
    count, divisor = (x * 7).to(torch.int32), (x * 3).to(torch.int32)
    return torch.cond(
        x.min() >= 1,
        lambda a, b: (a // b, a % b, torch.fmod(a, b)),
        lambda a, b: (a.clone(), a - b, b.clone()),
        (count, divisor),
    )


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("function", [mix_types, divide_if_chosen])
def test_parts_of_two_types_and_divisors_of_zero(function: Any, tmp_path: Path) -> None:
    data = exported(Call(function), torch.ones(2, 5))
    values = np.linspace(-3, 6, 10, dtype="float32").reshape(2, 5)
    given = [{"x": values}, {"x": np.abs(values) + 1}]
    found = run_generated(data, given, tmp_path, SANITIZED, "pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    for ours, theirs in zip(found, wanted, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a, b, 1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: torch.fft.rfft(x.repeat(1, 300)).abs(),
            "a Fourier transform of 2400 numbers; expected at most 2048 real",
        ),
        (torch.fft.rfft, "m.pt2: inputs or outputs are complex: _fft_r2c; use their real"),
        (lambda x: torch.fft.rfft(x).exp().abs(), r"aten.exp.default \(.*\) of complex numbers"),
    ],
)
def test_complex_numbers_that_firmware_lacks_are_named(function: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        FORMATS["pt2"].load().import_model(exported(Call(function), torch.zeros(2, 8)), "m.pt2", {})
