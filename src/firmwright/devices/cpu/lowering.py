"""Lowers regions to C: layers with the best form for the core, other regions from TIR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import tvm
from tvm import relax

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import Form, FormChoice, choose
from firmwright.devices.cpu.forms.shifted_steps import choose_biases
from firmwright.devices.cpu.layer_functions import (
    LayerFunction,
    write_function,
    write_headers,
)
from firmwright.devices.cpu.parts import SplitLayer, split_layer
from firmwright.devices.cpu.variants import (
    choose_variant,
    explain_width,
    find_table_variant,
    name_variants,
    read_specialize,
)
from firmwright.ir.byte_layers import AnyLayer, ByteFunction, Softmax
from firmwright.ir.kernels import Kernel, LoweredRegion, Parameter, SourceFile, StoredWeights
from firmwright.ir.layer import Array, FloatLayer, Layer, LinearLayer, MatrixProduct, Pair
from firmwright.ir.regions import Region
from firmwright.ir.relax import list_bindings, operator_name
from firmwright.lowering.binary_layers import read_binary_layer, returns_signs
from firmwright.lowering.byte_layers import read_byte_function, read_resize, read_softmax
from firmwright.lowering.float_layers import read_float_layer
from firmwright.lowering.float_use import list_quantized_operators
from firmwright.lowering.integer_layers import read_layer
from firmwright.lowering.matrix_products import read_matrix_product
from firmwright.lowering.pairs import read_pair, read_wrapped_sum
from firmwright.lowering.region import lower_region
from firmwright.lowering.shifted_layers import read_shifted_layer, read_sums
from firmwright.targets import Context


def lower_to_c(region: Region, module: tvm.IRModule, context: Context) -> LoweredRegion:
    """Lower a region with a form, or from TIR if it has no form or a user's strategy."""
    layer, choice = select_kernel(region, module, context)
    if layer and choice.form:
        lowered = lower_by_form(region, module, layer, choice.form, choice.shared, context.decodes)
        if context.decodes:
            table = find_table_variant(layer, choice.form, context)
            lowered = replace(lowered, kernel=replace(lowered.kernel, table=table))
        reason = explain_width(layer, choice.form, context.platform.features)
        note = (
            f"Weights of 4 bits are stored in 8 bits, because {reason}. `compress` packs them."
            if reason
            else ""
        )
        return add_note(lowered, note)
    lowered = lower_region(region, module, context.rounding, context.strategies, packs=True)
    note = f"Plain loops: {'. '.join(choice.refusals)}." if choice.refusals else ""
    return add_note(lowered, note)


def add_note(lowered: LoweredRegion, note: str) -> LoweredRegion:
    if not note:
        return lowered
    notes = " ".join(filter(None, [lowered.kernel.note, note]))
    return replace(lowered, kernel=replace(lowered.kernel, note=notes))


def lower_by_form(
    region: Region,
    module: tvm.IRModule,
    layer: AnyLayer,
    form: Form,
    shared: bool = False,
    decodes: bool = False,
) -> LoweredRegion:
    lowered = write_layer(
        region, layer, form, shared, split_layer(layer, form) if decodes else None
    )
    operators = list_quantized_operators(region, module[region.name])
    kernel = replace(lowered.kernel, quantized_operators=len(operators))
    return replace(lowered, kernel=kernel)


def describe_kernel(region: Region, module: tvm.IRModule, context: Context) -> str:
    _, choice = select_kernel(region, module, context)
    if choice.form:
        return choice.form.name
    return f"loops: {'; '.join(choice.refusals)}" if choice.refusals else "loops"


def list_variants(region: Region, module: tvm.IRModule, context: Context) -> tuple[str, ...]:
    """Return the names of all variants of a region's C, beginning with the default."""
    layer, _ = find_form(region, module, context)
    return () if layer is None else name_variants(layer, context)


def select_kernel(
    region: Region, module: tvm.IRModule, context: Context
) -> tuple[AnyLayer | None, FormChoice]:
    """Return the layer of a region, and its tuned choice or the default choice."""
    layer, choice = find_form(region, module, context)
    return layer, choice if layer is None else choose_variant(region.name, layer, choice, context)


def find_form(
    region: Region, module: tvm.IRModule, context: Context, forms: Sequence[Form] = FORMS
) -> tuple[AnyLayer | None, FormChoice]:
    """Return the layer of a region, and the best form that fits the layer.

    The layer is None if the region is not a layer, or if the user has a strategy for the region.
    """
    function = module[region.name]
    layer = None if has_strategy(function, context) else recognize_layer(function, context.rounding)
    if layer is None and not has_strategy(function, context) and reads_signs(region, module):
        layer = read_binary_layer(function)
    if layer is None:
        return None, FormChoice(None, ())
    if isinstance(layer, Layer | ByteFunction) and read_specialize(context) != "speed":
        layer = replace(layer, repeats=region.repeats)
    return layer, choose(layer, context.platform.features, forms)


def reads_signs(region: Region, module: tvm.IRModule) -> bool:
    """Return whether another region computes the only input, which consists of -1 and 1.

    The result of a region with one result has the name of the region.
    """
    names = {variable.name_hint for variable in module.get_global_vars()}
    sources = [name.removesuffix("_result") for name in region.inputs]
    return len(sources) == 1 and sources[0] in names and returns_signs(module[sources[0]])


def has_strategy(function: relax.Function, context: Context) -> bool:
    """Return whether the user has a strategy for an operator of a region."""
    wanted = {strategy.operator for strategy in context.strategies}
    values = (b.value for b in list_bindings(function))
    return any(operator_name(value) in wanted for value in values)


