"""Lowers a CPU region to one C function: integer arithmetic, TIR, loops and C code."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, tirx
from tvm.s_tir import SBlock
from tvm_ffi import structural_map

from firmwright.codegen.c_library import find_unknown_functions
from firmwright.codegen.c_source import CFunction, print_c
from firmwright.codegen.operator_functions import find_template, write_operator_files
from firmwright.errors import UserError, first_line
from firmwright.ir.kernels import Kernel, LoweredRegion, Parameter, StoredWeights
from firmwright.ir.library_call import unwrap_library_calls
from firmwright.ir.operators import count_packed_weights, short_name
from firmwright.ir.regions import Region
from firmwright.ir.relax import (
    Constant,
    constant_array,
    dtype_of,
    list_bindings,
    operator_name,
    static_shape,
)
from firmwright.lowering.float_bit_patterns import store_bit_patterns, to_bit_patterns
from firmwright.lowering.float_use import ArithmeticUse
from firmwright.lowering.in_place import find_in_place
from firmwright.lowering.integer_arithmetic import use_integer_arithmetic
from firmwright.lowering.kernels.extremes import argmax, argmin
from firmwright.lowering.kernels.normalization import instance_norm
from firmwright.lowering.kernels.rounding import Rounding
from firmwright.lowering.kernels.scatter import index_put, scatter_elements, scatter_nd
from firmwright.lowering.kernels.selection import argsort, sort, topk
from firmwright.lowering.loop_structure import ScheduledRegion, schedule_region
from firmwright.lowering.onnx_rounding import OnnxRounding
from firmwright.lowering.packed_constants import Packed, list_shared, pack_constants, read_packed
from firmwright.lowering.strategies import Legalization, Scheduler, Strategy
from firmwright.lowering.tflite_rounding import TfliteRounding
from firmwright.lowering.wrapped_integers import replace_sign_casts

DEFAULT_CONSTANT_NAMES = {
    ("int8", True): "weights",
    ("uint8", True): "weights",
    ("float32", True): "weights",
    ("int32", False): "bias",
    ("float32", False): "scales",
}
"""The C name of an unnamed constant.

A key is the dtype, and True if the constant has several long axes.
"""

BUILTIN_STRATEGIES = (
    Strategy("relax.topk", topk),
    Strategy("relax.sort", sort),
    Strategy("relax.argsort", argsort),
    Strategy("relax.argmax", argmax),
    Strategy("relax.argmin", argmin),
    Strategy("relax.nn.instance_norm", instance_norm),
    Strategy("relax.scatter_elements", scatter_elements),
    Strategy("relax.scatter_nd", scatter_nd),
    Strategy("relax.index_put", index_put),
)
"""Strategies for operators whose lowering in TVM needs TVM's runtime or is not exact enough."""

ConstantKey = tuple[str, tuple[int, ...], bytes]

NamedArray = tuple[str, npt.NDArray[Any]]

ROUNDINGS: dict[str, Rounding] = {"onnx": OnnxRounding(), "tflite": TfliteRounding()}


def lower_region(
    region: Region,
    module: tvm.IRModule,
    rounding: str,
    strategies: Sequence[Strategy] = (),
    scheduler: Scheduler = schedule_region,
    finish: Scheduler = ScheduledRegion,
    packs: bool = False,
) -> LoweredRegion:
    """Return the C function of a region and the arrays of its constants.

    ``rounding`` is a key of :data:`ROUNDINGS`. ``strategies`` are the user's strategies, then the
    device's strategies. ``scheduler`` makes the region's loops if no selected strategy has a
    schedule. Otherwise ``finish`` adapts the strategy's loops to the device. If ``packs`` is true,
    constants of 1, 2 or 4 bits are packed, except constants that C functions read. Raises
    UserError, which names the operators, if TVM cannot lower an operator.
    """
    try:
        module, use = use_integer_arithmetic(region, module, ROUNDINGS[rounding])
        legalization = Legalization((*strategies, *BUILTIN_STRATEGIES))
        module = legalization.apply(module)
        refuse_unlowered(module[region.name])
        module, constants = lift_constants(module, region.name)
        function = unwrap_library_calls(fuse(module, region.name))
        function = replace_sign_casts(start_at_infinity(function))
        scheduled = legalization.choose_scheduler(scheduler, finish)(store_bit_patterns(function))
        shared = list_shared(scheduled.function) if packs else []
        unshared = [c for i, c in enumerate(constants, len(region.inputs)) if i not in shared]
        packed = pack_constants(unshared) if packs else {}
        kernel = build_kernel(region, module[region.name], constants, packed, scheduled, use)
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:  # and TVM's errors
        operators = ", ".join(region.operators)
        sources = "', '".join(region.sources)
        raise UserError(f"{operators} ('{sources}'): {first_line(error)}") from error
    arrays = {
        f"{region.name}_{name}": packed[name].data if name in packed else to_bit_patterns(array)
        for name, array in constants
    }
    return LoweredRegion(kernel, arrays)


