"""Names the inputs and outputs of a TFLite model according to the model's signature."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from firmwright.models.tflite.checks import decode_text, to_ints


@dataclass(frozen=True)
class PortNames:
    """The names of the inputs and outputs in their order, and a note about unused names."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def name_ports(model: Any, inputs: Sequence[str], outputs: Sequence[str]) -> PortNames:
    """Return the names of the first subgraph's inputs and outputs.

    Tensor names of a converter, such as ``serving_default_x:0``, depend on the converter's version.
    The author chose the names of the signature. ``inputs`` and ``outputs`` are the names of the
    tensors. The tensor names remain if the file does not have exactly one signature, or if a name
    repeats.
    """
    tensors = PortNames(tuple(inputs), tuple(outputs))
    if model.SignatureDefsLength() != 1:
        return tensors
    signature, graph = model.SignatureDefs(0), model.Subgraphs(0)
    given = map(signature.Inputs, range(signature.InputsLength()))
    made = map(signature.Outputs, range(signature.OutputsLength()))
    named = PortNames(
        tuple(replace_names(given, to_ints(graph.InputsAsNumpy()), inputs)),
        tuple(replace_names(made, to_ints(graph.OutputsAsNumpy()), outputs)),
    )
    counts = Counter((*named.inputs, *named.outputs))
    repeated = next((name for name, count in counts.items() if count > 1), None)
    if repeated is None or named == tensors:
        return named
    key = decode_text(signature.SignatureKey())
    remark = (
        f"the signature '{key}' repeats the name '{repeated}', so these inputs and outputs have "
        "the names of their tensors; state a `c_name` for each"
    )
    pairs = zip((*named.inputs, *named.outputs), (*inputs, *outputs), strict=True)
    mixed = tuple(tensor if counts[name] > 1 else name for name, tensor in pairs)
    if len({*mixed}) < len(mixed):
        return PortNames(tensors.inputs, tensors.outputs, (remark,))
    return PortNames(mixed[: len(inputs)], mixed[len(inputs) :], (remark,))


def replace_names(maps: Iterable[Any], indices: Sequence[int], names: Sequence[str]) -> list[str]:
    """Return the names of tensors according to a signature's maps.

    Other tensors keep their names.
    """
    stated = defaultdict[int, list[str]](list)
    for each in maps:
        if each.Name():
            name = decode_text(each.Name()).replace("\0", "\N{REPLACEMENT CHARACTER}")
            stated[each.TensorIndex()].append(name)
    pairs = zip(indices, names, strict=True)
    return [stated[index].pop(0) if stated[index] else name for index, name in pairs]
