"""Reads the bindings of ``main`` in order and replaces them. All rewrites share these functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_map

from firmwright.errors import UserError

Constant = tvm.ir.GenericConst
Rewrite = Callable[[relax.BlockBuilder, tvm.ir.Call], relax.Expr]

TO_LAST = (0, 2, 3, 1)
TO_FIRST = (0, 3, 1, 2)
"""The permutations of an image's axes from NCHW to NHWC, and back."""


def list_bindings(function: relax.Function) -> list[relax.Binding]:
    """Return the bindings of a function in order.

    A slice of TVM's array is twice as fast as an iteration.
    """
    return [b for block in function.body.blocks[:] for b in block.bindings[:]]


def main_bindings(module: tvm.IRModule) -> list[relax.VarBinding]:
    """Return the bindings of ``main`` in order. Raises UserError if ``main`` has branches."""
    bindings = list_bindings(module["main"])
    for binding in bindings:
        if not isinstance(binding, relax.VarBinding) or isinstance(binding.value, relax.If):
            raise UserError(
                f"operator '{binding.var.name}': control flow and run-time shapes have no static "
                "schedule; export the model without branches, with fixed shapes"
            )
    return bindings


def operator_name(value: relax.Expr) -> str:
    """Return the operator's name, such as ``relax.nn.conv2d``, or '' if there is no call.

    A comparison of types is faster than ``isinstance``, which searches TVM's abstract classes.
    """
    if type(value) is tvm.ir.Call and type(operator := value.op) is tvm.ir.Op:
        return str(operator.name)
    return ""


def static_shape(value: relax.Expr) -> tuple[int, ...]:
    """Return the shape of a tensor expression. Raises UserError if the shape is not static."""
    shape = getattr(value.ty, "shape", None)
    # A slice is a list, so an access to an element does not call TVM.
    lengths = shape.values[:] if isinstance(shape, relax.ShapeExpr) else None
    if lengths is None or not all(isinstance(d, tvm.tirx.IntImm) for d in lengths):
        raise UserError(
            f"'{getattr(value, 'name', value)}' has no static shape: {value.ty}; export the "
            "model with fixed shapes"
        )
    return tuple(int(d) for d in lengths)


def dtype_of(value: relax.Expr) -> str:
    return str(value.ty.dtype)


def constant_array(value: relax.Expr) -> npt.NDArray[np.generic]:
    return np.asarray(value.value.numpy())


