"""Rewrites a network and its interface for several samples per run.

The Relax module is rewritten, so every model format is supported. The module does not guess the
batch axis from its length, but follows the axis from the inputs through every operator.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.ir.operators import short_name
from firmwright.ir.relax import list_result_types, main_bindings, operator_name, static_shape
from firmwright.ir.tensors import ELEMENT_BYTES, LARGEST_TENSOR, BatchLayout, ModelInterface
from firmwright.partition.outline import name_outputs
from firmwright.planning.batch_rules import RULES, BatchedExpr, MixedSamplesError, rebuild_call
from firmwright.planning.memory import MemoryUse


def largest_tensor(module: tvm.IRModule) -> MemoryUse:
    """Return the size of the largest result in bytes, and the maximum that the C code can index."""
    kinds = [binding.var.ty for binding in main_bindings(module)]
    results = [r for kind in kinds for r in getattr(kind, "fields", [kind])]
    sizes = [
        prod(int(d) for d in r.shape) * ELEMENT_BYTES[str(r.dtype)]
        for r in results
        if isinstance(r, relax.TensorType)
        and str(r.dtype) in ELEMENT_BYTES  # a check rejects other types
    ]
    return MemoryUse("largest tensor", max(sizes, default=0), LARGEST_TENSOR)


def batch_network(
    module: tvm.IRModule, interface: ModelInterface, size: int
) -> tuple[tvm.IRModule, ModelInterface, BatchLayout]:
    """Return the module and interface for ``size`` samples, and the layout of samples in outputs.

    Raises UserError for a network with states, because each sample depends on the previous sample.
    """
    if interface.states:
        names = ", ".join(f"'{state.tensor.name}'" for state in interface.states)
        raise UserError(
            f"a network with states ({names}) processes samples in order; remove `batch`"
        )
    module, axes = batch_module(name_outputs(module, interface), size)
    parameters = module["main"].params
    inputs = zip(interface.inputs, parameters, strict=True)
    outputs = zip(interface.outputs, list_result_types(module["main"]), strict=True)
    return (
        module,
        replace(
            interface,
            inputs=tuple(replace(t, shape=static_shape(p)) for t, p in inputs),
            outputs=tuple(replace(t, shape=tuple(int(d) for d in k.shape)) for t, k in outputs),
        ),
        BatchLayout(size, axes),
    )


def batch_module(module: tvm.IRModule, size: int) -> tuple[tvm.IRModule, tuple[int | None, ...]]:
    """Return a module whose ``main`` processes ``size`` samples along axis 0 of every input.

    Also returns the batch axis of each output, or None if all samples share the output. Raises
    UserError with the name of an operator that mixes samples, or that has no rule.
    """
    main = module["main"]
    functions = {v: f for v, f in module.functions.items() if v.name_hint != "main"}
    builder = relax.BlockBuilder(tvm.IRModule(functions))
    parameters = [batch_parameter(p, size) for p in main.params]
    values = {p: BatchedExpr(q, 0) for p, q in zip(main.params, parameters, strict=True)}
    definitions = {b.var: b.value for b in main_bindings(module)}
    outputs = [main.body.body]
    result = definitions.get(main.body.body, main.body.body)
    if isinstance(result, relax.Tuple):
        outputs = list(result.fields)
        definitions.pop(main.body.body, None)
    with builder.function("main", parameters):
        with builder.dataflow():
            for variable, value in definitions.items():
                batched = batch_binding(variable, value, values, size)
                emitted = builder.emit(batched.value, name_hint=str(variable.name))
                values[variable] = replace(batched, value=emitted)
            returned = [batch_argument(o, values) for o in outputs]
            handed_out = builder.emit_output(join_outputs(returned))
        builder.emit_func_output(handed_out)
    return builder.get(), tuple(r.axis for r in returned)


def join_outputs(outputs: list[BatchedExpr]) -> relax.Expr:
    """Return the result of ``main``.

    Raises UserError if another axis is merged with the batch axis of an output.
    """
    for output in outputs:
        if output.inner > 1:
            shape = list(static_shape(output.value))
            raise UserError(
                f"batch: no axis of the output of shape {shape} is only for samples; the model "
                "runs only with a batch of 1"
            )
    return outputs[0].value if len(outputs) == 1 else relax.Tuple([o.value for o in outputs])


def batch_parameter(parameter: relax.Var, size: int) -> relax.Var:
    """Return the parameter with ``size`` elements along axis 0.

    Raises UserError if the length of axis 0 is not 1.
    """
    shape = static_shape(parameter)
    if not shape or shape[0] != 1:
        raise UserError(
            f"batch: input '{parameter.name}' has the shape {list(shape)}; a batch needs inputs "
            "whose first axis has length 1: export the model with one"
        )
    return relax.Var(str(parameter.name), relax.TensorType((size, *shape[1:]), parameter.ty.dtype))


def batch_binding(
    variable: relax.Var, value: relax.Expr, values: dict[relax.Var, BatchedExpr], size: int
) -> BatchedExpr:
    """Return one rebuilt binding. Raises UserError if the batch axis is lost."""
    if isinstance(value, relax.Var):
        return values[value]
    if not isinstance(value, tvm.ir.Call):
        return BatchedExpr(value, None)
    arguments = [batch_argument(a, values) for a in value.args]
    if all(a.axis is None for a in arguments):
        return BatchedExpr(rebuild_call(value, arguments), None)
    try:
        if (rule := RULES.get(operator_name(value))) is None:
            raise MixedSamplesError("has no rule for the position of its batch axis")
        return rule.apply(value, arguments, size)
    except MixedSamplesError as problem:
        raise UserError(
            f"batch: operator {short_name(value)} ('{variable.name}') {problem}; the model runs "
            "only with a batch of 1"
        ) from None


def batch_argument(argument: relax.Expr, values: dict[relax.Var, BatchedExpr]) -> BatchedExpr:
    if isinstance(argument, relax.Var):
        return values[argument]
    if isinstance(argument, relax.Tuple):
        fields = [batch_argument(f, values) for f in argument.fields]
        axes = {(f.axis, f.inner) for f in fields if f.axis is not None}
        if len(axes) > 1:
            raise UserError(
                "batch: an operator joins tensors with different batch axes; the model runs only "
                "with a batch of 1"
            )
        return BatchedExpr(relax.Tuple([f.value for f in fields]), *next(iter(axes), (None, 1)))
    return BatchedExpr(argument, None)
