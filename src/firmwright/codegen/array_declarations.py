"""Removes unread local arrays and places the declarations of the other arrays.

An array of one element becomes a C variable. The innermost block that uses the variable declares it
with its first value. Therefore no compiler warns about an uninitialized variable.
"""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk

EFFECTS = frozenset({"tirx.call_extern", "tirx.tvm_call_packed", "tirx.tvm_call_cpacked"})
"""Calls that a body keeps even if their results are unused."""


POINTERS = frozenset({"tirx.address_of", "tirx.buffer_data"})


NOTHING = tirx.Evaluate(tirx.const(0))


def is_pointer(value: tvm.ir.Expr) -> bool:
    return isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") in POINTERS


def find_array(pointer: tvm.ir.Call) -> tirx.Var:
    """Return the array to which a pointer points."""
    (target,) = pointer.args
    return target.source if isinstance(target, tvm.ir.TensorLoad) else target


def list_statements(body: tirx.Stmt) -> list[tirx.Stmt]:
    if not isinstance(body, tirx.SeqStmt):
        return [body]
    return [inner for part in body.seq for inner in list_statements(part)]


def make_block(statements: list[tirx.Stmt]) -> tirx.Stmt:
    return statements[0] if len(statements) == 1 else tirx.SeqStmt(statements)


