"""Replaces layers of whole numbers in float tensors by layers of integers if ranges prove it.

The sums are equal in float32 and int32 if all numbers are whole and the sums stay below 2^24. The
following elementwise operators, up to a tensor of 8-bit whole numbers, are a step function of the
sum. A multiplication, an addition and a shift replace these operators if the steps are equal for
every possible sum (:mod:`firmwright.transforms.integers.fitting`). All ranges are proven, not
assumed. A float input has no range until the model clips and rounds the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relax, tirx

from firmwright.ir.operators import read_clip_bounds
from firmwright.ir.relax import (
    dtype_of,
    emit_with_name,
    main_bindings,
    operator_name,
    read_all_variables,
    read_variables,
    replace_main,
    replace_variables,
    static_shape,
)
from firmwright.transforms.integers.elementwise_functions import (
    Array,
    ElementwiseFunction,
    is_float,
    read_constant,
    read_function,
)
from firmwright.transforms.integers.fitting import Affine, fit_affine
from firmwright.transforms.integers.ranges import (
    EXACT,
    MOVING,
    SUMS,
    Range,
    find_ranges,
    function_range,
)
from firmwright.transforms.integers.split_sums import split_sum
from firmwright.transforms.integers.stored_clips import clip_to_numbers

STORED = ("int8", "uint8")
"""The types in which layers store their results, the preferred type first."""

INT32_LIMIT = 2**31


def use_integers(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with integer operators if equal results are proven.

    The module is returned unchanged if no sum of floats can be replaced.
    """
    bindings = main_bindings(module)
    if not any(operator_name(b.value) in SUMS and is_float(b.value) for b in bindings):
        return module
    ranges = find_ranges(list(module["main"].params), bindings)
    if not any(is_exact_sum(b, ranges) for b in bindings):
        return module
    return IntegerNetwork(module, bindings, ranges).run()


def is_exact_sum(binding: relax.VarBinding, ranges: dict[relax.Var, Range]) -> bool:
    """Return whether a sum of products of floats equals a sum of 8-bit integers."""
    call = binding.value
    if operator_name(call) not in SUMS or not is_float(call) or not ranges[binding.var].is_whole:
        return False
    return choose_type(ranges[call.args[0]]) is not None


def choose_type(interval: Range | None) -> str | None:
    """Return the 8-bit type that can store a tensor's whole numbers, or None if no type can."""
    if interval is None or not interval.is_whole:
        return None
    return next((dtype for dtype in STORED if interval.lies_within(dtype)), None)


