"""Exposes the states of a PyTorch program. The states are the buffers that the program changes."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.export.graph_signature import InputKind, OutputKind

from firmwright.errors import UserError
from firmwright.ir.nodes import IRModule
from firmwright.ir.tensors import State, Tensor
from firmwright.models.state_pairs import reorder_ports

BATCH_STATISTICS = frozenset({"running_mean", "running_var", "num_batches_tracked"})
"""Buffers that batch normalization changes only during training."""


def expose_states(program: torch.export.ExportedProgram, name: str) -> dict[str, State]:
    """Make inputs from the buffers that a program changes, and outputs from their next values.

    The next values are the first outputs. Return a dictionary of input names and states, in the
    order of the outputs. Raises UserError if the program is in training mode, or if the program
    changes inputs.
    """
    signature = program.graph_signature
    changed = signature.buffers_to_mutate
    training = [b for b in changed.values() if b.rpartition(".")[2] in BATCH_STATISTICS]
    refused = sorted({*training, *signature.user_inputs_to_mutate.values()})
    if refused:
        raise UserError(
            f"{name}: the program changes its state ({', '.join(refused)}); export the model "
            "in inference mode, model.eval()"
        )
    buffers = dict(program.named_buffers())
    inputs = {s.target: s for s in signature.input_specs if s.kind is InputKind.BUFFER}
    states = {}
    for made in (s for s in signature.output_specs if s.kind is OutputKind.BUFFER_MUTATION):
        given = inputs[made.target]
        states[given.arg.name] = make_state(str(made.target), buffers[str(made.target)])
        program.constants.pop(
            str(made.target), None
        )  # the constants contain the buffers that are not persistent
        given.kind, given.target = InputKind.USER_INPUT, None
        made.kind, made.target = OutputKind.USER_OUTPUT, None
    return states


def make_state(name: str, buffer: torch.Tensor) -> State:
    dtype = str(buffer.dtype).removeprefix("torch.")
    stored = buffer.detach().cpu().contiguous()
    array = (stored.view(torch.int16) if dtype == "bfloat16" else stored).numpy()
    little = array.astype(array.dtype.newbyteorder("<"))
    return State(Tensor(name, tuple(buffer.shape), dtype), little.tobytes())


def move_states_last(module: IRModule, states: Collection[str]) -> IRModule:
    """Move the states after the other inputs, and the first outputs after the other outputs.

    ``states`` contains the names of the inputs that are states.
    """
    if not states:
        return module
    names = [str(parameter.name) for parameter in module["main"].params]
    moved = [names.index(name) for name in states]
    others = [i for i in range(len(names)) if i not in moved]
    outputs = range(len(module["main"].ret_ty.fields))
    count = len(states)
    return reorder_ports(module, [*others, *moved], [*outputs[count:], *outputs[:count]])