@lru_cache(1)  # advice reads each region twice
def recognize_layer(function: relax.Function, rounding: str) -> AnyLayer | None:
    """Return the layer that a function computes, or None if no form supports such layers."""
    layer: AnyLayer | None = read_layer(function, rounding) or read_float_layer(function)
    if layer is None:
        shifted = read_shifted_layer(function)
        layer = None if shifted is None else choose_biases(shifted)
    if layer is None:
        layer = read_pair(function, rounding) or read_matrix_product(function, rounding)
    layer = layer or read_softmax(function, rounding) or read_sums(function)
    layer = layer or read_wrapped_sum(function) or read_byte_function(function, rounding)
    return layer or read_resize(function, rounding)


def write_layer(
    region: Region, layer: AnyLayer, form: Form, shared: bool, split: SplitLayer | None = None
) -> LoweredRegion:
    """Return the kernel and the packed weights that a form writes for a layer.

    If ``shared`` is true, layers of one variant call one function. ``split`` are the parts of a
    layer that is computed in parts.
    """
    computed, packing = (split.part, split.packing) if split else (layer, form.pack_layer(layer))
    arrays = split.arrays if split else packing.arrays
    inputs, output = make_ports(region, layer)
    weights = tuple(
        Parameter(n, array.dtype.name, array.size, f"{region.name}_{n}")
        for n, array in arrays.items()
    )
    scratch = tuple(
        Parameter(s.name, s.dtype, s.elements, f"{region.name}_{s.name}") for s in packing.scratch
    )
    function = write_function(
        form, computed, packing, (*inputs, *weights), (output, *scratch), shared
    )
    ports = (*inputs, *weights, output, *scratch)
    parts, more = None, tuple[SourceFile, ...]()
    if split:
        call = write_call(function, [split.name_argument(p) for p in ports])
        definition = function.define_record(packing.record)
        parts = split.make_parts([*filter(None, [definition]), call], output)
        more = split.files
        scratch = (*scratch, *split.make_scratch(region, output))
        body = parts.write_loop(weights)
    else:
        definition = function.define_record(packing.record)
        record = f"    {definition}\n\n" if definition else ""
        body = record + write_calls(function, layer, ports)
    kernel = Kernel(
        region=region.name,
        inputs=inputs,
        weights=weights,
        outputs=(output,),
        scratch=scratch,
        body=body,
        functions=(),
        quantized_operators=0,
        float_operators=(),
        headers=(*function.headers, *(f.name for f in more if f.name.endswith(".h"))),
        note=describe_form(form),
        files=(*function.files, *write_headers(form), *more),
        in_place=tuple(
            p.name for p in inputs if p.name in form.in_place and p.bytes == output.bytes
        ),
        stored=measure_weights(layer, arrays),
        parts=parts,
    )
    named = {f"{region.name}_{name}": array for name, array in arrays.items()}
    return LoweredRegion(kernel, named)


def measure_weights(layer: AnyLayer, arrays: Mapping[str, Array]) -> StoredWeights | None:
    """Return the size of a layer's weights, or None if the layer has no weights."""
    if not isinstance(layer, LinearLayer):
        return None
    return StoredWeights(layer.weights.size, arrays["weights"].nbytes)


def describe_form(form: Form) -> str:
    cost = f" About {form.cost:g} instructions per multiply-accumulate." if form.cost else ""
    return f"Form {form.name}: {form.sentence}{cost}"


def make_ports(region: Region, layer: AnyLayer) -> tuple[tuple[Parameter, ...], Parameter]:
    (result,) = region.outputs
    if isinstance(layer, Pair):
        inputs = tuple(
            Parameter(f"input_{i}", layer.input_dtypes[i], layer.input_elements[i], tensor)
            for i, tensor in enumerate(region.inputs)
        )
        return inputs, Parameter("output", layer.output_dtype, layer.elements, result)
    if isinstance(layer, MatrixProduct):
        inputs = tuple(
            Parameter(role, operand.dtype, operand.elements, tensor)
            for (role, operand), tensor in zip(layer.inputs, region.inputs, strict=True)
        )
        return inputs, Parameter("output", layer.output_dtype, layer.output_elements, result)
    if isinstance(layer, Softmax | ByteFunction):
        input_ = Parameter("input", layer.input_dtype, layer.elements, region.inputs[0])
        return (input_,), Parameter("output", layer.output_dtype, layer.elements, result)
    read, written = (layer.batch * n for n in (layer.input_elements, layer.output_elements))
    if isinstance(layer, FloatLayer):
        sizes = {"input": read, "added": written}
        inputs = tuple(
            Parameter(role, "float32", sizes[role], tensor)
            for role, tensor in zip(layer.roles, region.inputs, strict=True)
        )
        return inputs, Parameter("output", "float32", written, result)
    input_ = Parameter("input", layer.input_dtype, read, region.inputs[0])
    return (input_,), Parameter("output", layer.output_dtype, written, result)


def write_calls(function: LayerFunction, layer: AnyLayer, parameters: Sequence[Parameter]) -> str:
    """Return the lines with the call of a region's function for each sample of the batch."""
    names = [p.name for p in parameters]
    if isinstance(layer, Pair | MatrixProduct | Softmax | ByteFunction) or layer.batch == 1:
        return f"    {write_call(function, names)}"
    written = layer.output_elements
    offsets = {"input": layer.input_elements, "added": written, "output": written}
    moved = [f"{n} + n * {offsets[n]}" if n in offsets else n for n in names]
    call = write_call(function, moved)
    return f"    for (int32_t n = 0; n < {layer.batch}; ++n) {{\n        {call}\n    }}"


def write_call(function: LayerFunction, arguments: Sequence[str]) -> str:
    record = ["&layer"] if function.struct else []
    return f"{function.name}({', '.join([*record, *arguments])});"