class IntegerNetwork:
    """Rebuilds ``main``; use :func:`use_integers`.

    ``plain`` maps each old variable to a new variable of the old type. ``stored`` contains the
    variables that store whole numbers as 8-bit integers. ``sums`` contains the int32 sums of
    layers. ``joined`` contains the terms of sums of more than 8 bits, joined along an axis.
    """

    def __init__(
        self,
        module: tvm.IRModule,
        bindings: Sequence[relax.VarBinding],
        ranges: dict[relax.Var, Range],
    ) -> None:
        self.module, self.bindings, self.ranges = module, bindings, ranges
        self.values = {b.var: b.value for b in bindings}
        main = module["main"]
        self.readers = Counter([*read_all_variables(bindings), *read_variables(main.body.body)])
        self.last_reader = {v: b for b in bindings for v in read_variables(b.value)}
        called = {v: f for v, f in module.functions.items() if isinstance(f, tirx.PrimFunc)}
        self.builder = relax.BlockBuilder(tvm.IRModule(called))
        self.plain: dict[relax.Var, relax.Expr] = {p: p for p in main.params}
        self.stored: dict[relax.Var, relax.Expr] = {}
        self.sums: dict[relax.Var, relax.Expr] = {}
        self.joined: dict[tuple[relax.Var, int], relax.Expr] = {}

    def run(self) -> tvm.IRModule:
        main = self.module["main"]
        with self.builder.function("main", list(main.params)):
            with self.builder.dataflow():
                for binding in self.bindings:
                    self.translate(binding)
                result = self.builder.emit_output(self.read(main.body.body))
            self.builder.emit_func_output(result)
        rebuilt = self.builder.get()["main"].with_attrs(main.attrs)
        return replace_main(self.module, rebuilt)

    def translate(self, binding: relax.VarBinding) -> None:
        """Emit the value of a variable, as integers if equality is proven."""
        variable, value = binding.var, binding.value
        name = str(variable.name)
        if variable in self.ranges and is_float(variable):
            sums = None
            if self.ranges[variable].is_whole:  # the conversion makes the sum exact
                sums = self.sum_products(value)
                sums = self.add_tensors(value) if sums is None else sums
            if sums is not None:
                self.sums[variable] = emit_with_name(self.builder, sums, name)
                self.plain[variable] = self.cast(self.sums[variable], dtype_of(variable))
                return
            stored = self.move(value)
            stored = self.requantize(variable) if stored is None else stored
            if stored is not None:
                self.stored[variable] = emit_with_name(self.builder, stored, name)
                self.plain[variable] = self.cast(self.stored[variable], dtype_of(variable))
                return
        self.plain[variable] = emit_with_name(self.builder, self.read(value), name)

    def read(self, value: relax.Expr) -> relax.Expr:
        """Return a value that reads the new variables, without a change of types."""
        return replace_variables(value, lambda variable: self.plain.get(variable, variable))

    def cast(self, tensor: relax.Expr, dtype: str) -> relax.Expr:
        if dtype_of(tensor) == dtype:
            return tensor
        return self.builder.emit(relax.op.astype(tensor, dtype))

    def read_stored(self, variable: relax.Expr) -> relax.Expr | None:
        """Return 8-bit whole numbers in an 8-bit type, or None for other numbers."""
        if not isinstance(variable, relax.Var):
            return None
        if variable not in self.stored:
            dtype = choose_type(self.ranges.get(variable))
            if dtype is None:
                return None
            data = self.plain[variable]
            if is_float(data):  # the clip before the cast defines the cast of NaN
                data = clip_to_numbers(self.builder, data, numbers_of(dtype))
            self.stored[variable] = self.cast(data, dtype)
        return self.stored[variable]

    def sum_products(self, call: relax.Expr) -> relax.Expr | None:
        """Return a convolution or product of whole numbers in int32, or None."""
        if operator_name(call) not in SUMS:
            return None
        weights = read_constant(call.args[1], self.values)
        data = self.read_stored(call.args[0])
        if data is None and weights is not None:
            data, weights = self.read_terms(call, weights)
        if data is None or weights is None or np.abs(weights + 0.5).max() > 128:
            return None
        integers = relax.const(weights.astype("int8"), "int8")
        if operator_name(call) == "relax.matmul":
            return relax.op.matmul(data, integers, out_dtype="int32")
        names = "strides padding dilation groups data_layout kernel_layout out_layout".split()
        convolve = getattr(relax.op.nn, operator_name(call).rpartition(".")[2])
        stated = {name: getattr(call.attrs, name) for name in names}
        return convolve(data, integers, **stated, out_dtype="int32")

    def read_terms(
        self, call: tvm.ir.Call, weights: Array
    ) -> tuple[relax.Expr | None, Array | None]:
        """Return the joined terms of a sum that a layer reads, and the weights per term."""
        axes = find_input_axes(call)
        terms = axes and split_sum(call.args[0], self.values, self.ranges, self.is_term)
        if not axes or not terms:
            return None, None
        kinds = (d for d in STORED if all(self.ranges[t].lies_within(d) for t in terms))
        dtype = next(kinds, None)
        stored = [self.read_stored(term) for term in terms]
        if dtype is None or any(s is None for s in stored):
            return None, None
        key = call.args[0], axes[0]
        if key not in self.joined:
            joined = relax.op.concat([self.cast(s, dtype) for s in stored], axes[0])
            self.joined[key] = self.builder.emit(joined)
        columns = [weights * factor for factor in terms.values()]
        return self.joined[key], np.concatenate(columns, axes[1])

    def is_term(self, variable: relax.Var) -> bool:
        return choose_type(self.ranges.get(variable)) is not None

    def add_tensors(self, call: relax.Expr) -> relax.Expr | None:
        """Return the sum of two tensors of whole numbers in int32, or None for other operators."""
        if operator_name(call) != "relax.add" or read_function(call, self.values) is not None:
            return None
        terms = [self.read_whole(a) for a in call.args]
        if terms[0] is None or terms[1] is None:
            return None
        return relax.op.add(*terms)

    def read_whole(self, expression: relax.Expr) -> relax.Expr | None:
        """Return stored 8-bit integers in int32, with the factors and offsets of the chain."""
        chain = self.find_chain(expression) if isinstance(expression, relax.Var) else None
        if chain is None:
            stored = self.read_stored(expression)
            return None if stored is None else self.cast(stored, "int32")
        start, functions, _ = chain
        if start not in self.stored or not all(function.is_affine for function in functions):
            return None
        source = self.ranges[start]
        if self.ranges[expression].magnitude >= EXACT or not source.is_whole:
            return None
        offset = compute_chain(functions, np.zeros_like(source.low))
        multiplier = compute_chain(functions, np.ones_like(source.low)) - offset
        return self.apply(self.stored[start], Affine(to_int(multiplier), to_int(offset), 0), source)

    def find_chain(
        self, variable: relax.Var
    ) -> tuple[relax.Var, list[ElementwiseFunction], relax.Var] | None:
        """Return the nearest integers from which a variable is computed, and the functions between.

        The third item is the result of the first function, or the variable itself if there are no
        functions. None if a value is not a function, may overflow, or has a constant that
        broadcasts the tensor.
        """
        functions: list[ElementwiseFunction] = []
        first, shape = variable, static_shape(variable)
        while variable not in self.sums and variable not in self.stored:
            value = self.values.get(variable)
            function = read_function(value, self.values)
            source = None if function is None else self.ranges.get(function.source)
            if (
                function is None
                or source is None
                or function_range(function, source, value) is None
            ):
                return None  # the value may overflow, or is not a function
            functions.insert(0, function)
            variable, first = function.source, variable
        if static_shape(variable) != shape:
            return None
        return variable, functions, first

    def move(self, call: relax.Expr) -> relax.Expr | None:
        """Apply an operator that only moves numbers to the 8-bit integers."""
        name = operator_name(call)
        if name == "relax.concat":
            return self.concatenate(call)
        pads = name == "relax.nn.pad"
        if (name not in MOVING and not pads) or call.args[0] not in self.stored:
            return None
        data = self.stored[call.args[0]]
        if pads:
            number = np.array(float(call.attrs.pad_value))
            if str(call.attrs.pad_mode) != "constant" or number not in numbers_of(dtype_of(data)):
                return None
        return tvm.ir.Call(call.op, [data, *call.args[1:]], call.attrs, call.ty_args)

    def concatenate(self, call: relax.Expr) -> relax.Expr | None:
        fields = list(getattr(call.args[0], "fields", ()))
        stored = [self.read_stored(f) for f in fields]
        if not fields or len({dtype_of(s) if s is not None else "" for s in stored}) > 1:
            return None
        if stored[0] is None:
            return None
        return relax.op.concat(stored, call.attrs.axis)

    def requantize(self, variable: relax.Var) -> relax.Expr | None:
        """Return the result of a chain that begins at integers, as 8-bit whole numbers.

        A chain continues while the results are 8-bit whole numbers and only the next operator reads
        the results.
        """
        dtype = choose_type(self.ranges.get(variable))
        if dtype is None or self.goes_on(variable):
            return None
        chain = self.find_chain(variable)
        if chain is None or not chain[1]:
            return None
        start, functions, first = chain
        source = self.ranges[start]
        if not source.is_whole:
            return None
        limits = self.find_limits(variable, dtype)
        fitted = fit_affine(
            lambda sums: compute_chain(functions, sums), find_slope(functions, source),
            to_int(source.low), to_int(source.high), limits,
        )  # fmt: skip
        if fitted is None:
            return None
        sums = self.sums.get(start, self.stored.get(start))
        # The first operator after the sums has the layer's name if the layer has a bias.
        name = str(first.name)
        shifted = emit_with_name(self.builder, self.apply(sums, fitted, source), name)
        clipped = relax.op.clip(shifted, *(float(limit) for limit in limits))
        return relax.op.astype(self.builder.emit(clipped), dtype)

    def goes_on(self, variable: relax.Var) -> bool:
        """Return whether a variable's only reader also computes 8-bit whole numbers."""
        if self.readers[variable] != 1:
            return False
        reader = self.last_reader.get(variable)
        if reader is None or choose_type(self.ranges.get(reader.var)) is None:
            return False
        function = read_function(reader.value, self.values)
        return function is not None and function.source.same_as(variable)

    def find_limits(self, variable: relax.Var, dtype: str) -> tuple[int, int]:
        """Return the limits of the clips at the end of a chain, within the limits of the type."""
        low, high = numbers_of(dtype)[0], numbers_of(dtype)[-1]
        value = self.values[variable]
        while (bounds := read_clip_bounds(value)) is not None:
            low = max(low, int(np.ceil(np.clip(bounds[0], low, high))))
            high = min(high, int(np.floor(np.clip(bounds[1], low, high))))
            value = self.values.get(value.args[0])
        return low, high

    def apply(self, data: relax.Expr, affine: Affine, source: Range) -> relax.Expr:
        """Return (data * multipliers + offsets) >> shift, in int32 or, if needed, in int64."""
        multipliers, offsets = affine.multipliers, affine.offsets
        ends = np.abs(multipliers) * max(int(source.magnitude), 1) + np.abs(offsets)
        dtype = "int32" if ends.max() < INT32_LIMIT else "int64"
        tensor = self.cast(data, dtype)
        if (multipliers != 1).any():
            tensor = self.builder.emit(relax.op.multiply(tensor, make_numbers(multipliers, dtype)))
        if offsets.any():
            tensor = self.builder.emit(relax.op.add(tensor, make_numbers(offsets, dtype)))
        if affine.shift:
            count = relax.const(affine.shift, dtype)
            tensor = relax.op.right_shift(tensor, count)
        return tensor


