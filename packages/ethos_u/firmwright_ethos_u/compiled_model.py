"""Imports a TFLite file from Vela as a network with one call of the accelerator.

The arguments of the call are the inputs, and the whole file as a constant. The device `ethos_u`
runs the call. The simulator computes the reference, because LiteRT has no kernel for the operator
`ethos-u`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from firmwright.device import ModelInterface, Operator, ReferenceOutputs, UserError
from firmwright_ethos_u.compiled_file import OPERATOR, read_compiled, read_tensors
from firmwright_ethos_u.vela import check_vela

if TYPE_CHECKING:
    from collections.abc import Mapping

    import tvm

CALL = "firmwright_ethos_u.compiled"
"""The name of the function that a module calls."""


def import_model(
    data: bytes, name: str, _shapes: Mapping[str, tuple[int, ...]]
) -> tuple[tvm.IRModule, ModelInterface]:
    """Return the module and the interface of a file.

    Raises UserError if the file is not supported.
    """
    check_vela()
    try:
        read_compiled(data)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    inputs, outputs = read_tensors(data)
    if len(outputs) != 1:
        raise UserError(f"{name}: the compiled file has {len(outputs)} outputs; expected one")
    kind = OPERATOR.decode()
    operators = (Operator(outputs[0].name, kind, (outputs[0].name,)),)
    digest = hashlib.sha256(data).hexdigest()
    interface = ModelInterface("tflite", digest, tuple(inputs), tuple(outputs), operators)
    return make_module(data, interface), interface


def make_module(data: bytes, interface: ModelInterface) -> tvm.IRModule:
    """Return a module whose function `main` calls the accelerator."""
    from tvm import relax

    (output,) = interface.outputs
    variables = [
        relax.Var(tensor.name, relax.TensorType(tensor.shape, tensor.dtype))
        for tensor in interface.inputs
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            file = relax.const(np.frombuffer(data, np.uint8))
            kind = relax.TensorType(output.shape, output.dtype)
            call = relax.call_pure_packed(CALL, *variables, file, ty_args=[kind])
            result = builder.emit_output(call, output.name)
        builder.emit_func_output(relax.Tuple([result]))
    return builder.get()


def run_reference(
    data: bytes, inputs: Sequence[Mapping[str, np.ndarray[Any, Any]]], _states: Sequence[Any] = ()
) -> ReferenceOutputs:
    """Simulate the file for each sample."""
    check_vela()
    compiled, (output,) = read_compiled(data), read_tensors(data)[1]
    results = [
        [found.view(output.dtype).reshape(output.shape) for found in compiled.run([*each.values()])]
        for each in inputs
    ]
    return ReferenceOutputs(f"the simulator of firmwright-ethos-u {VERSION}", results)


VERSION = version("firmwright-ethos-u")
