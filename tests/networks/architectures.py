"""Small networks of well-known kinds in PyTorch, with random weights of a fixed seed.

Each has what is typical of its kind: dilated convolutions, recurrent cells, skip connections with
transposed convolutions, attention, inverted residuals with squeeze-and-excitation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class TemporalBlock(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int, out_channels: int, dilation: int) -> None:
        super().__init__()
        pad = {"padding": dilation, "dilation": dilation}
        self.body = nn.Sequential(
            nn.Conv1d(channels, out_channels, 3, **pad), nn.ReLU(),
            nn.Conv1d(out_channels, out_channels, 3, **pad),
        )  # fmt: skip
        self.skip = nn.Conv1d(channels, out_channels, 1)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.skip(x))


class TemporalNetwork(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        sizes = [(8, 16, 1), (16, 24, 2), (24, 32, 4)]
        self.blocks = nn.Sequential(*(TemporalBlock(*size) for size in sizes))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(x).mean(2))


class Recurrent(nn.Module):  # type: ignore[misc]
    def __init__(self, kind: Callable[..., Any]) -> None:
        super().__init__()
        self.cells = kind(16, 32, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        sequence, _ = self.cells(x)
        return self.head(sequence[:, -1])


def convolve(channels: int, out_channels: int, kernel: int = 3, **options: Any) -> list[Any]:
    """Return a convolution and the batch normalization behind it."""
    layer = nn.Conv2d(channels, out_channels, kernel, padding=kernel // 2, bias=False, **options)
    return [layer, nn.BatchNorm2d(out_channels)]


class UNet(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(self.make_pair(*c) for c in ((3, 8), (8, 16)))
        self.middle = self.make_pair(16, 32)
        self.raise_ = nn.ModuleList(
            nn.ConvTranspose2d(*c, 2, stride=2) for c in ((32, 16), (16, 8))
        )
        self.up = nn.ModuleList(self.make_pair(*c) for c in ((32, 16), (16, 8)))
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def make_pair(channels: int, out_channels: int) -> Any:
        return nn.Sequential(
            *convolve(channels, out_channels), nn.ReLU(),
            *convolve(out_channels, out_channels), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        kept = []
        for stage in self.down:
            kept.append(stage(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for raise_, stage in zip(self.raise_, self.up, strict=True):
            x = stage(torch.cat([raise_(x), kept.pop()], 1))
        return self.head(x)


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention as the equations have it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.to_qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        qkv = self.to_qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class VisionTransformer(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int = 48, depth: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.places = nn.Parameter(torch.randn(1, 64, width) * 0.1)
        self.blocks = nn.ModuleList(
            nn.ModuleList((
                nn.LayerNorm(width), Attention(width, 4), nn.LayerNorm(width),
                nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)),
            )) for _ in range(depth)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for first, attention, second, dense in self.blocks:
            x = x + attention(first(x))
            x = x + dense(second(x))
        return self.head(self.norm(x).mean(1))


class SqueezeExcite(nn.Module):  # type: ignore[misc]
    def __init__(self, channels: int, inner: int, act: Any, gate: Any) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.body = nn.Sequential(
            nn.Conv2d(channels, inner, 1), act(), nn.Conv2d(inner, channels, 1), gate()
        )

    def forward(self, x: Any) -> Any:
        return x * self.body(self.pool(x))


class InvertedResidual(nn.Module):  # type: ignore[misc]
    """Expand, convolve by channels, squeeze and excite, project; ``excite`` makes the third."""

    def __init__(
        self, channels: int, out_channels: int, factor: int, stride: int, kernel: int, act: Any,
        excite: Callable[[int, int], Any] | None,
    ) -> None:  # fmt: skip
        super().__init__()
        inner = channels * factor
        layers = [*convolve(channels, inner, 1), act()] if factor > 1 else []
        layers += [*convolve(inner, inner, kernel, stride=stride, groups=inner), act()]
        layers += [excite(channels, inner)] if excite else []
        self.body = nn.Sequential(*layers, *convolve(inner, out_channels, 1))
        self.adds = stride == 1 and channels == out_channels

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.adds else self.body(x)


def make_mobile(
    stages: list[tuple[int, int, int, int]], act: Any, excite: Callable[[int, int], Any] | None
) -> Any:
    """Return a network of inverted residuals (channels, factor, stride, kernel)."""
    layers, channels = [*convolve(3, 8, stride=2), act()], 8
    for out_channels, factor, stride, kernel in stages:
        layers.append(InvertedResidual(channels, out_channels, factor, stride, kernel, act, excite))
        channels = out_channels
    layers += [*convolve(channels, 96, 1), act(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(96, 10))


STAGES = [(8, 1, 1, 3), (12, 6, 2, 3), (12, 6, 1, 3), (16, 6, 2, 5), (16, 6, 1, 5), (24, 6, 2, 3)]


def excite_hard(_: int, inner: int) -> Any:
    return SqueezeExcite(inner, max(inner // 4, 8), nn.ReLU, nn.Hardsigmoid)


def excite_smooth(channels: int, inner: int) -> Any:
    return SqueezeExcite(inner, max(channels // 4, 4), nn.SiLU, nn.Sigmoid)


PICTURE = (1, 3, 32, 32)
ARCHITECTURES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "tcn": (TemporalNetwork, (1, 8, 64)),
    "lstm": (lambda: Recurrent(nn.LSTM), (1, 16, 16)),
    "gru": (lambda: Recurrent(nn.GRU), (1, 16, 16)),
    "unet": (UNet, PICTURE),
    "vit": (VisionTransformer, PICTURE),
    "mobilenetv2": (lambda: make_mobile(STAGES, nn.ReLU6, None), PICTURE),
    "mobilenetv3": (lambda: make_mobile(STAGES, nn.Hardswish, excite_hard), PICTURE),
    "efficientnet": (lambda: make_mobile(STAGES, nn.SiLU, excite_smooth), PICTURE),
}
"""What makes a network, and the shape of its input."""


def make_architecture(name: str) -> tuple[Any, Any]:
    """Return a network, ready for inference, and 8 inputs for it, one along the first axis.

    Batch normalizations have the statistics of these inputs.
    """
    torch.manual_seed(0)
    make, shape = ARCHITECTURES[name]
    network, data = make(), torch.randn(8, *shape[1:])
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        network.train()(data)
    return network.eval(), data
