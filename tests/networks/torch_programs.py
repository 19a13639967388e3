"""Programs of torch for tests; an import of this module needs torch."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from torch import nn

from firmwright.models import FORMATS


def exported(model: Any, *inputs: Any, **options: Any) -> bytes:
    """Return the model as a .pt2 file; batch norm gets statistics other than 0 and 1."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    stream = io.BytesIO()
    torch.export.save(torch.export.export(model.eval(), inputs, **options), stream)
    return stream.getvalue()


def samples(data: bytes, count: int) -> list[dict[str, Any]]:
    _, interface = FORMATS["pt2"].load().import_model(data, "m.pt2", {})
    generator = np.random.default_rng(1)
    return [
        {t.name: generator.normal(size=t.shape).astype(t.dtype) for t in interface.inputs}
        for _ in range(count)
    ]


class Call(nn.Module):  # type: ignore[misc]
    """A function of one tensor as a module."""

    def __init__(self, function: Any, *modules: Any) -> None:
        super().__init__()
        self.function = function
        self.used = nn.ModuleList(modules)

    def forward(self, x: Any) -> Any:
        return self.function(x, *self.used)