def definition(builder: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """Return the value that a variable is bound to. Other expressions are unchanged."""
    bound = builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    return value if bound is None else bound


def emit_with_name(builder: relax.BlockBuilder, value: relax.Expr, name: str) -> relax.Var:
    """Bind a value to a variable of exactly this name, even if another variable has the name."""
    value = builder.normalize(value)
    # With another name, TVM's canonical form would replace the variable in all readers.
    kind = relax.DataflowVar if builder.current_block_is_dataflow() else relax.Var
    variable = kind(name, value.ty)
    builder.emit_normalized(relax.VarBinding(variable, value))
    return variable


def bind(
    bindings: list[relax.VarBinding],
    value: relax.Expr,
    variable: relax.Var | str,
    kind: type[relax.Var] = relax.DataflowVar,
) -> relax.Var:
    """Append the binding of a value to a variable, or to a new variable of a name."""
    value = relax.BlockBuilder().normalize(value)
    bound = kind(variable, value.ty) if isinstance(variable, str) else variable
    bindings.append(relax.VarBinding(bound, value))
    return bound


def count_readers(module: tvm.IRModule) -> Counter[relax.Var]:
    """Return how often the values and the result of ``main`` read each variable."""
    counts: Counter[relax.Var] = Counter()

    def count(part: relax.Expr) -> None:
        if isinstance(part, relax.Var):
            counts[part] += 1

    for value in [*(b.value for b in main_bindings(module)), module["main"].body.body]:
        relax.analysis.post_order_visit(value, count)
    return counts


def rewrite_calls(module: tvm.IRModule, rewrite: Rewrite) -> tvm.IRModule:
    """Apply ``rewrite`` to every operator call of ``main``, after its arguments are rewritten.

    ``rewrite`` may emit bindings into the builder. ``rewrite`` returns the call itself if the call
    is unchanged. Variables keep their names. The result is the module itself if no call changes.
    """
    changed = False

    @mutator
    class Rewriter(PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: tvm.ir.Call) -> relax.Expr:
            nonlocal changed
            call = self.visit_expr_post_order(call)
            rewritten = rewrite(self.builder_, call) if operator_name(call) else call
            changed = changed or rewritten is not call
            return rewritten

    main = Rewriter(module).visit_expr(module["main"])
    return replace_main(module, main) if changed else module


def replace_main(module: tvm.IRModule, main: relax.Function) -> tvm.IRModule:
    """Return the module with a new ``main``, without bindings that have no reader."""
    updated = tvm.IRModule(dict(module.functions.items()))
    updated.update_func(module.get_global_var("main"), main)
    return remove_dead_bindings(updated)


def rewrite_each(*operators: str) -> Callable[[Rewrite], Callable[[tvm.IRModule], tvm.IRModule]]:
    """Return a decorator that extends the rewrite of a call of these operators to a module."""

    def make(rewrite: Rewrite) -> Callable[[tvm.IRModule], tvm.IRModule]:
        def select(builder: relax.BlockBuilder, call: tvm.ir.Call) -> relax.Expr:
            return rewrite(builder, call) if operator_name(call) in operators else call

        def rewrite_module(module: tvm.IRModule) -> tvm.IRModule:
            # Most rewrites have no call to rewrite, and a visit of each expression is slow.
            names = {operator_name(b.value) for b in list_bindings(module["main"])}
            return rewrite_calls(module, select) if names.intersection(operators) else module

        return rewrite_module

    return make


def rename_variables(module: tvm.IRModule, names: Mapping[str, str]) -> tvm.IRModule:
    """Return the module with renamed variables in ``main``. ``names`` maps old to new names."""

    renamed: dict[relax.Var, relax.Var] = {}

    def rename(variable: relax.Var) -> relax.Var:
        name = names.get(str(variable.name))
        if name is None:
            return variable
        return renamed.setdefault(variable, type(variable)(name, variable.ty))

    updated = tvm.IRModule(dict(module.functions.items()))
    main = structural_map(module["main"], (relax.Var, rename))
    updated.update_func(module.get_global_var("main"), main)
    return updated


def copy_variables(function: relax.Function) -> relax.Function:
    """Return a function with new variables, because a module binds each variable only once.

    TVM's copy infers types again, which needs a millisecond per convolution. This function does not
    infer types.
    """
    copies: dict[relax.Var, relax.Var] = {}

    def copy(variable: relax.Var) -> relax.Var:
        return copies.setdefault(variable, type(variable)(variable.name, variable.ty))

    copied: relax.Function = structural_map(function, (relax.Var, copy))
    return relax.BlockBuilder().normalize(copied)


def state_type(call: tvm.ir.Call, shape: Sequence[int], dtype: str) -> tvm.ir.Call:
    """Return a call with a known type.

    TVM needs a millisecond to infer the type of a convolution.
    """
    kind = relax.TensorType(shape, dtype)
    return tvm.ir.Call(call.op, call.args, call.attrs, call.ty_args, ret_ty=kind)


def rewrite_bindings(
    module: tvm.IRModule, rewrite: Callable[[relax.VarBinding], list[relax.VarBinding]]
) -> tvm.IRModule:
    """Replace each binding of ``main`` by the bindings that ``rewrite`` returns for it.

    The new bindings must bind each variable that other bindings read.
    """
    blocks = [
        type(block)([new for binding in block.bindings for new in rewrite(binding)])
        for block in module["main"].body.blocks
    ]
    return remove_dead_bindings(replace_blocks(module, blocks))


def replace_blocks(module: tvm.IRModule, blocks: list[relax.BindingBlock]) -> tvm.IRModule:
    """Return the module with new bindings in ``main``.

    The returned variables of ``main`` do not change.
    """
    main = module["main"]
    body = relax.SeqExpr(blocks, main.body.body)
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    updated = tvm.IRModule(dict(module.functions.items()))
    updated.update_func(module.get_global_var("main"), function)
    return updated


def remove_dead_bindings(module: tvm.IRModule) -> tvm.IRModule:
    """Remove the bindings that have no reader, and variables that only rename other variables."""
    module = drop_unread_bindings(relax.transform.CanonicalizeBindings()(module))
    return relax.transform.DeadCodeElimination(["main"])(module)


def drop_unread_bindings(module: tvm.IRModule) -> tvm.IRModule:
    """Remove dataflow bindings of ``main`` that have no reader, in one pass from the end.

    TVM's pass compares each dead binding with each live binding. The pass needs seconds if 2,000 of
    10,000 bindings are dead.
    """
    main = module["main"]
    read, blocks = set(relax.analysis.free_vars(main.body.body)), []
    for block in reversed(main.body.blocks):
        kept, is_pure = [], isinstance(block, relax.DataflowBlock)
        for binding in reversed(block.bindings):
            if binding.var in read or not (is_pure and isinstance(binding, relax.VarBinding)):
                kept.append(binding)
                read.update(relax.analysis.free_vars(binding.value))
        blocks.append(type(block)(kept[::-1]))
    return replace_blocks(module, blocks[::-1])


def read_variables(value: relax.Expr) -> list[relax.Var]:
    """Return the variables that a value reads, also inside tuples. A variable may repeat."""
    kind = type(value)
    if kind is tvm.ir.Call:
        parts = value.args[:]
    elif kind is relax.Tuple:
        parts = value.fields[:]
    elif kind is relax.TupleGetItem:
        parts = [value.tuple_value]
    else:
        return [value] if isinstance(value, relax.Var) else []
    return [v for part in parts for v in read_variables(part)]


def replace_variables(value: relax.Expr, replace: Callable[[relax.Var], relax.Expr]) -> relax.Expr:
    """Return a value that reads replaced variables, also inside tuples. A call has no type yet."""
    if isinstance(value, relax.Var):
        return replace(value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([replace_variables(field, replace) for field in value.fields])
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(replace_variables(value.tuple_value, replace), value.index)
    if isinstance(value, tvm.ir.Call):
        arguments = [replace_variables(a, replace) for a in value.args]
        return tvm.ir.Call(value.op, arguments, value.attrs, value.ty_args)
    return value


def list_called(function: relax.Function) -> list[tvm.ir.GlobalVar]:
    """Return the TIR functions that the operators of a function call, in order."""
    values = (b.value for b in list_bindings(function))
    called = (v.args[0] for v in values if operator_name(v) == "relax.call_tir")
    return [*dict.fromkeys(called)]


def list_constants(function: relax.Function) -> list[npt.NDArray[np.generic]]:
    values = (b.value for b in list_bindings(function))
    arguments = (a for v in values if isinstance(v, tvm.ir.Call) for a in v.args)
    return [constant_array(a) for a in arguments if isinstance(a, Constant)]


def read_all_variables(bindings: Iterable[relax.VarBinding]) -> list[relax.Var]:
    return [variable for b in bindings for variable in read_variables(b.value)]


def set_functions(module: tvm.IRModule, functions: Mapping[str, relax.Function]) -> tvm.IRModule:
    """Return the module with these functions. The functions replace functions with equal names."""
    variables = {v.name_hint: v for v in module.functions}
    new = {
        variables.get(name) or tvm.ir.GlobalVar(name): function.with_attr("global_symbol", name)
        for name, function in functions.items()
    }
    return tvm.IRModule({**dict(module.functions.items()), **new})


def list_result_types(function: relax.Function) -> list[tvm.ir.Type]:
    """Return the types of the results of a function, one per output."""
    returned = function.ret_ty
    return list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]


def find_outputs(
    main: relax.Function, bindings: list[relax.VarBinding]
) -> tuple[list[relax.Var], list[relax.VarBinding]]:
    """Return the variable of each output of ``main``, and new bindings for constant outputs."""
    values = {b.var: b.value for b in bindings}
    result = main.body.body
    result = values.get(result, result) if isinstance(result, relax.Var) else result
    fields = list(result.fields) if isinstance(result, relax.Tuple) else [main.body.body]
    outputs, constants = [], []
    for field in fields:
        value = field
        while isinstance(values.get(value), relax.Var | Constant):
            value = values[value]
        if isinstance(value, Constant):
            constants.append(relax.VarBinding(relax.Var("gv", value.ty), value))
            value = constants[-1].var
        outputs.append(value)
    return outputs, constants