def drop_unread(module: tvm.IRModule) -> tvm.IRModule:
    functions = {
        name: function.with_body(drop_unread_arrays(function.body))
        for name, function in module.functions.items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def drop_unread_arrays(body: tirx.Stmt) -> tirx.Stmt:
    while unread := find_unread(body):

        def drop(statement: tirx.Stmt, unread: set[tirx.Var] = unread) -> tirx.Stmt:
            variable = statement.var if isinstance(statement, tirx.Bind) else statement.buffer
            return NOTHING if variable in unread else statement

        rules = (
            ((tirx.AllocBuffer, tirx.BufferStore, tirx.Bind), drop),
            (tirx.For, lambda loop: NOTHING if is_nothing(loop.body) else loop),
            (tirx.IfThenElse, drop_empty_branch),
        )
        body = structural_map(body, rules)
    return body


def drop_empty_branch(branch: tirx.IfThenElse) -> tirx.Stmt:
    is_empty = is_nothing(branch.then_case) and (
        branch.else_case is None or is_nothing(branch.else_case)
    )
    return NOTHING if is_empty else branch


def is_nothing(body: tirx.Stmt) -> bool:
    return all(
        isinstance(part, tirx.Evaluate) and isinstance(part.value, tirx.IntImm)
        for part in list_statements(body)
    )


def find_unread(body: tirx.Stmt) -> set[tirx.Var]:
    uses: Counter[tirx.Var] = Counter()
    local: set[tirx.Var] = set()

    def define(variable: tirx.Var, is_needed: bool = False) -> None:
        local.add(variable)
        uses[variable] -= not is_needed

    def note_store(store: tirx.BufferStore) -> None:
        if not has_effect(store.value):  # an array is unread if only its stores read it
            uses[store.buffer] -= 1 + count_uses(store.value, store.buffer)

    rules = (
        (tirx.Var, lambda variable: uses.update((variable,))),
        (tirx.AllocBuffer, lambda allocation: define(allocation.buffer)),
        (tirx.Bind, lambda binding: define(binding.var, has_effect(binding.value))),
        (tirx.BufferStore, note_store),
    )
    structural_walk(body, rules)
    return {variable for variable in local if not uses[variable]}


def has_effect(value: tirx.Expr) -> bool:
    effects: list[bool] = []

    def look(call: tvm.ir.Call) -> None:
        effects.append(getattr(call.op, "name", "") in EFFECTS)

    structural_walk(value, (tvm.ir.Call, look))
    return any(effects)


def find_scalars(body: tirx.Stmt) -> set[tirx.Var]:
    """Return the local arrays of one element without a pointer to them."""
    scalars: set[tirx.Var] = set()

    def note(allocation: tirx.AllocBuffer) -> None:
        if all(int(length) == 1 for length in allocation.buffer.shape):
            scalars.add(allocation.buffer)

    def drop_pointers(call: tvm.ir.Call) -> None:
        if is_pointer(call):
            scalars.discard(find_array(call))

    structural_walk(body, (tirx.AllocBuffer, note))
    structural_walk(body, (tvm.ir.Call, drop_pointers))
    return scalars


def count_uses(part: tirx.Stmt | tirx.Expr, array: tirx.Var) -> int:
    matches: list[bool] = []
    structural_walk(part, (tirx.Var, lambda variable: matches.append(variable.same_as(array))))
    return sum(matches)


def mentions(part: tirx.Stmt | tirx.Expr, array: tirx.Var) -> bool:
    return count_uses(part, array) > 0


def is_first_value(statement: tirx.Stmt, array: tirx.Var) -> bool:
    is_store = isinstance(statement, tirx.BufferStore) and statement.buffer.same_as(array)
    return is_store and not mentions(statement.value, array)


def place_scalars(body: tirx.Stmt, scalars: set[tirx.Var]) -> tirx.Stmt:
    """Move a scalar's declaration directly before its first value, if one block uses the scalar."""
    allocated: Counter[tirx.Var] = Counter()
    structural_walk(body, (tirx.AllocBuffer, lambda a: allocated.update((a.buffer,))))
    allocations: list[tirx.AllocBuffer] = []

    def take(allocation: tirx.AllocBuffer) -> tirx.Stmt:
        # An unrolled loop declares its arrays in each iteration.
        if allocation.buffer not in scalars or allocated[allocation.buffer] > 1:
            return allocation
        allocations.append(allocation)
        return NOTHING

    body = structural_map(body, (tirx.AllocBuffer, take))
    for allocation in allocations:
        placed = place(body, allocation)
        body = make_block([allocation, body]) if placed is None else placed
    return body


def place(body: tirx.Stmt, allocation: tirx.AllocBuffer) -> tirx.Stmt | None:
    """Return a block with the declaration before the first value, or None if impossible."""
    array, statements = allocation.buffer, list_statements(body)
    users = [number for number, part in enumerate(statements) if mentions(part, array)]
    first = statements[users[0]]
    if is_first_value(first, array):
        return make_block([*statements[: users[0]], allocation, *statements[users[0] :]])
    inner = place_inside(first, allocation) if len(users) == 1 else None
    if inner is None:
        return None
    return make_block([*statements[: users[0]], inner, *statements[users[0] + 1 :]])


def place_inside(statement: tirx.Stmt, allocation: tirx.AllocBuffer) -> tirx.Stmt | None:
    """Return a loop or branch whose body has the declaration, or None if impossible."""
    if isinstance(statement, tirx.For):
        header, inner = statement.extent, statement.body
    elif isinstance(statement, tirx.IfThenElse) and statement.else_case is None:
        header, inner = statement.condition, statement.then_case
    else:
        return None
    body = None if mentions(header, allocation.buffer) else place(inner, allocation)
    if body is None:
        return None
    if isinstance(statement, tirx.IfThenElse):
        return tirx.IfThenElse(header, body, None, statement.span)
    return tirx.For(
        statement.loop_var, statement.min, header, statement.kind, body,
        statement.thread_binding, statement.annotations, statement.step, statement.span,
    )  # fmt: skip


def begins_assigned(part: tirx.Stmt, array: tirx.Var) -> bool | None:
    """Return whether every path through a statement writes an array before reading it.

    Returns None if the statement does not use the array.
    """
    if not mentions(part, array):
        return None
    if isinstance(part, tirx.SeqStmt):
        results = (begins_assigned(inner, array) for inner in list_statements(part))
        return next(result for result in results if result is not None)
    if isinstance(part, tirx.For):
        runs = isinstance(part.extent, tirx.IntImm) and part.extent.value > 0
        return runs and begins_assigned(part.body, array) is True
    if isinstance(part, tirx.IfThenElse):
        cases = (part.then_case, part.else_case)
        is_tested = mentions(part.condition, array)
        return not is_tested and all(c and begins_assigned(c, array) for c in cases)
    return is_first_value(part, array)
