"""Removes attributes that ONNX does not define, because tools write notes into a graph."""

from __future__ import annotations

import onnx


def drop_unknown_attributes(model: onnx.ModelProto) -> tuple[str, ...]:
    """Remove attributes of ONNX's operators that ONNX does not define, and return a note.

    For example, quantlab writes ``weight_bits``, and DORY's tools write ``in1_add``. No operator
    reads these attributes.
    """
    versions = {opset.domain or "ai.onnx": opset.version for opset in model.opset_import}
    dropped: dict[str, int] = {}
    for node in model.graph.node:
        version = versions.get(node.domain or "ai.onnx")
        if version is None or not is_text(node.op_type):
            continue
        if not onnx.defs.has(node.op_type, version, node.domain):
            continue
        known = onnx.defs.get_schema(node.op_type, version, node.domain).attributes
        unknown = [a for a in node.attribute if is_text(a.name) and a.name not in known]
        for attribute in unknown:
            dropped[attribute.name] = dropped.get(attribute.name, 0) + 1
            node.attribute.remove(attribute)
    if not dropped:
        return ()
    listed = ", ".join(f"{name} ({count} times)" for name, count in sorted(dropped.items()))
    return (f"attributes that ONNX does not define are ignored: {listed}",)


def is_text(name: str | bytes) -> bool:
    """Return whether a name in a damaged file is text; names that are not UTF-8 are bytes."""
    return isinstance(name, str)


def has_only_text(node: onnx.NodeProto) -> bool:
    """Return whether the operator of a node and all text of the node's attributes are UTF-8."""
    texts = (text for a in node.attribute for text in (a.s, *a.strings))
    try:
        b"\n".join(texts).decode()
    except UnicodeDecodeError:
        return False
    return is_text(node.op_type)