def find_input_axes(call: tvm.ir.Call) -> tuple[int, int] | None:
    """Return the channels' axes of a layer's data and weights, or None for groups and vectors."""
    if operator_name(call) == "relax.matmul":
        data, weights = (static_shape(a) for a in call.args)
        return (len(data) - 1, 0) if len(weights) == 2 else None
    layouts = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    return (layouts[0].index("C"), layouts[1].index("I")) if call.attrs.groups == 1 else None


def compute_chain(functions: Sequence[ElementwiseFunction], numbers: Array) -> Array:
    """Return the functions' result for whole numbers. Their types define the arithmetic."""
    with np.errstate(all="ignore"):
        for function in functions:
            numbers = function.compute(numbers)
    return numbers


def find_slope(functions: Sequence[ElementwiseFunction], source: Range) -> Array:
    """Return the factor of a chain without its roundings, in float64 of the range's shape."""
    slope = np.ones(source.low.shape)
    for function in functions:
        slope = slope * function.slope
    return slope


def to_int(numbers: Array) -> Array:
    return np.asarray(numbers).astype("int64")


def numbers_of(dtype: str) -> range:
    limits = np.iinfo(dtype)
    return range(int(limits.min), int(limits.max) + 1)


def make_numbers(numbers: Array, dtype: str) -> relax.Expr:
    """Return a constant, which is a scalar if all numbers are equal."""
    if (numbers == numbers.flat[0]).all():
        numbers = numbers.reshape(-1)[0]
    return relax.const(np.asarray(numbers).astype(dtype), dtype)
