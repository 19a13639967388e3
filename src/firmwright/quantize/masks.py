"""Limits the masks of attention, so that masks and scores can share quantization parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

import numpy as np
import onnx
from onnx import numpy_helper

from firmwright.data.samples import Sample
from firmwright.quantize.float_graph import (
    Array,
    evaluate,
    find_readers,
    read_constants,
    remove_unread,
)

MASKED = -1e4
"""The maximum value of a mask.

The softmax is 0 if this value replaces a score or is added to a score.
"""
MARGIN = 10.0
"""The distance of a masked score from the minimum score. The weight of the masked score is
1/20,000 of the weight of the minimum score, less than a step of 8 bits.
"""


class Mask(NamedTuple):
    """A constant that masks scores: input number ``position`` of the node that computes ``result``.

    ``added`` has the other values that may be added to the scores, or is None if the mask replaces
    scores.
    """

    result: str
    position: int
    array: Array
    scores: str
    added: Array | None


def bound_masks(model: onnx.ModelProto, samples: Sequence[Sample]) -> onnx.ModelProto:
    """Return the graph with higher masks before each softmax, as high as the scores allow.

    A mask is -inf, the smallest number of float32, or -10000. The range of the scores on
    ``samples`` determines the new number.
    """
    masks = list(find_masks(model))
    if not masks:
        return model
    names = sorted({mask.scores for mask in masks})
    lowest, highest = dict.fromkeys(names, np.inf), dict.fromkeys(names, -np.inf)
    for arrays in evaluate(model, samples, names):
        for name, scores in arrays.items():
            lowest[name] = min(lowest[name], float(scores.min()))
            highest[name] = max(highest[name], float(scores.max()))
    bounds: dict[tuple[str, int], float] = {}
    for mask in masks:
        low, high = lowest[mask.scores], highest[mask.scores]
        bound = low - MARGIN
        if mask.added is not None:
            reach = high - low + (np.ptp(mask.added) if mask.added.size else 0.0)
            bound = mask.added.min(initial=0.0) - reach - MARGIN
        key = mask.result, mask.position
        bounds[key] = min(bound, bounds.get(key, bound))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    nodes = {node.output[0]: node for node in result.graph.node}
    for (made, position), array in {(m.result, m.position): m.array for m in masks}.items():
        least = np.float32(bounds[made, position])
        bounded = np.where(array <= MASKED, np.maximum(array, least), array)
        nodes[made].input[position] = f"{made}/mask"
        result.graph.initializer.append(numpy_helper.from_array(bounded, f"{made}/mask"))
    remove_unread(result)
    return result


POSITIONS = {"Add": ((0, 1), (1, 0)), "Where": ((1, 2), (2, 1))}
"""The possible input positions of the scores and of the mask, by operator."""


def find_masks(model: onnx.ModelProto) -> Iterator[Mask]:
    """Yield the constants that mask scores for a softmax, also if a Where selects them."""
    constants, readers = read_constants(model), find_readers(model)
    makers = {node.output[0]: node for node in model.graph.node if node.output}

    def masks_scores(node: onnx.NodeProto) -> bool:
        after = readers.get(node.output[0], []) if node.output else []
        return bool(after) and all(reader.op_type == "Softmax" for reader in after)

    for node in filter(masks_scores, model.graph.node):
        for scores, position in POSITIONS.get(node.op_type, ()):
            name, masked = node.input[position], node.input[scores]
            array, chosen = constants.get(name), makers.get(name)
            if node.op_type == "Where":
                if is_mask(array):
                    yield Mask(node.output[0], position, array, masked, None)
            elif is_mask(array):
                yield Mask(node.output[0], position, array, masked, array[array > MASKED])
            elif chosen is not None and all(
                r.op_type == "Add" and masks_scores(r) for r in readers[name]
            ):
                yield from find_chosen(chosen, masked, constants)


def find_chosen(
    node: onnx.NodeProto, scores: str, constants: Mapping[str, Array]
) -> Iterator[Mask]:
    """Yield the mask of a Where between two constants whose result is added to scores."""
    for position, other in POSITIONS["Where"] if node.op_type == "Where" else ():
        array, added = (constants.get(node.input[n]) for n in (position, other))
        if is_mask(array) and added is not None:
            yield Mask(node.output[0], position, array, scores, added)


def is_mask(array: Array | None) -> TypeGuard[Array]:
    return array is not None and array.dtype == np.float32 and bool((array <= MASKED).any())
