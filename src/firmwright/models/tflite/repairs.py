"""What may be missing in a good TFLite model, and TVM's importer relies on.

It tells tensors apart by name, and a name may be missing, no text, or another tensor's. It reads
a shape of every tensor, and that of a scalar may be missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tflite


def repair(data: bytes) -> bytes:
    """Return the model with a name of its own and a shape for each tensor of the first subgraph.

    A model that has them is returned as it is.
    """
    graph = tflite.Model.GetRootAsModel(data, 0).Subgraphs(0)
    tensors = [graph.Tensors(i) for i in range(graph.TensorsLength())]
    names = [t.Name() for t in tensors]
    own = make_unique_names(names)
    if [n.encode() for n in own] == names and not any(t.ShapeIsNone() for t in tensors):
        return data
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromPackedBuf(data, 0)
    for tensor, name in zip(model.subgraphs[0].tensors, own, strict=True):
        tensor.name = name
        tensor.shape = [] if tensor.shape is None else tensor.shape
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def make_unique_names(names: Sequence[bytes | None]) -> list[str]:
    """Return a name for each tensor: its own if no other has it, else with its number."""
    readable = [decode_name(name) for name in names]
    taken = set(readable)
    seen: set[str] = set()
    result = []
    for index, name in enumerate(readable):
        own = name
        if not name or name in seen:
            own = f"{name or 'tensor'}_{index}"
            while own in taken:
                own += "_"
            taken.add(own)
        seen.add(name)
        result.append(own)
    return result


def decode_name(name: bytes | None) -> str:
    """Return the name as text; LiteRT reads names up to a NUL."""
    return (name or b"").decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
