"""Networks of well-known kinds in PyTorch, small and full-size, with random weights.

Each has the typical parts of its kind: dilated convolutions, recurrent cells, skip connections with
transposed convolutions, attention, inverted residuals with squeeze-and-excitation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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
    """Blocks between these channels, each with twice the dilation of the previous block."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        blocks = (TemporalBlock(*pair, 2**i) for i, pair in enumerate(pairwise(channels)))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels[-1], 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(x).mean(2))


class Recurrent(nn.Module):  # type: ignore[misc]
    def __init__(self, kind: Callable[..., Any], inputs: int, units: int) -> None:
        super().__init__()
        self.cells = kind(inputs, units, batch_first=True)
        self.head = nn.Linear(units, 10)

    def forward(self, x: Any) -> Any:
        sequence, _ = self.cells(x)
        return self.head(sequence[:, -1])


def convolve(channels: int, out_channels: int, kernel: int = 3, **options: Any) -> list[Any]:
    """Return a convolution and a batch normalization after it."""
    layer = nn.Conv2d(channels, out_channels, kernel, padding=kernel // 2, bias=False, **options)
    return [layer, nn.BatchNorm2d(out_channels)]


class UNet(nn.Module):  # type: ignore[misc]
    """``widths`` are the channels of each level, from the images down to the middle."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        down, up = pairwise([3, *widths[:-1]]), list(pairwise(widths[::-1]))
        self.down = nn.ModuleList(self.make_pair(*c) for c in down)
        self.middle = self.make_pair(*widths[-2:])
        self.raise_ = nn.ModuleList(nn.ConvTranspose2d(*c, 2, stride=2) for c in up)
        self.up = nn.ModuleList(self.make_pair(*c) for c in up)
        self.head = nn.Conv2d(widths[0], 2, 1)

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
    """Multi-head attention, written as its equations."""

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
    """A transformer on the patches of an image; ``inner`` is the width within a block."""

    def __init__(
        self, side: int, patch: int, width: int, inner: int, heads: int, depth: int, classes: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.places = nn.Parameter(torch.randn(1, (side // patch) ** 2, width) * 0.1)
        self.blocks = nn.ModuleList(
            nn.ModuleList((
                nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width),
                nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)),
            )) for _ in range(depth)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

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


class Block(NamedTuple):
    """An inverted residual: inner channels, channels of the result, stride, kernel."""

    inner: int
    channels: int
    stride: int
    kernel: int
    act: Any
    excite: Callable[[int, int], Any] | None = None
    """Makes the squeeze-and-excitation layer, from the channels and the inner channels."""


class InvertedResidual(nn.Module):  # type: ignore[misc]
    """Expand, convolve by channels, squeeze and excite, project."""

    def __init__(self, channels: int, block: Block) -> None:
        super().__init__()
        inner, out_channels, stride, kernel, act, excite = block
        layers = [*convolve(channels, inner, 1), act()] if inner > channels else []
        layers += [*convolve(inner, inner, kernel, stride=stride, groups=inner), act()]
        layers += [excite(channels, inner)] if excite else []
        self.body = nn.Sequential(*layers, *convolve(inner, out_channels, 1))
        self.adds = stride == 1 and channels == out_channels

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.adds else self.body(x)


def make_mobile(stem: int, blocks: Sequence[Block], features: Sequence[int], classes: int) -> Any:
    """Return a network of inverted residuals, with the activation of its last block at both ends.

    The first of ``features`` is the width of the last convolution; others are of dense layers.
    """
    act = blocks[-1].act
    layers, channels = [*convolve(3, stem, stride=2), act()], stem
    for block in blocks:
        layers.append(InvertedResidual(channels, block))
        channels = block.channels
    layers += [*convolve(channels, features[0], 1), act(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    for pair in pairwise(features):
        layers += [nn.Linear(*pair), act()]
    return nn.Sequential(*layers, nn.Linear(features[-1], classes))


def repeat(
    stem: int, rows: Sequence[Sequence[int]], act: Any, excite: Callable[[int, int], Any] | None
) -> list[Block]:
    """Return the blocks of a table with rows of factor, channels, blocks, stride and kernel."""
    blocks, before = [], stem
    for factor, channels, count, stride, kernel in rows:
        for i in range(count):
            inner = before * factor
            blocks.append(Block(inner, channels, 1 if i else stride, kernel, act, excite))
            before = channels
    return blocks


def excite_hard(_: int, inner: int) -> Any:
    return SqueezeExcite(inner, max(inner // 4, 8), nn.ReLU, nn.Hardsigmoid)


def excite_smooth(channels: int, inner: int) -> Any:
    return SqueezeExcite(inner, max(channels // 4, 4), nn.SiLU, nn.Sigmoid)


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """Two convolutions, whose input is added to their result."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *convolve(channels, out_channels, stride=stride), nn.ReLU(),
            *convolve(out_channels, out_channels),
        )  # fmt: skip
        same = stride == 1 and channels == out_channels
        skip = [] if same else convolve(channels, out_channels, 1, stride=stride)
        self.skip = nn.Sequential(*skip)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.skip(x))