def build_kernel(
    region: Region,
    function: relax.Function,
    constants: Sequence[NamedArray],
    packed: Mapping[str, Packed],
    scheduled: ScheduledRegion,
    use: ArithmeticUse,
) -> Kernel:
    """Return the C code of a region.

    The parameters of the Relax ``function`` are the inputs and then the ``constants``. ``packed``
    maps names to packed constants. Raises ValueError if the C code calls a function that firmware
    does not have.
    """
    name = region.name
    returned = [relax.Var("result", kind) for kind in function.ret_ty.fields]
    inputs = make_parameters("input", region.inputs, function.params[: len(region.inputs)])
    outputs = make_parameters("output", region.outputs, returned)
    stored = [(n, packed[n].data if n in packed else a) for n, a in constants]
    weights = tuple(Parameter(n, str(a.dtype), int(a.size), f"{name}_{n}") for n, a in stored)
    names = [p.name for p in (*inputs, *weights, *outputs)]
    names += [p.name for p in scheduled.pointers]
    read = {len(inputs) + i: packed[n] for i, (n, _) in enumerate(constants) if n in packed}
    result = print_c(scheduled.function, names, lambda plain: read_packed(plain, read))
    files = write_operator_files(result.functions)
    return Kernel(
        region=name,
        inputs=inputs,
        weights=weights,
        outputs=outputs,
        scratch=tuple(
            Parameter(n, dtype, size, f"{name}_{n}") for n, dtype, size in result.scratch
        ),
        body=mark_unused((*inputs, *weights), result) + declare_pointers(scheduled) + result.body,
        functions=find_called_functions(result, scheduled),
        quantized_operators=use.quantized_operators,
        float_operators=use.float_operators,
        headers=(*scheduled.headers, *(f.name for f in files if f.name.endswith(".h"))),
        cycles=scheduled.cycles,
        note=scheduled.note,
        files=files,
        library_functions=result.library_functions,
        in_place=find_in_place(scheduled.function, inputs, outputs, len(weights)),
        stored=measure_weights(function, constants, stored),
    )


def measure_weights(
    function: relax.Function, constants: Sequence[NamedArray], stored: Sequence[NamedArray]
) -> StoredWeights | None:
    """Return the size of a region's weights, or None if the region has no weights."""
    packed = map(count_packed_weights, (b.value for b in list_bindings(function)))
    is_weight = [name.startswith("weights") for name, _ in constants]
    count = sum(packed) or sum(int(a.size) for _, a in itertools.compress(constants, is_weight))
    size = sum(int(a.nbytes) for _, a in itertools.compress(stored, is_weight))
    return StoredWeights(count, size) if count else None


def make_parameters(
    stem: str, tensors: Sequence[str], variables: Sequence[relax.Var]
) -> tuple[Parameter, ...]:
    """Return one parameter per tensor, which has the type and size of the variable.

    The names are ``<stem>`` for one tensor, and ``<stem>_0``, ``<stem>_1`` … for several tensors.
    """
    return tuple(
        Parameter(name, dtype_of(variable), prod(static_shape(variable)), tensor)
        for name, variable, tensor in zip(
            number_names(stem, len(tensors)), variables, tensors, strict=True
        )
    )


def find_called_functions(result: CFunction, scheduled: ScheduledRegion) -> tuple[str, ...]:
    """Return the functions that the C code calls, except the functions of the schedule.

    Raises ValueError if neither the C library nor the project contains a function.
    """
    functions = tuple(f for f in result.functions if f not in scheduled.functions)
    unknown = find_unknown_functions(f for f in functions if find_template(f) is None)
    if unknown:
        raise ValueError(f"its schedule calls '{unknown[0]}', which the C library does not have")
    return functions


def declare_pointers(scheduled: ScheduledRegion) -> str:
    return "".join(f"    {pointer.declaration}\n" for pointer in scheduled.pointers)


