"""Programs that PT2E and torchao quantized with computed parameters, or in blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmwright.models import FORMATS
from tests.networks.firmware import lowered, run_generated

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

from firmwright.models.pytorch.quantization import define_torchao  # noqa: E402 (needs torch)
from tests.networks.torch_programs import Call, exported, samples  # noqa: E402 (needs torch)

PT2E = torch.ops.quantized_decomposed
INT8 = -128, 127, torch.int8
LINEAR = torch.nn.functional.linear


def quantize_by_range(x: Any, *_: Any) -> Any:
    """Quantize as PT2E's dynamic quantization does, by tensor and by token."""
    results = []
    for choose in (PT2E.choose_qparams, PT2E.choose_qparams_symmetric):
        params = choose.tensor(x, -128, 127, 2**-12, torch.int8)
        q = PT2E.quantize_per_tensor.tensor(x, *params, *INT8)
        results += [q, PT2E.dequantize_per_tensor.tensor(q, *params, *INT8)]
    params = PT2E.choose_qparams_per_token_asymmetric(x, torch.int8)
    q = PT2E.quantize_per_token(x, *params, *INT8)
    return *results, q, PT2E.dequantize_per_token(q, *params, *INT8, torch.float32)


class Weights(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Linear layers as torchao's int8, int4 in groups, and PT2E without folding write them."""

    def __init__(self) -> None:
        super().__init__()
        define_torchao()
        torch.manual_seed(2)
        self.register_buffer("eight", torch.randint(-128, 128, (4, 8), dtype=torch.int8))
        self.register_buffer("four", torch.randint(-8, 8, (4, 8), dtype=torch.int8))
        self.register_buffer("zeros", torch.randint(-8, 8, (4, 2), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(4, 2) / 8)
        self.register_buffer("plain", torch.randn(4, 8))

    def forward(self, x: Any) -> Any:
        ao, grid = torch.ops.torchao, ([1, 8], torch.int8)
        symmetric = ao.choose_qparams_affine(x, "SYMMETRIC", *grid, keepdim=True)
        q = ao.quantize_affine(x, [1, 8], *symmetric, torch.int8)
        product = torch._int_mm(q, self.eight.t()).float() * symmetric[0]
        params = ao.choose_qparams_affine(x, "ASYMMETRIC", *grid, None, None, 1e-7)
        q = ao.quantize_affine(x, [1, 8], *params, torch.int8)
        data = ao.dequantize_affine(q, [1, 8], *params, torch.int8)
        groups = [
            ao.dequantize_affine(self.four, block, scale, zeros, torch.int8, -8, 7)
            for block, scale, zeros in (
                ([1, 4], self.scales, self.zeros),
                ([2, 2], self.scales.reshape(2, 4), None),
                ([1, 8], self.scales[:, 0], self.zeros[:, 0]),
            )
        ]
        along = self.scales[:, 1], self.zeros[:, 1].long(), 0, *INT8
        unfolded = PT2E.dequantize_per_channel(
            PT2E.quantize_per_channel(self.plain, *along), *along
        )
        layers = [LINEAR(data, weights) for weights in (*groups, unfolded, self.eight.float())]
        return q, product, *layers


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("model", [Call(quantize_by_range), Weights()], ids=["pt2e", "torchao"])
def test_quantization_is_that_of_torch(model: Any, tmp_path: Path) -> None:
    data = exported(model, torch.zeros(20, 8))
    given = [*samples(data, 3), {"x": np.zeros((20, 8), "float32")}]
    found = run_generated(data, given, tmp_path, format_name="pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    for ours, theirs in zip(found, wanted, strict=True):
        for result, reference in zip(ours, theirs, strict=True):
            assert result.dtype == reference.dtype
            if result.dtype == "int8":
                np.testing.assert_array_equal(result, reference)
            np.testing.assert_allclose(result, reference, 1e-5, 1e-5)


NARROW, WIDE_STEPS = (torch.int8, -8, 7), [0.13333334028720856, 0.2666666805744171]


@pytest.mark.parametrize(
    ("mapping", "limits", "scales", "zeros"),
    [
        ("ASYMMETRIC", NARROW, [0.08666666597127914, 0.13333334028720856], [4, -8]),
        ("ASYMMETRIC", (torch.uint8, 0, 15), [0.08666666597127914, 0.13333334028720856], [12, 0]),
        ("SYMMETRIC", NARROW, WIDE_STEPS, [0.0, 0.0]),
        ("SYMMETRIC", (torch.uint8, 0, 15), WIDE_STEPS, [8.0, 8.0]),
        ("SYMMETRIC_NO_CLIPPING_ERR", NARROW, [0.125, 0.2857142984867096], [0.0, 0.0]),
    ],
)
def test_parameters_are_those_of_torchao(
    mapping: str, limits: Any, scales: list[float], zeros: list[float]
) -> None:
    """The expected values are results of torchao 0.18."""
    define_torchao()
    x = torch.tensor([[0.3, -1.0, 2.0, 0.7]])
    scale, zero = torch.ops.torchao.choose_qparams_affine(x, mapping, [1, 2], *limits)
    assert scale.tolist() == [scales]
    assert zero.tolist() == [zeros]
    assert zero.dtype == (torch.int32 if mapping == "ASYMMETRIC" else torch.float32)


def test_blocks_are_those_of_torchao() -> None:
    """The expected values are results of torchao 0.18."""
    define_torchao()
    ao = torch.ops.torchao
    x = torch.tensor([[0.3, -1.0, 2.0, 0.7], [5.0, 0.1, -0.2, 0.0]])
    scale, zero = ao.choose_qparams_affine(x, "ASYMMETRIC", [1, 2], *NARROW)
    assert zero.tolist() == [[4, -8], [-8, 7]]
    q = ao.quantize_affine(x, [1, 2], scale, zero, *NARROW)
    assert q.tolist() == [[7, -8, 7, -3], [7, -8, -8, 7]]
    assert ao.dequantize_affine(q, [1, 2], scale, zero, *NARROW).sum() == 6.686666965484619


def test_integers_of_weights_stay_integers() -> None:
    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer(
                "weights", torch.arange(-1024, 1024).reshape(64, 32).to(torch.int8)
            )

        def forward(self, x: Any) -> Any:
            return LINEAR(x, self.weights.float())

    network = lowered(exported(Layer(), torch.zeros(1, 32)), "pt2")
    assert sum(w.nbytes for w in network.weights.values()) == 64 * 32


def test_many_residual_blocks_are_imported_in_time() -> None:
    """Each block doubles the paths from its result to the input."""

    def chain(x: Any) -> Any:
        for _ in range(24):
            q = PT2E.quantize_per_tensor(x, 0.5, 0, *INT8)
            x = x + PT2E.dequantize_per_tensor(q, 0.5, 0, *INT8)
        return x

    data = exported(Call(chain), torch.zeros(1, 2))
    _, interface = FORMATS["pt2"].load().import_model(data, "m.pt2", {})
    assert interface.outputs[0].shape == (1, 2)
