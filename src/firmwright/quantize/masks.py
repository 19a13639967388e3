"""Masks of attention: numbers that no grid can hold beside scores become such that it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from firmwright.data.samples import Sample
from firmwright.quantize.graph import Array, evaluate, find_readers

MASKED = -1e4
"""What is added to a score, or stands in its place, below this makes a softmax 0."""
MARGIN = 10.0
"""How far a masked score is below the least one: it counts 1/20,000 of that, no step of 8 bits."""


def bound_masks(model: onnx.ModelProto, samples: Sequence[Sample]) -> onnx.ModelProto:
    """Return the graph with masks in front of a softmax that reach no further than they must.

    A mask is -inf, or the least number of float32. The scores on ``samples`` tell what will do.
    """
    masks = list(find_masks(model))
    if not masks:
        return model
    names = sorted({node.input[place] for node, place, _ in masks})
    lowest, highest = dict.fromkeys(names, np.inf), dict.fromkeys(names, -np.inf)
    for found in evaluate(model, samples, names):
        for name, scores in found.items():
            lowest[name] = min(lowest[name], float(scores.min()))
            highest[name] = max(highest[name], float(scores.max()))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    nodes = {node.output[0]: node for node in result.graph.node}
    for node, scores_at, mask_at in masks:
        scores, array = node.input[scores_at], read_constants(model)[node.input[mask_at]]
        masked = array < MASKED
        if node.op_type == "Add":
            added = array[~masked]
            reach = highest[scores] - lowest[scores] + (np.ptp(added) if added.size else 0.0)
            least = added.min(initial=0.0) - reach - MARGIN
        else:
            least = lowest[scores] - MARGIN
        name = f"{node.output[0]}/mask"
        bounded = np.where(masked, np.float32(least), array)
        result.graph.initializer.append(numpy_helper.from_array(bounded, name))
        nodes[node.output[0]].input[mask_at] = name
    remove_unread(result)
    return result


def find_masks(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, int, int]]:
    """Yield nodes that mask scores for a softmax, with the places of scores and mask."""
    constants, readers = read_constants(model), find_readers(model)
    pairs = {"Add": ((0, 1), (1, 0)), "Where": ((1, 2), (2, 1))}
    for node in model.graph.node:
        after = readers.get(node.output[0], []) if node.output else []
        if not after or any(reader.op_type != "Softmax" for reader in after):
            continue
        for scores, mask in pairs.get(node.op_type, ()):
            array = constants.get(node.input[mask])
            if array is not None and array.dtype == np.float32 and (array < MASKED).any():
                yield node, scores, mask


def read_constants(model: onnx.ModelProto) -> dict[str, Array]:
    return {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}


def remove_unread(model: onnx.ModelProto) -> None:
    read = find_readers(model)
    kept = [i for i in model.graph.initializer if i.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