def refuse_unlowered(function: relax.Function) -> None:
    for binding in list_bindings(function):
        if operator_name(binding.value) not in ("", "relax.call_tir"):
            raise ValueError(explain_missing_loops(short_name(binding.value)))


def explain_missing_loops(operator: str) -> str:
    """Return the reason why an operator has no loops.

    Either only a device runs the operator, or TVM does not support the operator.
    """
    if operator == "call_pure_packed":
        return "a vendor's compiler has compiled it; add the vendor's device to `target`"
    return f"TVM has no loops for {operator}"


def start_at_infinity(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Start float maxima and minima at infinity instead of TVM's largest finite number."""

    def infinite(number: tirx.FloatImm) -> tirx.FloatImm:
        dtype = str(number.ty.dtype)
        largest = float(np.finfo(dtype).max) if dtype in ("float32", "float64") else math.inf
        exceeds = abs(number.value) == largest
        return tirx.FloatImm(dtype, math.copysign(math.inf, number.value)) if exceeds else number

    def start(block: SBlock) -> SBlock:
        if block.init is None:
            return block
        return SBlock(
            block.iter_vars, block.reads, block.writes, block.name_hint, block.body,
            structural_map(block.init, (tirx.FloatImm, infinite)), block.alloc_buffers,
            block.match_buffers, block.annotations, block.span,
        )  # fmt: skip

    return function.with_body(structural_map(function.body, (SBlock, start)))


def mark_unused(read: Sequence[Parameter], result: CFunction) -> str:
    """Return C code that marks parameters as unused, for regions with a constant result."""
    return "".join(f"    (void){p.name};\n" for p in read if p.name in result.unused)


def number_names(stem: str, count: int) -> list[str]:
    return [stem] if count == 1 else [f"{stem}_{i}" for i in range(count)]


def lift_constants(module: tvm.IRModule, name: str) -> tuple[tvm.IRModule, list[NamedArray]]:
    """Turn constant arrays into parameters after the inputs.

    Equal arrays share a parameter. A constant that is bound to a variable has the name of the
    variable.
    """
    names = {
        constant_key(binding.value): str(binding.var.name)
        for binding in list_bindings(module[name])
        if isinstance(binding.value, Constant)
    }
    lifted_constants: dict[ConstantKey, tuple[relax.Var, npt.NDArray[Any]]] = {}
    taken: Counter[str] = Counter()

    def lift(constant: Constant) -> relax.Expr:
        array = constant_array(constant)
        key = constant_key(constant)
        if key not in lifted_constants:
            kind = (str(array.dtype), sum(d > 1 for d in array.shape) > 1)
            role = names.get(key) or DEFAULT_CONSTANT_NAMES.get(kind, "values")
            taken[role] += 1
            unique = role if taken[role] == 1 else f"{role}_{taken[role] - 1}"
            lifted_constants[key] = (relax.Var(unique, constant.ty), array)
        return lifted_constants[key][0]

    function = structural_map(module[name], (Constant, lift))
    parameters = [*function.params, *(v for v, _ in lifted_constants.values())]
    lifted = relax.Function(parameters, function.body, function.ret_ty)
    functions = {g: f for g, f in module.functions.items() if g.name_hint != name}
    # Create a variable, because the type of the old variable has the old parameters.
    builder = relax.BlockBuilder(tvm.IRModule(functions))
    builder.add_func(lifted, name)
    lifted_module = relax.transform.CanonicalizeBindings()(builder.get())
    return lifted_module, [
        (str(variable.name), array) for variable, array in lifted_constants.values()
    ]


def constant_key(constant: Constant) -> ConstantKey:
    array = constant_array(constant)
    return (str(array.dtype), array.shape, array.tobytes())


def fuse(module: tvm.IRModule, name: str) -> tirx.PrimFunc:
    """Fuse the region's TIR functions into one function.

    A temporary function ``main`` calls the region.
    """
    region = module.get_global_var(name)
    module.update_func(region, module[name].with_attr("Primitive", 1))
    builder = relax.BlockBuilder(module)
    parameters = [relax.Var(p.name, p.ty) for p in module[region].params]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(tvm.ir.Call(region, parameters))
        builder.emit_func_output(result)
    fused = relax.transform.FuseTIR()(builder.get())
    functions = [f for f in fused.functions.values() if isinstance(f, tirx.PrimFunc)]
    (function,) = functions
    return function
