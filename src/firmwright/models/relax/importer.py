"""Imports Relax modules in TVM's JSON format, which a user's Python function returned.

The reference is TVM's Relax virtual machine on the host, which runs the unchanged module. The
reference and the generated C use the semantics of TVM's operators, which define the model. The
reference does not use firmwright's rewrites, integer arithmetic, schedules, planning and C.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from firmwright.errors import UserError, first_line
from firmwright.ir.operators import relax_names
from firmwright.ir.relax import list_bindings, list_result_types, main_bindings, operator_name
from firmwright.ir.tensors import (
    ModelInterface,
    Operator,
    State,
    Tensor,
    is_source_name,
)
from firmwright.ir.virtual_machine import make_virtual_machine
from firmwright.models.formats import Imported, ReferenceOutputs, Samples, Shapes
from firmwright.models.importing import (
    check_element_type,
    check_input_names,
    refuse_open_shape,
    refuse_operators,
    refuse_shape,
)
from firmwright.models.sequence import run_in_sequence
from firmwright.models.stated_params import (
    add_params,
    derive_params,
    find_in_relax,
    find_outputs_in_relax,
)

RUN_TIME_CALLS = relax_names("call_dps_packed call_pure_packed call_py_func call_tir_inplace")
"""Operators that call a function of TVM's runtime, which the firmware does not contain."""


def import_model(data: bytes, name: str, shapes: Shapes) -> Imported:
    """Read and check a Relax module as :class:`firmwright.models.formats.Importer` describes."""
    module = read_module(data, name)
    params_of, stated = find_in_relax(module), find_outputs_in_relax(module)
    check_functions(module, name)
    module = bind_shapes(module, shapes, name)
    module = relax.transform.ConvertToDataflow(min_size=1)(relax.transform.Normalize()(module))
    module = relax.transform.DeadCodeElimination(["main"])(module)
    check_calls(module, name)
    main = module["main"]
    interface = ModelInterface(
        format="relax",
        sha256=hashlib.sha256(data).hexdigest(),
        inputs=add_params((make_tensor(str(p.name), p.ty, name) for p in main.params), params_of),
        outputs=add_params(collect_outputs(main, name, stated), params_of),
        operators=tuple(
            Operator(str(b.var.name), operator_name(b.value).rpartition(".")[2], (str(b.var.name),))
            for b in main_bindings(module)
            if operator_name(b.value)
        ),
    )
    return module, derive_params(module, interface)


def read_module(data: bytes, name: str) -> tvm.IRModule:
    """Return the module of a file. Raises UserError if the file has no module."""
    try:
        module = tvm.ir.load_json(data.decode())
    except (RuntimeError, TypeError, ValueError, KeyError, IndexError) as error:
        reason = first_line(error)
    else:
        if isinstance(module, tvm.IRModule):
            return module
        reason = f"it has a {type(module).__name__}"
    raise UserError(
        f"{name}: this file is not a Relax module as JSON ({reason}); write one with "
        "`tvm.ir.save_json(module)`"
    )


def check_functions(module: tvm.IRModule, name: str) -> None:
    """Raise UserError if ``main`` is not the only Relax function, or has unbound weights."""
    functions = {
        str(v.name_hint): f for v, f in module.functions.items() if isinstance(f, relax.Function)
    }
    if "main" not in functions:
        names = ", ".join(sorted(functions)) or "none"
        raise UserError(
            f"{name}: the module has no Relax function 'main' (it has: {names}); name one of "
            "them 'main'"
        )
    others = sorted(set(functions) - {"main"})
    if others:
        raise UserError(
            f"{name}: the module has Relax functions in addition to 'main': {', '.join(others)}; "
            "return a module with one (relax.transform.InlinePrivateFunctions may help)"
        )
    attributes = functions["main"].attrs
    stated = attributes.get("num_input") if attributes else None
    if stated is not None and int(stated) < len(functions["main"].params):
        left = ", ".join(str(p.name) for p in functions["main"].params[int(stated) :])
        raise UserError(
            f"{name}: 'main' has its weights as parameters ({left}); bind them with "
            "relax.transform.BindParams"
        )