def make_residual(widths: Sequence[int], pairs: int, classes: int) -> Any:
    """Return a ResNet; each width has ``pairs`` blocks of two convolutions and halves the image."""
    stem = [*convolve(3, widths[0], 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    layers, before = stem, widths[0]
    for width in widths:
        for i in range(pairs):
            layers.append(ResidualBlock(before, width, 1 if i or width == before else 2))
            before = width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    return nn.Sequential(*layers)


class NormalizedFirst(nn.Module):  # type: ignore[misc]
    """A residual block that normalizes before it convolves, as a ResNet v2 does."""

    def __init__(self, channels: int, normalize: Callable[[int], Any]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            normalize(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1),
            normalize(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


def make_normalized_first(widths: Sequence[int], normalize: Callable[[int], Any]) -> Any:
    """Return a network of such blocks, one per width; each width halves the image."""
    layers, before = [], 3
    for width in widths:
        layers.append(nn.Conv2d(before, width, 3, stride=2, padding=1))
        layers.append(NormalizedFirst(width, normalize))
        before = width
    layers += [normalize(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(before, 10))


Table = dict[str, tuple[Callable[[], Any], tuple[int, ...]]]
"""A function that makes a network, and the shape of its input."""

ROWS = ((1, 8, 1, 1, 3), (6, 12, 2, 2, 3), (6, 16, 2, 2, 5), (6, 24, 1, 2, 3))
PICTURE = (1, 3, 32, 32)
SMALL: Table = {
    "tcn": (lambda: TemporalNetwork((8, 16, 24, 32)), (1, 8, 64)),
    "lstm": (lambda: Recurrent(nn.LSTM, 16, 32), (1, 16, 16)),
    "gru": (lambda: Recurrent(nn.GRU, 16, 32), (1, 16, 16)),
    "unet": (lambda: UNet((8, 16, 32)), PICTURE),
    "vit": (lambda: VisionTransformer(32, 4, 48, 96, 4, 2, 10), PICTURE),
    "mobilenetv2": (lambda: make_mobile(8, repeat(8, ROWS, nn.ReLU6, None), [96], 10), PICTURE),
    "mobilenetv3": (
        lambda: make_mobile(8, repeat(8, ROWS, nn.Hardswish, excite_hard), [96], 10), PICTURE,
    ),
    "efficientnet": (
        lambda: make_mobile(8, repeat(8, ROWS, nn.SiLU, excite_smooth), [96], 10), PICTURE,
    ),
    "resnetv2": (lambda: make_normalized_first((8, 16, 32), nn.BatchNorm2d), PICTURE),
    "groupnorm": (
        lambda: make_normalized_first((8, 16, 32), lambda n: nn.GroupNorm(4, n)), PICTURE,
    ),
}  # fmt: skip

MOBILENET_V2 = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
)  # fmt: skip
"""Table 2 of arXiv:1801.04381."""

MOBILENET_V3 = [
    Block(16, 16, 2, 3, nn.ReLU, excite_hard), Block(72, 24, 2, 3, nn.ReLU),
    Block(88, 24, 1, 3, nn.ReLU), Block(96, 40, 2, 5, nn.Hardswish, excite_hard),
    *[Block(240, 40, 1, 5, nn.Hardswish, excite_hard)] * 2,
    Block(120, 48, 1, 5, nn.Hardswish, excite_hard),
    Block(144, 48, 1, 5, nn.Hardswish, excite_hard),
    Block(288, 96, 2, 5, nn.Hardswish, excite_hard),
    *[Block(576, 96, 1, 5, nn.Hardswish, excite_hard)] * 2,
]  # fmt: skip
"""The small one, table 2 of arXiv:1905.02244."""

EFFICIENTNET = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip
"""B0, table 1 of arXiv:1905.11946."""

LARGE_PICTURE = (1, 3, 224, 224)
FULL: Table = {
    "tcn": (lambda: TemporalNetwork((64, *[128] * 5)), (1, 64, 256)),
    "lstm": (lambda: Recurrent(nn.LSTM, 64, 128), (1, 100, 64)),
    "gru": (lambda: Recurrent(nn.GRU, 64, 128), (1, 100, 64)),
    "unet": (lambda: UNet((16, 32, 64, 128, 256)), (1, 3, 128, 128)),
    "vit": (lambda: VisionTransformer(224, 16, 192, 768, 3, 12, 1000), LARGE_PICTURE),
    "mobilenetv2": (
        lambda: make_mobile(32, repeat(32, MOBILENET_V2, nn.ReLU6, None), [1280], 1000),
        LARGE_PICTURE,
    ),
    "mobilenetv3": (lambda: make_mobile(16, MOBILENET_V3, [576, 1024], 1000), LARGE_PICTURE),
    "efficientnet": (
        lambda: make_mobile(32, repeat(32, EFFICIENTNET, nn.SiLU, excite_smooth), [1280], 1000),
        LARGE_PICTURE,
    ),
    "resnet18": (lambda: make_residual((64, 128, 256, 512), 2, 1000), LARGE_PICTURE),
}
SIZES = {"small": SMALL, "full": FULL}


def make_architecture(name: str, size: str) -> tuple[Any, Any]:
    """Return a network in evaluation mode, and 8 inputs for it along the first axis.

    Batch normalizations have the statistics of these inputs.
    """
    torch.manual_seed(0)
    make, shape = SIZES[size][name]
    network, data = make(), torch.randn(8, *shape[1:])
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        network.train()(data)
    return network.eval(), data
