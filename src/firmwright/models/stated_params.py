"""Stores the quantization parameters of inputs and outputs as metadata.

The operators of an ONNX graph or a Relax module usually determine these parameters: a dequantize
operator reads an input, and a quantize operator writes an output. A network that firmwright
quantized may have neither operator. Then metadata of the graph contain the parameters, so that a
later build can use the network as a model. ONNX and Relax have no field for the scale and zero
point of an input or output.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import onnx
import tvm
from tvm import relax

from firmwright.ir.chains import is_per_tensor
from firmwright.ir.operators import short_name
from firmwright.ir.quant_params import read_quant_params
from firmwright.ir.relax import (
    Constant,
    find_outputs,
    main_bindings,
    read_variables,
)
from firmwright.ir.tensors import ModelInterface, Tensor

KEY = "firmwright.grids"
"""The key in ONNX's ``metadata_props``, and in the attributes of a Relax module."""
OUTPUTS_KEY = "firmwright.outputs"

StatedParams = Mapping[str, tuple[float, int]]
"""Maps the names of inputs and outputs to a scale and a zero point."""


def read_stated_params(tensors: Iterable[Tensor]) -> StatedParams:
    return {t.name: (t.scale, t.zero_point or 0) for t in tensors if t.scale is not None}


def state_in_onnx(model: onnx.ModelProto, params_of: StatedParams) -> None:
    if params_of:
        onnx.helper.set_model_props(model, {KEY: json.dumps(params_of, sort_keys=True)})


def find_in_onnx(model: onnx.ModelProto) -> StatedParams:
    return parse(next((p.value for p in model.metadata_props if p.key == KEY), "{}"))


def state_in_relax(
    module: tvm.IRModule, params_of: StatedParams, outputs: Sequence[str]
) -> tvm.IRModule:
    """Return the module with its quantization parameters and output names as attributes."""
    module = module.with_attr(KEY, json.dumps(params_of, sort_keys=True))
    return module.with_attr(OUTPUTS_KEY, json.dumps(list(outputs)))


def find_outputs_in_relax(module: tvm.IRModule) -> list[str]:
    """Return the names of the outputs in the module. The list is empty without stored names."""
    stated = module.attrs and OUTPUTS_KEY in module.attrs
    return [str(name) for name in json.loads(str(module.attrs[OUTPUTS_KEY]))] if stated else []


def find_in_relax(module: tvm.IRModule) -> StatedParams:
    return parse(str(module.attrs[KEY]) if module.attrs and KEY in module.attrs else "{}")


def parse(text: str) -> StatedParams:
    """Return the stored quantization parameters.

    The result is empty if the text has another form.
    """
    try:
        params = json.loads(text)
        return {str(name): (float(scale), int(zero)) for name, (scale, zero) in params.items()}
    except (AttributeError, TypeError, ValueError):
        return {}


def add_params(tensors: Iterable[Tensor], params_of: StatedParams) -> tuple[Tensor, ...]:
    """Return the tensors with their quantization parameters. Float tensors remain unchanged."""
    return tuple(
        replace(t, scale=params_of[t.name][0], zero_point=params_of[t.name][1])
        if t.name in params_of and "float" not in t.dtype
        else t
        for t in tensors
    )


def derive_params(module: tvm.IRModule, interface: ModelInterface) -> ModelInterface:
    """Return the interface with the parameters of dequantized inputs and quantized outputs."""
    bindings = main_bindings(module)
    outputs, _ = find_outputs(module["main"], bindings)
    definitions = {b.var: b.value for b in bindings}
    makers = {b.var: [skip_limits(b.value, definitions)] for b in bindings}
    readers: dict[relax.Var, list[relax.Expr]] = {}
    for binding in bindings:
        for variable in read_variables(binding.value):
            readers.setdefault(variable, []).append(binding.value)
    inputs = zip(interface.inputs, module["main"].params, strict=True)
    returned = zip(interface.outputs, outputs, strict=True)
    return replace(
        interface,
        inputs=tuple(derive_tensor_params(t, "dequantize", readers.get(v, [])) for t, v in inputs),
        outputs=tuple(derive_tensor_params(t, "quantize", makers.get(v, [])) for t, v in returned),
    )


def skip_limits(value: relax.Expr, definitions: Mapping[relax.Var, relax.Expr]) -> relax.Expr:
    """Return the value before constant limits, which do not change the quantization parameters."""
    while short_name(value) in ("maximum", "minimum") and isinstance(value.args[1], Constant):
        if value.args[0] not in definitions:
            break
        value = definitions[value.args[0]]
    return value


def derive_tensor_params(tensor: Tensor, kind: str, calls: Sequence[relax.Expr]) -> Tensor:
    """Return a port with the parameters on which all adjacent ``calls`` agree.

    A port with parameters remains unchanged.
    """
    if tensor.scale is not None or {short_name(call) for call in calls} != {kind}:
        return tensor
    if not all(is_per_tensor(call) for call in calls):
        return tensor
    params_of = {read_quant_params(call) for call in calls}
    if len(params_of) != 1:
        return tensor
    (params,) = params_of
    return replace(tensor, scale=params.scale, zero_point=params.zero_point)
