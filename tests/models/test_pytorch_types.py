"""The types in which PyTorch computes, and arguments that an importer may omit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.models import FORMATS
from tests.networks.firmware import run_generated

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
F = torch.nn.functional

from tests.networks.torch_programs import Call, exported  # noqa: E402 (needs torch)


def assert_equals_torch(function: Any, example: Any, folder: Path) -> None:
    """Compare the values of all outputs, and the types that the generated project states."""
    data = exported(Call(function), example)
    given = [{"x": example.numpy()}]
    (wanted,) = FORMATS["pt2"].load().run_reference(data, given).outputs
    (found,) = run_generated(data, given, folder, format_name="pt2")
    assert [array.dtype for array in found] == [array.dtype for array in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def mix_with_numbers(x: Any) -> Any:
    """Numbers next to integers, which decide whether torch computes in floats."""
    return (
        x + 1.5, x * 0.5, x - 0.5, 1.5 - x, x / 2, x % 1.5, x // 2, x**2, x**2.5,
        x == 1.5, x < 2.5, x > 200, x + 200, x.clamp(-2.5, 2.5), x.clamp(min=1.5),
        torch.where(x > 0, x, 1.5), torch.reciprocal(x + 7), torch.exp(x),
    )  # fmt: skip


def mix_with_tensors(x: Any) -> Any:
    """Tensors of other types as operands, in sums of all elements, and in reductions."""
    other = torch.tensor([3, -2, 1, 5], dtype=torch.int64)
    return (
        x / (x + 9), x + other, torch.maximum(x, other), torch.cat([x, torch.ones(1, 4)]),
        x @ x.T, x.prod(), x.sum(1, dtype=torch.float32), (x > 1).any(1), x.any(1),
        x.float() * other, -x, x.sign(), torch.where(x > 0, x, other), x.cumsum(1),
    )  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int32])
@pytest.mark.parametrize("function", [mix_with_numbers, mix_with_tensors])
def test_integers_become_what_torch_makes_of_them(function: Any, kind: Any, tmp_path: Path) -> None:
    x = torch.tensor([[1, 0, 3, 100], [2, 5, 1, 7], [4, 0, 9, 1]]).to(kind)
    assert_equals_torch(function, x, tmp_path)


@pytest.mark.needs("gcc")
def test_truth_values_become_what_torch_makes_of_them(tmp_path: Path) -> None:
    def mixed(x: Any) -> Any:
        other = x.flip(1)
        return (
            x + 1, x + x, x + other, x * other, torch.maximum(x, other), torch.minimum(x, other),
            x * 2.5, x / 2, x == other, x.amax(1), x.sum(1), x.any(1), x.any(), torch.tanh(x),
            ~x, ~(x & other), x | other, x ^ other,
        )  # fmt: skip

    assert_equals_torch(mixed, torch.tensor([[True, False, True], [False] * 3]), tmp_path)


def scaled_sums(x: Any) -> Any:
    return (
        torch.add(x, x, alpha=3), torch.sub(x, x + 1, alpha=2), torch.add(x, 2, alpha=3),
        torch.rsub(x, 3, alpha=2), torch.addmm(x[0, 0], x[0, 0], x[0, 1, :5, :5].T[:5, :5],
                                               alpha=2, beta=0.5),
    )  # fmt: skip


def averages(x: Any) -> Any:
    return (
        F.avg_pool2d(x, 2, 2, divisor_override=5), F.avg_pool2d(x[0], 2, divisor_override=3),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=2),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.avg_pool3d(x[None], (1, 2, 2), divisor_override=3),
    )  # fmt: skip


def nearest_pixels(x: Any) -> Any:
    return (
        *(F.interpolate(x, size=size) for size in ((11, 8), (3, 4))),
        *(F.interpolate(x, scale_factor=factor) for factor in (1.7, 0.6, (1.3, 0.7), 2, 3)),
    )


def linear_means(x: Any) -> Any:
    by_factor = [
        F.interpolate(x, scale_factor=factor, mode="bilinear", antialias=smooth)
        for factor in (1.7, 0.6, (1.3, 0.7), 2)
        for smooth in (False, True)
    ]
    by_size = F.interpolate(x, size=(3, 9), mode="bilinear")
    to_one = F.interpolate(x, size=(1, 9), mode="bilinear", align_corners=True)
    return (*by_factor, by_size, to_one)


def norms(x: Any) -> Any:
    weights = torch.tensor([2.0, 3.0])
    return F.group_norm(x, 2), F.group_norm(x, 1, weights), F.group_norm(x, 2, None, weights)


def floored_quotients(x: Any) -> Any:
    return (
        x // 0.1, x % 0.1, x % -0.1, torch.fmod(x, 0.3), torch.div(x, 2, rounding_mode="trunc"),
    )  # fmt: skip


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    "function",
    [scaled_sums, averages, nearest_pixels, linear_means, norms, floored_quotients],
)
def test_arguments_that_are_not_the_usual_ones(function: Any, tmp_path: Path) -> None:
    example = torch.arange(-35, 35).reshape(1, 2, 7, 5) * 0.1
    assert_equals_torch(function, example, tmp_path)


@pytest.mark.needs("gcc")
def test_classes_become_ones_and_zeros(tmp_path: Path) -> None:
    assert_equals_torch(lambda x: F.one_hot(x, 5), torch.tensor([1, 4, 0]), tmp_path)


@pytest.mark.needs("gcc")
def test_views_have_the_bytes_of_the_tensor(tmp_path: Path) -> None:
    def view(x: Any) -> Any:
        words = x.view(torch.int16)
        return (
            x.view(torch.int32), x.view(torch.uint8), words, words.view(torch.int32),
            x.half().view(torch.int16), words.view(torch.uint8).view(torch.float32),
        )  # fmt: skip

    assert_equals_torch(view, torch.tensor([[1.5, -3.25], [0.1, 1e30]]), tmp_path)


@pytest.mark.needs("gcc")
def test_unsorted_selections_are_sorted(tmp_path: Path) -> None:
    x = torch.tensor([[3.0, 1.0, 2.0, 7.0, 5.0, 4.0]])
    assert_equals_torch(lambda x: tuple(x.topk(4, sorted=False)), x, tmp_path)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.randn_like(x) + x, r"randn_like.default .* line \d+\): it draws random"),
        (lambda x: torch.native_layer_norm(x, (5,), None, None, 1.0)[1], "only its first result"),
        (
            lambda x: F.conv2d(x.int(), torch.ones(1, 2, 2, 2, dtype=torch.int32)),
            r"misreads:\n  aten.convolution.default .* line \d+\): type int32 became float32",
        ),
        (lambda x: 2 ** x.int(), r"pow.Scalar .* line \d+\): powers of integers"),
        (
            lambda x: F.interpolate(x.byte(), size=3, mode="bilinear"),
            "by interpolation is not supported",
        ),
        (lambda x: x.masked_select(x > 0), r"select.default .* line \d+\): the size of its result"),
        (lambda x: x.unique(), r"_unique2.default .* line \d+\): the size of its result depends"),
    ],
    ids=["random", "means", "types", "powers", "integer-means", "mask", "unique"],
)
def test_what_cannot_be_computed_is_refused_with_its_line(function: Any, message: str) -> None:
    data = exported(Call(function), torch.zeros(1, 2, 7, 5))
    with pytest.raises(UserError, match=message):
        FORMATS["pt2"].load().import_model(data, "m.pt2", {})
