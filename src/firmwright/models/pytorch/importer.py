"""Imports PyTorch programs in the form of ``torch.export.save`` (.pt2) with TVM's importer."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt
import torch
import tvm
from torch.utils import _pytree as pytree
from tvm import relax

from firmwright.errors import UserError, first_line
from firmwright.ir.relax import list_result_types, rename_variables
from firmwright.ir.tensors import ModelInterface, Operator, State, Tensor
from firmwright.models.formats import Imported, ReferenceOutputs, Samples, Shapes
from firmwright.models.importing import refuse_operators, run_importer, suppress_output
from firmwright.models.pytorch.changed_buffers import expose_states, move_states_last
from firmwright.models.pytorch.complex_numbers import COMPLEX, is_complex, store_pairs, uses_complex
from firmwright.models.pytorch.corrections import FIRST_RESULT_ALONE, WHOLE, TorchImporter
from firmwright.models.pytorch.decompositions import DECOMPOSITIONS
from firmwright.models.pytorch.dynamic_shapes import fix_shapes
from firmwright.models.pytorch.evaluation import to_numpy, to_torch, use_one_thread
from firmwright.models.pytorch.inserted_operators import state_types, write_out_conditions
from firmwright.models.pytorch.loading import load_program
from firmwright.models.pytorch.nodes import (
    describe,
    draws_numbers,
    find_call_nodes,
    has_open_size,
    kind_of,
    label_nodes,
    name_variables,
    restore_locations,
)
from firmwright.models.pytorch.quantization import list_decompositions
from firmwright.models.pytorch.recurrent import CELLS, are_written_out
from firmwright.models.relax.importer import bind_shapes, check_calls, format_shape, make_tensor
from firmwright.models.sequence import run_in_sequence

ASSERTIONS = (
    torch.ops.aten._assert_async.default,
    torch.ops.aten._assert_async.msg,
    torch.ops.aten._assert_tensor_metadata.default,
)


def import_model(data: bytes, name: str, shapes: Shapes) -> Imported:
    """Import an exported program as :class:`firmwright.models.formats.Importer` describes."""
    program, remarks = fix_shapes(load_program(data, name), shapes, name)
    core, states = simplify(program, name)
    check_operators(core, name)
    labels = label_nodes(core)
    importer = TorchImporter(core)
    try:
        module = run_importer(
            name, lambda: importer.from_exported_program(core, False, True, False, None)
        )
    except UserError:
        with suppress_output():
            importer.block_builder = None  # so that TVM does not report an unfinished builder
        raise
    check_results(importer, name)
    module = rename_variables(module, name_variables(importer, labels))
    module = bind_shapes(module, shapes, name)
    module = move_states_last(module, states)
    check_calls(module, name)
    input_count = len(module["main"].params) - len(states)
    outputs = collect_outputs(module, program, name, len(states))
    interface = ModelInterface(
        format="pt2",
        sha256=hashlib.sha256(data).hexdigest(),
        inputs=tuple(
            make_tensor(str(p.name), p.ty, name) for p in module["main"].params[:input_count]
        ),
        outputs=outputs,
        operators=tuple(
            Operator(labels.get(n.name, n.name), kind_of(n), (n.name,))
            for n in find_call_nodes(core)
        ),
        states=tuple(states.values()),
        remarks=remarks,
        output_tensors=find_output_nodes(core, outputs),
    )
    return module, interface


def find_output_nodes(
    core: torch.export.ExportedProgram, outputs: Sequence[Tensor]
) -> dict[str, str]:
    """Map the outputs to their nodes, which have other names if torch decomposed an operator."""
    *_, last = core.graph.nodes
    nodes = last.args[0][-len(outputs) :]  # states are first
    pairs = zip(outputs, nodes, strict=True)
    return {tensor.name: node.name for tensor, node in pairs if isinstance(node, torch.fx.Node)}


def simplify(
    program: torch.export.ExportedProgram, name: str
) -> tuple[torch.export.ExportedProgram, dict[str, State]]:
    """Return the program in the operators that are imported, and its states by their inputs."""
    core = decompose(program, name)
    write_out_conditions(core.graph_module, name)
    check_ports(core, name)
    store_pairs(core)
    states = expose_states(core, name)
    drop_assertions(core)
    state_types(core)
    return core, states


def decompose(program: torch.export.ExportedProgram, name: str) -> torch.export.ExportedProgram:
    """Return the program in torch's core operators, which TVM's importer expects.

    Recurrent layers that the importer unrolls are not decomposed. Operators in :data:`WHOLE`, which
    the importer converts, also stay whole.
    """
    with suppress_output():
        try:
            table = torch.export.default_decompositions()
            for kept in WHOLE:
                table.pop(kept, None)
            table.update(DECOMPOSITIONS | list_decompositions())
            if are_written_out(program):
                for kind in CELLS:
                    table.pop(kind, None)
            core = program.run_decompositions(table)
            restore_locations(program, core)
            return core
        except UserError as error:
            raise UserError(f"{name}: {error}") from None
        except Exception as error:  # torch raises exceptions of many types
            failure = first_line(error)
    raise UserError(
        f"{name}: torch cannot decompose the program: {failure}; export it with torch "
        f"{torch.__version__}"
    )


def check_ports(program: torch.export.ExportedProgram, name: str) -> None:
    *_, output = program.graph.nodes
    inputs = program.graph_signature.user_inputs
    ports = [n for n in program.graph.nodes if n.name in inputs] + output.all_input_nodes
    names = [n.name for n in ports if is_complex(n)]
    if names:
        raise UserError(
            f"{name}: inputs or outputs are complex: {', '.join(names)}; use their real and "
            "imaginary parts, torch.view_as_real and torch.view_as_complex"
        )


def check_operators(program: torch.export.ExportedProgram, name: str) -> None:
    """Raise UserError with all operators that have no converter or no comparable result."""
    importer = TorchImporter(program)
    lines = [
        f"  {describe(node)}{reason}"
        for node in find_call_nodes(program)
        if node not in importer.numbers
        for reason in find_objections(node, importer.convert_map)
    ]
    if lines:
        refuse_operators(name, lines)


def find_objections(node: torch.fx.Node, known: Collection[str]) -> Iterator[str]:
    """Yield the reasons why an operator cannot be compiled.

    The reason is empty if the operator has no converter.
    """
    if draws_numbers(node):
        yield ": it draws random numbers (dropout does not in inference mode, model.eval())"
    elif has_open_size(node):
        yield (
            ": the size of its result depends on the values of its input, but firmware needs fixed "
            "sizes"
        )
    elif node.target.__name__ not in known:
        yield ""
    elif uses_complex(node) and node.target.__name__ not in COMPLEX:
        yield " of complex numbers"
    others = [u for u in node.users if u.target is operator.getitem and u.args[1] and u.users]
    if kind_of(node) in FIRST_RESULT_ALONE and others:
        yield ": only its first result is computed"


def drop_assertions(program: torch.export.ExportedProgram) -> None:
    """Remove torch's run-time assertions, because firmware cannot report failures."""
    asserted = [node for node in find_call_nodes(program) if node.target in ASSERTIONS]
    for node in asserted:
        program.graph.erase_node(node)
    if asserted:
        program.graph.eliminate_dead_code()


