"""Extends TVM's TFLite converter with names, parameters, corrections and rejections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np
import tflite
from tvm import relax
from tvm.relax.frontend.tflite import tflite_frontend

from firmwright.errors import UserError
from firmwright.models.importing import describe_failure, variable_name
from firmwright.models.tflite import arithmetic
from firmwright.models.tflite.checks import RENEW
from firmwright.models.tflite.complex_numbers import COMPLEX, has_complex
from firmwright.models.tflite.complex_numbers import CONVERSIONS as COMPLEX_CONVERSIONS
from firmwright.models.tflite.corrections import CORRECTIONS, DATA_MOVEMENT, FLOAT_ONLY
from firmwright.models.tflite.custom_calls import read_custom_code
from firmwright.models.tflite.hybrid import convert_hybrid, is_hybrid
from firmwright.models.tflite.integer_products import convert_narrow_sums, has_narrow_sums

WEIGHTED_OPERATORS = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"}
"""Operators with integer biases. LiteRT does not read the scale of the bias in the file."""

ON_STORED_INTEGERS = {
    "BITWISE_XOR": "combines",
    "FLOOR_DIV": "divides",
    "FLOOR_MOD": "divides",
    "MAXIMUM": "compares",
    "MINIMUM": "compares",
    "NEG": "negates",
    "STABLEHLO_ADD": "adds",
    "STABLEHLO_MULTIPLY": "multiplies",
    "STABLEHLO_SHIFT_LEFT": "shifts",
}
"""Operators that compute with the stored integers of quantized tensors in LiteRT."""

WITH_SUBGRAPHS = {
    "CALL": "inline the function",
    "STABLEHLO_CASE": "use IF",
    "STABLEHLO_COMPOSITE": "inline the composite",
    "STABLEHLO_REDUCE_WINDOW": "use a pooling operator",
    "STABLEHLO_SCATTER": "use SCATTER_ND",
}
"""Operators that run other subgraphs, and the advice for each operator."""

SIZE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("BROADCAST_TO", "EXPAND_DIMS", "MIRROR_PAD", "PAD", "PADV2"), (1,)),
    **dict.fromkeys(("RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "TILE"), (1,)),
    **dict.fromkeys(("ONE_HOT", "REVERSE_V2", "TOPK_V2", "TRANSPOSE"), (1,)),
    **dict.fromkeys(("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN"), (1,)),
    **dict.fromkeys(("REDUCE_PROD", "SUM"), (1,)),
    **dict.fromkeys(("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SPLIT_V"), (1, 2)),
    **dict.fromkeys(("FILL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), (0,)),
    **dict.fromkeys(("SPLIT", "TRANSPOSE_CONV"), (0,)),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "CUMSUM"), (1,)),
    "RANGE": (0, 1, 2),
    "SLICE": (1, 2),
    "STRIDED_SLICE": (1, 2, 3),
}
"""Operators whose result shape depends on input values, and the indices of these inputs."""

COUNTING_OPERATORS = ("UNIQUE", "WHERE")
"""Operators whose result length depends on the data."""

UNSUPPORTED = {
    **dict.fromkeys(
        (
            "MULTINOMIAL",
            "RANDOM_STANDARD_NORMAL",
            "RANDOM_UNIFORM",
            "STABLEHLO_RNG_BIT_GENERATOR",
        ),
        "draws random numbers, which no reference can judge: make them an input of the model",
    ),
    **dict.fromkeys(
        ("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"),
        "has a table of strings, which a firmware cannot have: look them up before the model",
    ),
    **dict.fromkeys(
        ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"),
        "selects boxes, which firmwright supports only in TFLite_Detection_PostProcess: export "
        "the model with that operator, or end it before this one and state `postprocess`",
    ),
}
"""Operators without a form in firmwright, and the replacement of each."""


class Converter(tflite_frontend.OperatorConverter):  # type: ignore[misc]
    """Binds each result to a variable with the name of its TFLite tensor."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.in_float = False
        self.wrappers: dict[int, Any] = {}
        self.kinds: dict[int, str] = {}
        for kind, correction in CORRECTIONS.items():
            self.convert_map[kind] = partial(correction, self)

    @cached_property
    def complex_tensors(self) -> set[int]:
        """Return the numbers of the tensors of complex numbers."""
        tensors = map(self.subgraph.Tensors, range(self.subgraph.TensorsLength()))
        return {number for number, tensor in enumerate(tensors) if tensor.Type() in COMPLEX}

    def get_op_code_str(self, op: Any) -> str:
        """Return the kind of an operator. TVM raises an error for most custom operators."""
        index = op.OpcodeIndex()
        if index not in self.kinds:
            code = self.model.OperatorCodes(index)
            kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            is_custom = kind == tflite.BuiltinOperator.CUSTOM
            self.kinds[index] = "CUSTOM" if is_custom else str(super().get_op_code_str(op))
        return self.kinds[index]

    def check_unsupported_ops(self) -> None:
        lines = []
        for index in range(self.subgraph.OperatorsLength()):
            operator = self.subgraph.Operators(index)
            kind = self.get_op_code_str(operator)
            reason = self.explain_refusal(operator, kind)
            if reason:
                (name, *_) = self.output_names(operator)
                lines.append(f"  {kind} (tensor '{name}') {reason}")
        if lines:
            raise UserError("\n".join(["operators that cannot be compiled:", *lines]))

    def explain_refusal(self, operator: Any, kind: str) -> str:
        """Return the reason why an operator cannot be converted, or ''."""
        inputs, outputs = self.get_input_tensors(operator), self.get_output_tensors(operator)
        quantized = [t.qnn_params is not None for t in inputs + outputs]
        if kind in UNSUPPORTED:
            return UNSUPPORTED[kind]
        if (
            kind in ON_STORED_INTEGERS
            and quantized[0]
            and not arithmetic.keeps_meaning(self, kind, inputs + outputs)
        ):
            return (
                f"{ON_STORED_INTEGERS[kind]} stored integers in LiteRT and ignores their scale and "
                "zero point: its result differs from the result on real numbers; keep the operator "
                "in float32"
            )
        if kind not in COMPLEX_CONVERSIONS and has_complex(self, operator):
            return (
                "computes with complex numbers; firmwright supports their size, real and imaginary "
                "part: end the model before the operator"
            )
        if kind in WITH_SUBGRAPHS:
            return (
                "runs other subgraphs, which firmwright does not support for this operator: "
                f"{WITH_SUBGRAPHS[kind]}, then convert the model again"
            )
        if kind in COUNTING_OPERATORS:
            return (
                "has a result whose length is known only at run time; firmware needs fixed "
                "shapes: end the model before the operator, or compute all elements and a mask"
            )
        known = self._SUPPORTED_QUANTIZED_OPS | set(CORRECTIONS) | DATA_MOVEMENT | FLOAT_ONLY
        known |= {"RELU_0_TO_1"}  # TVM converts this operator
        if any(quantized) and kind not in known:
            return "has no quantized form in firmwright; keep the operator in float32"
        return ""

    def output_names(self, operator: Any) -> list[str]:
        tensors = self.get_output_tensors(operator)
        return [tflite_frontend.get_tensor_name(self.subgraph, t.tensor_idx) for t in tensors]

    def convert_op_to_relax(self) -> None:
        for index in range(self.subgraph.OperatorsLength()):
            operator = self.subgraph.Operators(index)
            kind = self.get_op_code_str(operator)
            names = self.output_names(operator)
            try:
                self.check_sizes(operator, kind)
                result = self.convert_operator(operator, kind)
                result = None if result is None else self.bb.normalize(result)
            except UserError as error:
                shown = read_custom_code(self.model, operator) if kind == "CUSTOM" else kind
                raise UserError(f"operator {shown} (tensor '{names[0]}'): {error}") from error
            except Exception as error:
                raise UserError(
                    f"cannot import operator {kind} (tensor '{names[0]}'): "
                    f"{describe_failure(error)}"
                ) from error
            if result is None:  # the operators that read the result contain it
                continue
            count = len(result.ty.fields) if isinstance(result.ty, relax.TupleType) else 1
            if count != len(names):
                raise UserError(
                    f"operator {kind} (tensor '{names[0]}'): it computes {count} results, but the "
                    f"file names {len(names)}; {RENEW}"
                )
            if len(names) == 1:
                named = self.bb.emit(result, name_hint=variable_name(names[0]))
                self.exp_tab.set_expr(names[0], named)
                continue
            for position, name in enumerate(names):
                self.exp_tab.set_expr(name, result[position])

    def convert_operator(self, operator: Any, kind: str) -> relax.Expr | None:
        """Return an operator's results. Return None if other operators contain the results."""
        if kind in FLOAT_ONLY and self.is_quantized(operator):
            return self.convert_in_float(operator, kind)
        if has_complex(self, operator):
            return COMPLEX_CONVERSIONS[kind](self, operator)
        if is_hybrid(self, operator, kind):
            return convert_hybrid(self, operator, kind)
        if has_narrow_sums(self, operator, kind):
            return convert_narrow_sums(self, operator, kind)
        return self.convert_map[kind](op=operator)

    def check_sizes(self, operator: Any, kind: str) -> None:
        """Raise UserError if an operand that determines a shape is not a constant."""
        given = operator.InputsAsNumpy()
        for position in SIZE_OPERANDS.get(kind, ()):
            if position < len(given) and given[position] >= 0 and self.has_expr(given[position]):
                name = tflite_frontend.get_tensor_name(self.subgraph, given[position])
                raise UserError(
                    f"its positions, sizes or axes, '{name}', are known only at run time; "
                    "firmware needs fixed shapes: convert the model with constants, or with "
                    "sizes of the inputs' shapes"
                )

    def get_tensor_value(self, tensor_wrapper: Any, is_sparse: bool = False) -> Any:
        if self.has_expr(tensor_wrapper.tensor_idx):
            name = tflite_frontend.get_tensor_name(self.subgraph, tensor_wrapper.tensor_idx)
            raise UserError(
                f"needs a constant for '{name}', which is known only at run time: convert the "
                "model with a constant, or end it before the operator"
            )
        return super().get_tensor_value(tensor_wrapper, is_sparse)

    def convert_in_float(self, op: Any, kind: str) -> relax.Expr:
        """Convert an operator in float32 between dequantize and quantize operators."""
        inputs, (target,) = self.get_input_tensors(op), self.get_output_tensors(op)
        given = {
            tflite_frontend.get_tensor_name(self.subgraph, t.tensor_idx): t
            for t in inputs
            if t.qnn_params is not None
        }
        stored = {name: self.get_tensor_expr(t) for name, t in given.items()}
        for name, tensor in given.items():
            real = self.bb.emit(self.dequantize(stored[name], tensor))
            self.exp_tab.set_expr(name, real, force_override=True)
        self.in_float = True
        try:
            result = self.bb.normalize(self.convert_map[kind](op=op))
        finally:
            self.in_float = False
            for name, expression in stored.items():
                self.exp_tab.set_expr(name, expression, force_override=True)
        return self.quantize(result, target)

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """Return TVM's wrappers.

        A single scale gets axis 0, because the axis in the file may be wrong.
        """
        tensors = [self.get_tensor(int(i)) for i in self._indices_or_empty(tensors_idx_list)]
        for tensor in tensors:
            if self.in_float:
                tensor.qnn_params = None
            elif tensor.qnn_params is not None and not tensor.qnn_params["scale"].ty.shape:
                tensor.qnn_params["axis"] = 0
        return tensors

    def get_tensor(self, index: int) -> Any:
        """Return a copy of TVM's wrapper, which is read from the file once."""
        if index not in self.wrappers:
            (self.wrappers[index],) = super().get_tensors([index])
        tensor = copy(self.wrappers[index])
        tensor.qnn_params = None if tensor.qnn_params is None else dict(tensor.qnn_params)
        return tensor

    def get_tensor_shape(self, tensor_wrapper: Any) -> Any:
        """Return a tensor's shape. TVM infers empty shapes, even for unknown results."""
        if tensor_wrapper.tensor.ShapeLength() or self.has_expr(tensor_wrapper.tensor_idx):
            return super().get_tensor_shape(tensor_wrapper)
        return np.zeros(0, "int32")

    def get_input_tensors(self, op: Any) -> list[Any]:
        """Return TVM's wrappers. An integer bias gets the scale of the products, as in LiteRT."""
        tensors = self.get_tensors(op.InputsAsNumpy())
        if self.get_op_code_str(op) in WEIGHTED_OPERATORS and len(tensors) > 2:
            self.add_bias_params(tensors)
        return tensors

    def add_bias_params(self, tensors: Sequence[Any]) -> None:
        """Replace the scale of an integer bias, which LiteRT does not read.

        The scale in the file may be wrong, because converters use one constant of zeros for layers
        with different scales.
        """
        transposed = len(tensors) == 4
        source, weights, bias = tensors[2 if transposed else 0], tensors[1], tensors[-1]
        if bias.tensor_idx < 0 or source.qnn_params is None or weights.qnn_params is None:
            return
        if not self.get_tensor_type_str(bias.tensor.Type()).startswith("int"):
            return
        scales = [t.qnn_params["scale"].value.numpy() for t in (source, weights)]
        bias.qnn_params = {
            "scale": relax.const(np.multiply(*scales), "float32"),
            "zero_point": relax.const(0, "int32"),
            "axis": 0,
        }
