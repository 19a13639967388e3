"""Selects one of the networks of a TFLite file by the name of its signature."""

from __future__ import annotations

from typing import Any

from ai_edge_litert import schema_py_generated as schema

from firmwright.errors import UserError, did_you_mean
from firmwright.models.tflite.checks import RENEW, decode_text
from firmwright.models.tflite.importer import check_file
from firmwright.models.tflite.repairs import pack


def select_signature(data: bytes, name: str, signature: str) -> bytes:
    """Return the model with the subgraph of a signature as its first subgraph.

    The other signatures are removed. Raises UserError if the signature or its subgraph does not
    exist.
    """
    data, _ = check_file(data, name)
    model: Any = schema.ModelT.InitFromPackedBuf(data, 0)
    known = {decode_text(s.signatureKey): s for s in model.signatureDefs or ()}
    if signature not in known:
        hint = did_you_mean(signature, known) or "; the model has no signatures: remove the name"
        raise UserError(f"the model has no signature '{signature}'{hint}")
    selected = known[signature]
    index = selected.subgraphIndex
    if index >= len(model.subgraphs):
        raise UserError(
            f"a damaged TFLite model: the signature '{signature}' belongs to subgraph "
            f"{index}; the file has {len(model.subgraphs)}; {RENEW}"
        )
    exchange_subgraphs(model, index)
    selected.subgraphIndex = 0
    model.signatureDefs = [selected]
    return pack(model, len(data))


def exchange_subgraphs(model: Any, index: int) -> None:
    """Exchange the first subgraph and another subgraph, also in the options of operators."""
    if index == 0:
        return
    graphs, moved = model.subgraphs, {0: index, index: 0}
    graphs[0], graphs[index] = graphs[index], graphs[0]
    for operator in (o for graph in graphs for o in graph.operators or ()):
        options = operator.builtinOptions
        for key in [] if options is None else vars(options):
            if key == "subgraph" or key.endswith("SubgraphIndex"):
                referred = getattr(options, key)
                setattr(options, key, moved.get(referred, referred))