def bind_shapes(module: tvm.IRModule, shapes: Shapes, name: str) -> tvm.IRModule:
    """Replace symbolic lengths with the recipe's numbers.

    Raises UserError if the numbers do not fit the declared shapes.
    """
    declared = {
        str(p.name): list(getattr(p.ty, "shape", None) or ()) for p in module["main"].params
    }
    bound: dict[tvm.tirx.Var, int] = {}
    check_input_names(name, shapes, declared)
    for label, wanted in shapes.items():
        for length, number in zip(declared[label], wanted, strict=False):
            if isinstance(length, tvm.tirx.Var):
                bound.setdefault(length, number)
    if bound:
        module = relax.transform.BindSymbolicVars(bound, "main")(module)
    for parameter in module["main"].params:
        label = str(parameter.name)
        shape = make_tensor(label, parameter.ty, name).shape
        if shapes.get(label, shape) != shape:
            refuse_shape(name, label, shapes[label], format_shape(declared[label]))
    return module


def format_shape(shape: Sequence[Any]) -> str:
    lengths = [int(d) if isinstance(d, tvm.tirx.IntImm) else d for d in shape]
    return f"[{', '.join(map(str, lengths))}]"


def check_calls(module: tvm.IRModule, name: str) -> None:
    """Raise UserError if ``main`` calls functions other than Relax operators and TIR functions."""
    lines = []
    for binding in main_bindings(module):
        called = operator_name(binding.value)
        if called in RUN_TIME_CALLS or (isinstance(binding.value, tvm.ir.Call) and not called):
            shown = called.removeprefix("relax.") or str(binding.value.op)
            lines.append(f"  {shown} ('{binding.var.name}')")
    if lines:
        refuse_operators(name, lines)


def make_tensor(label: str, kind: Any, name: str) -> Tensor:
    """Return an input or output.

    Raises UserError if the type is not a tensor, or if the shape is dynamic.
    """
    if not isinstance(kind, relax.TensorType):
        raise UserError(
            f"{name}: '{label}' is not a tensor ({kind}); 'main' supports only tensors as "
            "parameters and results"
        )
    shape = getattr(kind, "shape", None)
    if shape is None or not all(isinstance(d, tvm.tirx.IntImm) for d in shape):
        declared = "unknown" if shape is None else format_shape(shape)
        refuse_open_shape(name, label, declared)
    check_element_type(name, label, str(kind.dtype))
    return Tensor(label, tuple(int(d) for d in shape), str(kind.dtype))


def collect_outputs(main: relax.Function, name: str, stated: Sequence[str]) -> tuple[Tensor, ...]:
    names = name_outputs(main, stated)
    types = zip(names, list_result_types(main), strict=True)
    return tuple(make_tensor(label, kind, name) for label, kind in types)


def name_outputs(main: relax.Function, stated: Sequence[str]) -> list[str]:
    """Return the stored names of the outputs, or else the names of the returned variables.

    The names are ``output_0`` … if the variables have generated or repeated names.
    """
    values = {b.var: b.value for b in list_bindings(main)}
    result = main.body.body
    result = values[result] if isinstance(values.get(result), relax.Tuple) else result
    fields = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    names = [str(getattr(f, "name", "gv")) for f in fields]
    telling = len(set(names)) == len(names) and all(is_source_name(n) for n in names)
    if not telling:
        names = ["output"] if len(names) == 1 else [f"output_{i}" for i in range(len(names))]
    return list(stated) if len(stated) == len(names) else names


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate the samples on the host in TVM's Relax virtual machine, which LLVM compiles.

    Raises UserError if the virtual machine cannot run the model.
    """
    module = tvm.ir.load_json(data.decode())
    names = [str(p.name) for p in module["main"].params]
    outputs = name_outputs(module["main"], find_outputs_in_relax(module))

    def run(given: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        result = machine["main"](*(tvm.runtime.tensor(given[n]) for n in names))
        fields = [result] if isinstance(result, tvm.runtime.Tensor) else result
        return [np.array(tensor.numpy()) for tensor in fields]

    try:
        machine = make_virtual_machine(module)
        results = run_in_sequence(inputs, states, outputs, run)
    except (RuntimeError, TypeError, ValueError) as error:  # TVM raises subclasses of these errors
        raise UserError(
            f"TVM's virtual machine, the reference, cannot run the model: {first_line(error)}; run "
            "the module in TVM to find the cause"
        ) from error
    runtime = f"apache-tvm {tvm.__version__} Relax virtual machine (host, LLVM)"
    return ReferenceOutputs(runtime, results)
