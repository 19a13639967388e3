"""Which operators of a region compute quantized values in float32, for the user to see."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm import relax

from firmwright.ir.kernels import FloatOperator
from firmwright.ir.operators import relax_names, short_name
from firmwright.ir.regions import Region
from firmwright.ir.relax import operator_name, read_variables
from firmwright.ir.tensors import is_source_name
from firmwright.lowering.kernels.quantized_tensor import QuantizedTensor, Value

CONVERSIONS = relax_names("quantize dequantize")


@dataclass(frozen=True)
class ArithmeticUse:
    """Operators on quantized values: how many there are, and those that run in float32."""

    quantized_operators: int
    float_operators: tuple[FloatOperator, ...]


@dataclass
class FloatUseTracker:
    """Follows a region's operators while it is rebuilt.

    An operator counts that reads, directly or through others, a dequantized value. It runs in
    float32 if its float result is still there at the end: what a rounding computed anew on
    integers is dead code by then.
    """

    region: Region
    function: relax.Function
    dequantized: set[relax.Var] = field(default_factory=set)
    emitted: list[tuple[relax.Var, FloatOperator]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        parameters = zip(self.function.params, self.region.inputs, strict=True)
        self.dequantized.update(p for p, name in parameters if name in self.region.dequantized)

    def record(self, binding: relax.VarBinding, value: Value) -> None:
        """Take in an operator of the region and what was emitted for it."""
        name = operator_name(binding.value)
        read = read_variables(binding.value)
        if name == "relax.dequantize" and read:
            self.dequantized.add(binding.var)
        if name in CONVERSIONS or not any(v in self.dequantized for v in read):
            return
        self.dequantized.add(binding.var)
        if not name:  # one of an operator's several results
            return
        self.count += 1
        if not isinstance(value, QuantizedTensor):
            operator = FloatOperator(short_name(binding.value), self.find_source_name(binding.var))
            self.emitted.append((value, operator))

    def find_source_name(self, variable: relax.Var) -> str:
        """Return the operator's name in the model, or else the first that its region has."""
        name = str(variable.name)
        return name if is_source_name(name) else next(iter(self.region.sources), "")

    def summarize(self, finished: relax.Function) -> ArithmeticUse:
        kept = {b.var for block in finished.body.blocks for b in block.bindings}
        floats = tuple(operator for variable, operator in self.emitted if variable in kept)
        return ArithmeticUse(self.count, floats)
