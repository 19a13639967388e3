"""PyTorch programs in float16 and bfloat16, compared with torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from firmwright.models import FORMATS  # noqa: E402
from tests.networks.firmware import run_generated  # noqa: E402
from tests.networks.torch_programs import exported  # noqa: E402


class Half(nn.Module):  # type: ignore[misc]
    """Each kind of product: a convolution, a linear layer, the products of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        tokens = self.convolution(x).flatten(2).transpose(1, 2)
        return self.linear(self.attention(tokens, tokens, tokens)[0])


class Autocast(nn.Module):  # type: ignore[misc]
    """Normalizations, whose parameters remain float32 under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.LayerNorm(4),
            nn.Flatten(), nn.Linear(64, 4),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layers(x)


@pytest.mark.needs("gcc")
def test_autocast_programs_are_near_torch(tmp_path: Path) -> None:
    image = torch.rand(1, 3, 6, 6)
    data = exported(Autocast(), image)
    importer, samples = FORMATS["pt2"].load(), [{"x": image.numpy()}]
    operators = importer.import_model(data, "m.pt2", {})[1].operators
    assert {"layers.0", "layers.5"} <= {operator.name for operator in operators}
    ((found,),) = run_generated(data, samples, tmp_path, format_name="pt2")
    (expected,) = importer.run_reference(data, samples).outputs[0]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.astype("f4"), expected.astype("f4"), 0.04, 0.04)


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_sixteen_bit_programs_are_near_torch(tmp_path: Path, kind: Any) -> None:
    image = torch.rand(1, 3, 6, 6)
    data = exported(Half().to(kind), image.to(kind))
    samples = [{"x": image.to(kind).view(torch.uint16).numpy().view(str(kind)[6:])}]
    ((found,),) = run_generated(data, samples, tmp_path, format_name="pt2")
    (expected,) = FORMATS["pt2"].load().run_reference(data, samples).outputs[0]
    assert found.dtype == expected.dtype
    step = float(torch.finfo(kind).eps)
    np.testing.assert_allclose(found.astype("f4"), expected.astype("f4"), 4 * step, 4 * step)
