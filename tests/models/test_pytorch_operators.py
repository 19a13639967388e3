"""Operators of PyTorch programs whose import or schedule was wrong, and attention."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import relax

from firmwright.compile import prepare_module
from firmwright.models import FORMATS
from firmwright.models.onnx.float_export import export_onnx
from tests.networks.firmware import run_generated

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
nn = torch.nn

from tests.networks.torch_programs import Call, exported, samples  # noqa: E402 (needs torch)


def indexed_at_run_time(x: Any, table: Any) -> Any:
    return table.weight[(x * 4).round().clamp(-9, 8).long()]


def limits_and_sums(x: Any) -> Any:
    steps = (x * 4).round().int()
    clamped = steps.clamp(min=-2) + steps.clamp(max=3) + steps.clamp(-1, 1)
    return clamped.cumsum(1) + clamped.amax((1, 2), True) - clamped.amin()


def integer_steps(x: Any) -> Any:
    steps = (x * 4).round().long()
    return torch.div(steps, 3, rounding_mode="floor") + (steps << 2) - (steps.int() >> 1)


def attend(x: Any, **options: Any) -> Any:
    heads = x[0].reshape(1, 2, 10, 6)
    return nn.functional.scaled_dot_product_attention(heads, heads, heads, **options)


def attend_where_positive(x: Any) -> Any:
    """Mask by the input itself: the first row has no valid key, so torch returns 0 for it."""
    keys = x[0].reshape(1, 2, 10, 6).sum(-1).unsqueeze(2)
    rows = torch.arange(10).reshape(1, 1, 10, 1)
    return attend(x, attn_mask=(keys > 0) & (rows > 0))


def with_a_state(x: Any, rnn: Any) -> Any:
    return rnn(x[0], x[:, :, 0, :5])[0]


@pytest.mark.parametrize(
    "model",
    [
        nn.SELU(),
        nn.CELU(0.5),
        nn.ELU(0.7),
        Call(lambda x: x[:, -2] + x[:, 1]),
        Call(lambda x: x[:, [3, -1, 0]]),
        Call(indexed_at_run_time, nn.Embedding(9, 2)),
        Call(lambda x, gru: gru(x[0])[0], nn.GRU(6, 5, bidirectional=True)),
        Call(lambda x, lstm: torch.cat(lstm(x[0])[1]), nn.LSTM(6, 5, 2, bidirectional=True)),
        Call(with_a_state, nn.RNN(6, 5, bias=False, batch_first=True)),
        Call(lambda x, lstm: lstm(x[0])[0], nn.LSTM(6, 5, proj_size=3)),
        Call(limits_and_sums),
        Call(integer_steps),
        Call(attend),
        Call(lambda x: attend(x, is_causal=True)),
        Call(attend_where_positive),
        nn.PReLU(4),
        nn.PReLU(),
        Call(lambda x, up: up(x[:, :, None]), nn.ConvTranspose3d(4, 2, (1, 2, 3), 2, groups=2)),
        nn.AdaptiveMaxPool2d((1, 3)),
        nn.Sequential(nn.Dropout(), nn.InstanceNorm2d(4, affine=True)),
        Call(lambda x, attention: attention(x[0], x[0], x[0])[0], nn.MultiheadAttention(6, 2)),
    ],
    ids=[
        "selu",
        "celu",
        "elu",
        "select",
        "index",
        "run-time-index",
        "gru",
        "lstm",
        "rnn",
        "projected",
        "limits",
        "steps",
        "dot-product",
        "causal",
        "masked-rows",
        "prelu",
        "prelu-of-all",
        "transposed-3d",
        "adaptive-max",
        "norm",
        "attention",
    ],
)
def test_operators_that_importing_or_scheduling_got_wrong(model: Any, tmp_path: Path) -> None:
    data = exported(model, torch.zeros(1, 4, 5, 6))
    given = samples(data, 2)
    found = run_generated(data, given, tmp_path, ("-O0",), "pt2")
    wanted = FORMATS["pt2"].load().run_reference(data, given).outputs
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_result_of_another_shape_or_type_is_a_difference() -> None:
    from firmwright.models.pytorch.importer import find_differences

    kind = relax.TensorType([3, 2], "int64")
    assert [*find_differences(torch.zeros(2, 3), kind)] == [
        "shape [2, 3] became [3, 2]",
        "type float32 became int64",
    ]


def test_attention_is_written_for_the_quantizer() -> None:
    """torch's definition compares all scores with -inf, and computes the mask in every run."""
    data = exported(Call(lambda x: attend(x, is_causal=True)), torch.zeros(1, 4, 5, 6))
    module, interface = FORMATS["pt2"].load().import_model(data, "m.pt2", {})
    graph = onnx.load_model_from_string(export_onnx(prepare_module(module), interface)).graph
    kinds = Counter(node.op_type for node in graph.node)
    assert kinds["Softmax"] == kinds["Add"] == 1
    assert not kinds.keys() & {"Equal", "Where", "Not"}
