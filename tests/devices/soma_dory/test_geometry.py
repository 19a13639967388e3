"""Other forms of convolutions have the same sums, for every shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.geometry import (
    LayerForm,
    absorb_padding,
    generate_forms,
    use_space_to_depth,
    widen_kernel,
)
from firmwright.devices.soma_dory.rules import check_layer
from firmwright.ir.layer import Array, LayerKind
from firmwright.toolchain import load_platform


def layer(
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    channels: int = 3,
    depthwise: bool = False,
) -> AcceleratorLayer:
    outputs = channels if depthwise else 5
    shape = (outputs, 1 if depthwise else channels, *kernel)
    results = [
        (size[a] + padding[a] + padding[a + 2] - kernel[a]) // strides[a] + 1 for a in (0, 1)
    ]
    return AcceleratorLayer(
        kind=LayerKind.DEPTHWISE_CONV2D if depthwise else LayerKind.CONV2D,
        batch=2,
        channels=channels,
        height=size[0],
        width=size[1],
        out_channels=outputs,
        out_height=results[0],
        out_width=results[1],
        kernel=kernel,
        strides=strides,
        padding=padding,
        shift=0,
        relu=False,
        weights=np.random.default_rng(0).integers(-128, 128, shape).astype("int8"),
        bias=np.zeros(outputs, "int32"),
    )


def sums(of: AcceleratorLayer, images: Array) -> Array:
    """The definition of a convolution in numpy, (N, C, H, W) to (N, O, H, W)."""
    assert of.weights is not None
    top, left, bottom, right = of.padding
    padded = np.pad(images.astype("int64"), [(0, 0), (0, 0), (top, bottom), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, of.kernel, (2, 3))
    windows = windows[:, :, :: of.strides[0], :: of.strides[1]]
    if of.kind is LayerKind.DEPTHWISE_CONV2D:
        return np.asarray(np.einsum("nchwij,cij->nchw", windows, of.weights[:, 0].astype("int64")))
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, of.weights.astype("int64")))


def images_of(of: AcceleratorLayer) -> Array:
    shape = (of.batch, of.channels, of.height, of.width)
    return np.random.default_rng(1).integers(-128, 128, shape).astype("int8")


def pairs_of(images: Array, rows: int, columns: int) -> Array:
    """Row i and column j of each pair, of channel c, as channel 4·c + 2·i + j."""
    _, channels, height, width = images.shape
    even = np.pad(images, [(0, 0), (0, 0), (0, 2 * rows - height), (0, 2 * columns - width)])
    parts = [even[:, c, i::2, j::2] for c in range(channels) for i in (0, 1) for j in (0, 1)]
    return np.stack(parts, axis=1)


@st.composite
def axes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Size, kernel, zeros before and after along one axis, with at least one result."""
    kernel = draw(st.integers(1, 11))
    before, after = draw(st.integers(0, kernel - 1)), draw(st.integers(0, kernel - 1))
    size = draw(st.integers(max(1, kernel - before - after), 14))
    return size, kernel, before, after


@st.composite
def layers(draw: st.DrawFn) -> AcceleratorLayer:
    stride = draw(st.sampled_from((1, 2)))
    (height, kernel_height, top, bottom), (width, kernel_width, left, right) = (
        draw(axes()) for _ in range(2)
    )
    return layer(
        (height, width),
        (kernel_height, kernel_width),
        (stride, stride),
        (top, left, bottom, right),
        channels=draw(st.integers(1, 3)),
        depthwise=draw(st.booleans()),
    )


@settings(max_examples=300, deadline=None)
@given(layers())
def test_every_form_gives_the_same_sums(before: AcceleratorLayer) -> None:
    images = images_of(before)
    for form in generate_forms(before):
        after = form.layer
        top, left, bottom, right = after.padding
        width = after.kernel[1]
        assert right <= left == width // 2 and width in (1, 3, 5, 7)
        assert form.space_to_depth or max(top, bottom) <= after.kernel[0] // 2
        read = pairs_of(images, after.height, after.width) if form.space_to_depth else images
        assert np.array_equal(sums(after, read)[..., form.surplus :], sums(before, images))


@settings(max_examples=50, deadline=None)
@given(layers(), st.tuples(*[st.integers(0, 2)] * 4))
def test_padding_in_front_becomes_the_layers_own(
    before: AcceleratorLayer, padded: tuple[int, int, int, int]
) -> None:
    top, left, bottom, right = padded
    if before.height <= top + bottom or before.width <= left + right:
        return
    merged = absorb_padding(before, padded)
    images = images_of(merged)
    around = np.pad(images, [(0, 0), (0, 0), (top, bottom), (left, right)])
    assert np.array_equal(sums(merged, images), sums(before, around))


@pytest.mark.parametrize("depthwise", [False, True])
def test_same_of_tflite_with_stride_2_is_a_wider_kernel(depthwise: bool) -> None:
    before = layer((96, 32), (3, 3), (2, 2), (0, 0, 1, 1), depthwise=depthwise)
    wider = next(form.layer for form in generate_forms(before))
    assert wider.weights is not None
    assert (wider.kernel, wider.padding) == ((3, 5), (0, 2, 1, 1))
    assert not wider.weights[:, :, :, :2].any()


@pytest.mark.parametrize(
    ("kernel", "stride", "wider", "surplus"),
    [(2, 1, 3, 0), (3, 1, 5, 0), (4, 2, 7, 0), (5, 1, 5, 2), (5, 2, 5, 1), (7, 1, 7, 3)],
)
def test_without_padding_a_kernel_is_the_end_of_a_wider_one_or_begins_early(
    kernel: int, stride: int, wider: int, surplus: int
) -> None:
    before = layer((9, 16), (3, kernel), (stride, stride), (0, 0, 0, 0))
    form = next(generate_forms(before))
    assert (form.layer.kernel, form.surplus) == ((3, wider), surplus)


def test_first_layer_of_ds_cnn_convolves_pairs() -> None:
    before = layer((49, 10), (10, 4), (2, 2), (4, 1, 5, 1), channels=1)
    assert widen_kernel(LayerForm(before)) is None
    after = use_space_to_depth(before)
    assert after is not None
    assert (after.channels, after.height, after.width) == (4, 25, 5)
    assert (after.kernel, after.padding, after.strides) == ((5, 3), (2, 1, 2, 1), (1, 1))


def test_results_may_be_more_or_fewer_than_pairs() -> None:
    before = layer((10, 49), (10, 4), (2, 2), (5, 1, 5, 1), channels=1)
    after = use_space_to_depth(before)
    assert after is not None
    assert (before.out_height, before.out_width) == (6, 24)
    assert (after.height, after.width) == (6, 25)
    assert (after.kernel, after.padding) == ((7, 3), (3, 1, 3, 0))


@pytest.mark.parametrize(
    "before",
    [
        layer((8, 16), (7, 7), (2, 2), (0, 0, 0, 0), depthwise=True),  # begins between two results
        layer((8, 8), (9, 9), (1, 1), (4, 4, 4, 4)),  # too large, and no pair moves
        layer((16, 16), (16, 3), (2, 2), (7, 0, 7, 1)),  # also too large in pairs
        layer((16, 16), (8, 8), (2, 2), (3, 3, 3, 3), depthwise=True),  # pairs would mix channels
        layer((8, 8), (8, 8), (1, 2), (3, 3, 4, 3)),
    ],
)
def test_what_has_no_form_for_the_accelerator(before: AcceleratorLayer) -> None:
    numbers = load_platform("diana").accelerators["soma_dory"]
    assert all(check_layer(form.layer, numbers) for form in generate_forms(before))
