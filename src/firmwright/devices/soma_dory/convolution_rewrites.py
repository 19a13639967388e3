"""Rewrites rejected convolutions into a form that the rules accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tvm
from tvm import relax

from firmwright.devices.soma_dory.accelerator_layer import AcceleratorLayer
from firmwright.devices.soma_dory.geometry import LayerForm, generate_forms
from firmwright.devices.soma_dory.matching import Match
from firmwright.ir.layer import LayerKind
from firmwright.ir.relax import bind, main_bindings, operator_name, rewrite_bindings, static_shape

Padding = tuple[int, int, int, int]

Replaced = dict[relax.Var, relax.Var]
"""The variables of images with surplus columns, by the variables that they replace."""


def rewrite_convolutions(
    module: tvm.IRModule,
    layers: Mapping[Match, AcceleratorLayer],
    accepted: Callable[[AcceleratorLayer], bool],
) -> tvm.IRModule:
    """Replace each convolution that is not ``accepted`` with its first accepted form.

    ``layers`` has the layers of the accelerator: int8 (N, C, H, W) · int8 (O, I, height, width) to
    int32, and then int8. The results keep their variables. A convolution without an accepted form
    does not change, so that the rejection names the operators of the model.
    """
    values = {b.var: b.value for b in main_bindings(module)}
    chosen: dict[relax.Var, tuple[Match, LayerForm]] = {}
    for match, layer in layers.items():
        if layer.kind not in (LayerKind.CONV2D, LayerKind.DEPTHWISE_CONV2D) or accepted(layer):
            continue
        padded = read_zero_padding(values.get(values[match.sums.anchor.var].args[0]))
        form = next((f for f in generate_forms(layer, padded) if accepted(f.layer)), None)
        if form is not None:
            chosen.update(dict.fromkeys(match.variables, (match, form)))
    wide: Replaced = {}

    def rewrite(binding: relax.VarBinding) -> list[relax.VarBinding]:
        match, form = chosen.get(binding.var, (None, None))
        if match is None or form is None:
            return [binding]
        bindings = [binding]
        if binding.var.same_as(match.sums.anchor.var):
            bindings = build_bindings(binding, form, values)
        return widen_images(bindings, match, form.surplus, wide) if form.surplus else bindings

    return rewrite_bindings(module, rewrite)


def widen_images(
    bindings: list[relax.VarBinding], match: Match, surplus: int, wide: Replaced
) -> list[relax.VarBinding]:
    """Return the bindings of a layer's operator with surplus columns.

    A crop after the last operator removes the surplus columns. ``wide`` maps the layer's variables
    to the variables of the wider images. The function adds entries to this map.
    """
    *before, binding = bindings
    call, variable = binding.value, binding.var
    arguments = [wide.get(a, a) if isinstance(a, relax.Var) else a for a in call.args]
    wider = bind(before, tvm.ir.Call(call.op, arguments, call.attrs), str(variable.name))
    if not variable.same_as(match.result):
        wide[variable] = wider
        return before
    width = static_shape(variable)[-1]
    bind(before, relax.op.strided_slice(wider, [3], [surplus], [surplus + width]), variable)
    return before


def read_zero_padding(value: relax.Expr | None) -> Padding | None:
    """Return (top, left, bottom, right) of an operator that pads images with zeros, or None."""
    if value is None or operator_name(value) != "relax.nn.pad":
        return None
    attributes = value.attrs
    widths = [int(w) for w in attributes.pad_width]
    if str(attributes.pad_mode) != "constant" or attributes.pad_value != 0 or any(widths[:4]):
        return None
    top, bottom, left, right = widths[4:]
    return top, left, bottom, right


def build_bindings(
    binding: relax.VarBinding, form: LayerForm, values: Mapping[relax.Var, relax.Expr]
) -> list[relax.VarBinding]:
    bindings: list[relax.VarBinding] = []

    call, layer = binding.value, form.layer
    image = values[call.args[0]].args[0] if form.reads_unpadded else call.args[0]
    if form.space_to_depth:
        image = space_to_depth(image, (layer.height, layer.width), bindings)
    bind(bindings, make_convolution(image, layer, call), binding.var)
    return bindings


def make_convolution(image: relax.Var, layer: AcceleratorLayer, call: tvm.ir.Call) -> relax.Expr:
    groups, weights = int(call.attrs.groups), relax.const(layer.weights, "int8")
    strides, padding = list(layer.strides), list(layer.padding)
    return relax.op.nn.conv2d(image, weights, strides, padding, groups=groups, out_dtype="int32")


def space_to_depth(
    image: relax.Var, pairs: tuple[int, int], bindings: list[relax.VarBinding]
) -> relax.Var:
    """Return the image (N, C, H, W) as (N, 4·C, *pairs), and append the bindings.

    If the image is smaller than ``pairs``, zeros are added below and to the right. Padding, reshape
    and permutation are in one region, so the C moves the elements once.
    """
    batch, channels, height, width = static_shape(image)
    rows, columns = pairs
    missing = (2 * rows - height, 2 * columns - width)
    if any(missing):
        padded = relax.op.nn.pad(image, [0, 0, 0, 0, 0, missing[0], 0, missing[1]])
        image = bind(bindings, padded, "lv")
    split = bind(bindings, relax.op.reshape(image, (batch, channels, rows, 2, columns, 2)), "lv")
    moved = bind(bindings, relax.op.permute_dims(split, [0, 1, 3, 5, 2, 4]), "lv")
    return bind(bindings, relax.op.reshape(moved, (batch, 4 * channels, rows, columns)), "lv")