def check_results(importer: TorchImporter, name: str) -> None:
    """Raise UserError if an operator's results in TVM and in torch differ in shape or type."""
    lines = [
        f"  {describe(node)}: {difference}"
        for node, value in importer.env.items()
        for difference in find_differences(node.meta.get("val"), getattr(value, "ty", None))
    ]
    if lines:
        advice = "  replace these operators, and please report the problem with the model"
        raise UserError("\n".join([f"{name}: operators that TVM misreads:", *lines, advice]))


def find_differences(stated: Any, kind: Any) -> Iterator[str]:
    """Yield the differences between a tensor in TVM and the tensor in torch. Tuples are skipped."""
    if not isinstance(stated, torch.Tensor) or not isinstance(kind, relax.TensorType):
        return
    pair = [2] if stated.is_complex() else []
    wanted, shape = [*stated.shape, *pair], list(kind.shape or ())
    static = all(isinstance(d, int) for d in wanted)
    if static and [int(d) for d in shape if isinstance(d, tvm.tirx.IntImm)] != wanted:
        yield f"shape {wanted} became {format_shape(shape)}"
    dtype = str(stated.dtype.to_real()).removeprefix("torch.")
    if str(kind.dtype) != dtype:
        yield f"type {dtype} became {kind.dtype}"


def collect_outputs(
    module: tvm.IRModule, program: torch.export.ExportedProgram, name: str, states: int
) -> tuple[Tensor, ...]:
    """Return the outputs of the program. The last ``states`` results are states.

    Raises UserError if an output is not a tensor.
    """
    types = list_result_types(module["main"])
    types = types[: len(types) - states]
    names = [str(n) for n in program.graph_signature.user_outputs]
    if len(names) != len(types):
        problem = f"some of the program's outputs are not tensors: {names}"
        raise UserError(f"{name}: {problem}; export a model that returns only tensors")
    return tuple(make_tensor(label, t, name) for label, t in zip(names, types, strict=True))


def run_reference(data: bytes, inputs: Samples, states: Sequence[State] = ()) -> ReferenceOutputs:
    """Evaluate the samples with torch, operator by operator, in one thread.

    Raises UserError if torch cannot run the model.
    """
    program = load_program(data, "model")
    names = [str(n) for n in program.graph_signature.user_inputs]
    outputs = [str(n) for n in program.graph_signature.user_outputs]
    module = program.module()

    def run(given: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        flat = [to_torch(given[n]) for n in names]
        arguments, options = pytree.tree_unflatten(flat, program.call_spec.in_spec)
        with torch.inference_mode():
            tensors = pytree.tree_leaves(module(*arguments, **options))
        return [to_numpy(tensor) for tensor in tensors]

    with use_one_thread():
        results = run_in_sequence(inputs, states, outputs, run)
    return ReferenceOutputs(f"torch {torch.__version__} (eager, one thread)", results)
