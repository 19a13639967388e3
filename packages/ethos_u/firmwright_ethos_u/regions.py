"""Compiles a run of quantized convolutions with Vela to a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import tvm

from firmwright.device import (
    Constant,
    Context,
    Cycles,
    Kernel,
    LoweredRegion,
    Parameter,
    Region,
    StoredTensor,
    constant_array,
    static_shape,
)
from firmwright_ethos_u.compiler import CompiledNetwork, compile_network
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.hardware import DEFAULT_ACCELERATOR, DEFAULT_MEMORY_MODE
from firmwright_ethos_u.layers import Layer, find_layers


def lower_region(region: Region, module: tvm.IRModule, context: Context) -> LoweredRegion:
    """Return a kernel that copies its input, runs the command stream, and copies its output."""
    function = module[region.name].without_attr("global_symbol")
    layers = [*find_layers(tvm.IRModule({"main": function}))]
    compiled = compile_layers(layers, context)
    (source,), (target,) = compiled.inputs, compiled.outputs
    arrays = {
        f"{region.name}_{name}": np.frombuffer(data, np.uint8)
        for name, data in (("commands", compiled.payload), ("constants", compiled.constants))
    }
    kernel = Kernel(
        region=region.name,
        inputs=(Parameter("input", "int8", source.size, region.inputs[0]),),
        weights=tuple(
            Parameter(name, "uint8", array.size, key, alignment=16)
            for name, (key, array) in zip(("commands", "constants"), arrays.items(), strict=True)
        ),
        outputs=(Parameter("output", "int8", target.size, region.outputs[0]),),
        scratch=tuple(
            Parameter(f"scratch_{number}", "uint8", size, f"{region.name}_scratch_{number}")
            for number, size in compiled.scratch.items()
        ),
        body=write_body(compiled),
        functions=("memcpy",),
        quantized_operators=sum(len(layer.chain.steps) for layer in layers),
        float_operators=(),
        headers=("fw_ethos_u.h",),
        cycles=Cycles(compute=int(compiled.estimated_cycles or 0), transfer=0, stall=0),
        note=f"Vela's command stream for {', '.join(read_options(context))}",
    )
    return LoweredRegion(kernel, arrays)


def compile_layers(layers: Sequence[Layer], context: Context) -> CompiledNetwork:
    """Compile a run of convolutions; raise VelaError if Vela rejects it."""
    return compile_network(write_network(layers), *read_options(context))


def read_options(context: Context) -> tuple[str, str]:
    """Return the accelerator and the memory mode."""
    options = context.options
    accelerator = options.get("accelerator", DEFAULT_ACCELERATOR)
    return accelerator, options.get("memory", DEFAULT_MEMORY_MODE)


def write_body(compiled: CompiledNetwork) -> str:
    """Return the C statements of a kernel."""
    (source,), (target,) = compiled.inputs, compiled.outputs
    bases = {compiled.constants_region: ("(uint8_t *)constants", len(compiled.constants))}
    bases |= {number: (f"scratch_{number}", size) for number, size in compiled.scratch.items()}
    numbers = range(max(bases) + 1)
    pointers = ", ".join(bases.get(number, ("0", 0))[0] for number in numbers)
    sizes = ", ".join(f"{bases.get(number, ('0', 0))[1]}u" for number in numbers)
    return f"""\
    uint8_t *const bases[] = {{{pointers}}};
    static const uint32_t sizes[] = {{{sizes}}};
    memcpy(scratch_{source.region} + {source.address}u, input, {source.size}u);
    fw_ethos_u_run(commands, {len(compiled.payload)}u, bases, sizes, {len(numbers)}u);
    memcpy(output, scratch_{target.region} + {target.address}u, {target.size}u);"""


def write_network(layers: Sequence[Layer]) -> bytes:
    """Return a run of convolutions as a TFLite file."""
    writer = NetworkWriter()
    first = add_tensor(writer, layers[0].operands[0])
    current = first
    for layer in layers:
        current = write_convolution(writer, layer, current)
    return writer.build([first], [current])


def add_tensor(writer: NetworkWriter, stored: StoredTensor) -> int:
    """Add a tensor with one scale."""
    shape = static_shape(stored.value)
    scale, zero = float(stored.scale.item()), int(stored.zero_point.item())
    return writer.tensor(shape, stored.dtype, [scale], zero)


def write_convolution(writer: NetworkWriter, layer: Layer, current: int) -> int:
    """Add a convolution; return its output."""
    source, weights, bias = layer.operands
    attrs = layer.attributes
    assert isinstance(weights.value, Constant)
    values = constant_array(weights.value)
    depthwise = attrs.groups != 1
    outputs = static_shape(layer.chain.result.value)[3]
    # The layouts are HWIO, and HWOI with one input for a depthwise convolution.
    values = (
        values.reshape(1, *values.shape[:2], outputs) if depthwise else values.transpose(3, 0, 1, 2)
    )
    scales = np.broadcast_to(weights.scale.ravel(), outputs).tolist()
    kernel = writer.constant(np.ascontiguousarray(values), scales, 3 if depthwise else 0)
    sums = np.zeros(outputs, np.int32)
    if bias is not None:
        assert isinstance(bias.value, Constant)
        sums = np.broadcast_to(constant_array(bias.value).ravel(), outputs).copy()
    biases = writer.constant(sums, [float(source.scale.item()) * scale for scale in scales])
    target = add_tensor(writer, layer.chain.result)
    options: dict[str, int] = {
        "padding": layer.padding,
        "fusedActivationFunction": layer.activation,
        "strideH": int(attrs.strides[0]),
        "strideW": int(attrs.strides[1]),
        "dilationHFactor": int(attrs.dilation[0]),
        "dilationWFactor": int(attrs.dilation[1]),
    }
    name, table = "CONV_2D", "Conv2DOptions"
    if depthwise:
        name, table = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        options["depthMultiplier"] = outputs // prod(static_shape(source.value)[3:])
    writer.operator(name, [current, kernel, biases], [target], table, **options)
    return target
