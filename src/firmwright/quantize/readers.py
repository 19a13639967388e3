"""ONNX Runtime's model, with an index of readers: its own asks every node, for each tensor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import onnx
from onnxruntime.quantization.onnx_model import ONNXModel


class IndexedModel(ONNXModel):  # type: ignore[misc]
    """A model that finds at once the nodes that are to read another tensor."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self.readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        self.indexed = 0  # nodes

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str) -> None:
        self.replace_input(old_input_name, new_input_name, None)

    def replace_input_of_nodes(
        self, old_input_name: str, new_input_name: str, node_names_set: Collection[str]
    ) -> None:
        self.replace_input(old_input_name, new_input_name, node_names_set)

    def replace_input(self, old: str, new: str, names: Collection[str] | None) -> None:
        """Let nodes read a tensor in place of another one; those of ``names`` where stated."""
        for node in self.nodes()[self.indexed :]:
            for name in dict.fromkeys(node.input):
                self.readers[name].append(node)
        self.indexed = len(self.nodes())
        kept = []
        for node in self.readers.pop(old, []):
            if names is not None and node.name not in names:
                kept.append(node)
            else:
                self.replace_node_input(node, old, new)
                self.readers[new].append(node)
        if kept:
            self.readers[old] = kept
