"""Makes states of a model from inputs and the outputs that are their next values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.errors import UserError, did_you_mean
from firmwright.ir.relax import find_outputs, main_bindings, remove_dead_bindings, set_functions
from firmwright.ir.tensors import ModelInterface, State, Tensor

Array = npt.NDArray[Any]


class StateError(UserError):
    """Raised for a pair of the recipe that is not a state. ``state`` is the input's name."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


def pair_states(
    module: tvm.IRModule, interface: ModelInterface, pairs: Mapping[str, str]
) -> tuple[tvm.IRModule, ModelInterface]:
    """Make states from inputs and the outputs that are their next values.

    The initial states are the real number 0. Raises StateError if a pair is not valid.
    """
    if not pairs:
        return module, interface
    inputs = {tensor.name: tensor for tensor in interface.inputs}
    outputs = {tensor.name: tensor for tensor in interface.outputs}
    for name, result in pairs.items():
        check_pair(name, result, inputs, outputs)
    repeated = [name for name in pairs if [*pairs.values()].count(pairs[name]) > 1]
    if repeated:
        raise StateError(
            repeated[-1],
            f"'{pairs[repeated[-1]]}' is the next value of two states; state a different output "
            "for each state",
        )
    if len(pairs) == len(outputs):
        raise StateError(
            [*pairs][-1],
            "all outputs are states: the network would have no outputs; remove a state, or export "
            "the model with another output",
        )
    states = tuple(State(inputs[n], fill_zero(inputs[n]), result) for n, result in pairs.items())
    first = [n for n in inputs if n not in pairs]
    left = [n for n in outputs if n not in pairs.values()]
    paired = replace(
        interface,
        inputs=tuple(inputs[n] for n in first),
        outputs=tuple(outputs[n] for n in left),
        states=(*states, *interface.states),
    )
    takes = [[*inputs].index(name) for name in (*first, *pairs)]
    returns = [[*outputs].index(name) for name in (*left, *pairs.values())]
    return reorder_ports(module, takes, returns), paired


def check_pair(
    name: str, result: str, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> None:
    """Raise StateError if the output ``result`` cannot be the next value of the input ``name``."""
    for label, known, what in ((name, inputs, "input"), (result, outputs, "output")):
        if label not in known:
            hint = did_you_mean(label, known)
            raise StateError(name, f"the model has no {what} '{label}'{hint}")
    before, after = inputs[name], outputs[result]
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        raise StateError(
            name,
            f"the state '{name}' is {before.dtype} {list(before.shape)}, its next value '{result}' "
            f"{after.dtype} {list(after.shape)}; expected equal types and shapes: state another "
            "output",
        )
    params_of = {(t.scale, t.zero_point) for t in (before, after) if t.scale is not None}
    if len(params_of) > 1:
        raise StateError(
            name,
            f"'{name}' and '{result}' have different quantization parameters: {sorted(params_of)}; "
            "quantize both with equal parameters",
        )


def fill_zero(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor of real zeros.

    In an integer tensor, real zeros are the zero point.
    """
    dtype = "uint16" if tensor.dtype in ("float16", "bfloat16") else tensor.dtype
    kind = np.dtype(dtype).newbyteorder("<")
    return np.full(tensor.shape, tensor.zero_point or 0, kind).tobytes()


def reorder_ports(
    module: tvm.IRModule, takes: Sequence[int], returns: Sequence[int]
) -> tvm.IRModule:
    """Reorder the parameters and results of ``main`` by index.

    Parameters and results without an index keep their positions.
    """
    main = module["main"]
    parameters = [*(main.params[i] for i in takes), *main.params[len(takes) :]]
    returned = main.body.body
    count = len(main.ret_ty.fields)
    items = [relax.BlockBuilder().normalize(relax.TupleGetItem(returned, i)) for i in range(count)]
    results, _ = find_outputs(main, main_bindings(module))
    named = zip(items, results, strict=True)
    variables = [relax.Var(str(result.name), item.ty) for item, result in named]
    bindings = [relax.VarBinding(v, item) for v, item in zip(variables, items, strict=True)]
    result = relax.Tuple([*(variables[i] for i in returns), *variables[len(returns) :]])
    body = relax.SeqExpr([*main.body.blocks, relax.BindingBlock(bindings)], result)
    function = relax.Function(parameters, body, result.ty, main.is_pure, main.attrs)
    module = set_functions(module, {"main": function})
    return relax.transform.ConvertToDataflow(min_size=1)(remove_dead_bindings(module))
