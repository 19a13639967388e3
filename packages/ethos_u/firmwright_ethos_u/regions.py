"""Compiles a run of quantized convolutions with Vela to a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

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
    UserError,
    constant_array,
    main_bindings,
    short_name,
    static_shape,
)
from firmwright_ethos_u.compiled_file import read_compiled
from firmwright_ethos_u.compiled_model import CALL
from firmwright_ethos_u.compiler import CompiledNetwork, Port, compile_network
from firmwright_ethos_u.flatbuffer import NetworkWriter
from firmwright_ethos_u.hardware import DEFAULT_ACCELERATOR, DEFAULT_MEMORY_MODE
from firmwright_ethos_u.layers import Layer, find_layers
from firmwright_ethos_u.stream import read_payload


def lower_region(region: Region, module: tvm.IRModule, context: Context) -> LoweredRegion:
    """Return a kernel that copies its inputs, runs the command stream, and copies its outputs."""
    function = tvm.IRModule({"main": module[region.name].without_attr("global_symbol")})
    layers = [*find_layers(function)]
    compiled = compile_layers(layers, context) if layers else read_call(function, context)
    arrays = {
        f"{region.name}_{name}": np.frombuffer(data, np.uint8)
        for name, data in (("commands", compiled.payload), ("constants", compiled.constants))
        if data  # a network of sums has no constants
    }
    kernel = Kernel(
        region=region.name,
        inputs=make_parameters("input", compiled.inputs, region.inputs),
        weights=tuple(
            Parameter(key.removeprefix(f"{region.name}_"), "uint8", array.size, key, alignment=16)
            for key, array in arrays.items()
        ),
        outputs=make_parameters("output", compiled.outputs, region.outputs),
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
        note=f"Vela's command stream for {read_payload(compiled.payload)[0].name}",
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


def make_parameters(
    role: str, ports: Sequence[Port], tensors: Sequence[str]
) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel for the inputs or the outputs."""
    return tuple(
        Parameter(f"{role}_{i}", port.dtype, port.size // port.element_size, tensor)
        for i, (port, tensor) in enumerate(zip(ports, tensors, strict=True))
    )


def read_call(function: tvm.IRModule, context: Context) -> CompiledNetwork:
    """Return the network of a call of a compiled file.

    Raises UserError if Vela compiled it for another accelerator than the target names.
    """
    (call,) = find_calls(function)
    compiled = read_compiled(constant_array(call.value.args[-1]).tobytes())
    accelerator = read_payload(compiled.payload)[0].name
    wanted = context.options.get("accelerator", accelerator)
    if wanted != accelerator:
        raise UserError(
            f"ethos_u: Vela compiled the model for {accelerator}, and the target has "
            f"-accelerator={wanted}; compile the model again, or change the target"
        )
    return compiled


def find_calls(module: tvm.IRModule) -> list[Any]:
    """Return the bindings of calls of compiled files."""
    calls = (b for b in main_bindings(module) if short_name(b.value) == "call_pure_packed")
    return [b for b in calls if b.value.args[0].global_symbol == CALL]


def write_body(compiled: CompiledNetwork) -> str:
    """Return the C statements of a kernel."""
    constants = "(uint8_t *)constants" if compiled.constants else "0"
    bases = {compiled.constants_region: (constants, len(compiled.constants))}
    bases |= {number: (f"scratch_{number}", size) for number, size in compiled.scratch.items()}
    numbers = range(max(bases) + 1)
    pointers = ", ".join(bases.get(number, ("0", 0))[0] for number in numbers)
    sizes = ", ".join(f"{bases.get(number, ('0', 0))[1]}u" for number in numbers)
    copies_in, copies_out = (
        [(f"scratch_{p.region} + {p.address}u", f"{role}_{i}", p.size) for i, p in enumerate(ports)]
        for role, ports in (("input", compiled.inputs), ("output", compiled.outputs))
    )
    lines = [
        f"uint8_t *const bases[] = {{{pointers}}};",
        f"static const uint32_t sizes[] = {{{sizes}}};",
        *(f"memcpy({place}, {name}, {size}u);" for place, name, size in copies_in),
        f"fw_ethos_u_run(commands, {len(compiled.payload)}u, bases, sizes, {len(numbers)}u);",
        *(f"memcpy({name}, {place}, {size}u);" for place, name, size in copies_out),
    ]
    return "\n".join(f"    {line}" for line in lines)


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
