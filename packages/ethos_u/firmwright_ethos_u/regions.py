"""Compiles a region of quantized layers with Vela to a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from firmwright.device import (
    Context,
    Cycles,
    Kernel,
    LoweredRegion,
    Parameter,
    Region,
    UserError,
    constant_array,
    main_bindings,
    short_name,
)
from firmwright_ethos_u.compiled_file import read_compiled
from firmwright_ethos_u.compiled_model import CALL
from firmwright_ethos_u.compiler import CompiledNetwork, Port, compile_network
from firmwright_ethos_u.hardware import DEFAULT_ACCELERATOR, DEFAULT_MEMORY_MODE
from firmwright_ethos_u.layers import Layer, find_layers
from firmwright_ethos_u.operators import write_network
from firmwright_ethos_u.stream import read_payload


def lower_region(region: Region, module: tvm.IRModule, context: Context) -> LoweredRegion:
    """Return a kernel that copies its inputs, runs the command stream, and copies its outputs."""
    function = tvm.IRModule({"main": module[region.name].without_attr("global_symbol")})
    layers = find_layers(function)
    compiled = (
        compile_function(function, layers, context) if layers else read_call(function, context)
    )
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
        quantized_operators=sum(layer.arithmetic for layer in layers),
        float_operators=(),
        headers=("fw_ethos_u.h",),
        cycles=Cycles(compute=int(compiled.estimated_cycles or 0), transfer=0, stall=0),
        cycles_source="the vendor's estimate (Vela)",
        note=f"Vela's command stream for {read_payload(compiled.payload)[0].name}",
    )
    return LoweredRegion(kernel, arrays)


def compile_function(
    function: tvm.IRModule, layers: Sequence[Layer], context: Context
) -> CompiledNetwork:
    """Compile the layers of a region.

    The inputs and outputs of `function` are the ports of the network.
    """
    main = function["main"]
    names = {b.var: b.value for b in main_bindings(function) if isinstance(b.value, relax.Var)}
    outputs = [names.get(variable, variable) for variable in main.body.body.fields]
    return compile_layers(layers, main.params, outputs, context)


def compile_layers(
    layers: Sequence[Layer], inputs: Sequence[Any], outputs: Sequence[Any], context: Context
) -> CompiledNetwork:
    """Compile layers between variables. Raises VelaError if Vela rejects the layers."""
    return compile_network(write_network(layers, inputs, outputs), *read_options(context))


def read_options(context: Context) -> tuple[str, str]:
    """Return the accelerator and the memory mode."""
    options = context.options
    accelerator = options.get("accelerator", DEFAULT_ACCELERATOR)
    return accelerator, options.get("memory", DEFAULT_MEMORY_MODE)


def make_parameters(
    role: str, ports: Sequence[Port], tensors: Sequence[str]
) -> tuple[Parameter, ...]:
    """Return the parameters of a kernel for its inputs or outputs."""
    return tuple(
        Parameter(f"{role}_{i}", port.dtype, port.size // port.element_size, tensor)
        for i, (port, tensor) in enumerate(zip(ports, tensors, strict=True))
    )


def read_call(function: tvm.IRModule, context: Context) -> CompiledNetwork:
    """Return the network of a call of a compiled file.

    Raises UserError if the target names another accelerator than the file.
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
