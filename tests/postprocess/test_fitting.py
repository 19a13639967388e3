"""A detection that does not fit the outputs: one message with all errors."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor
from firmwright.postprocess.detector import fit_detector
from firmwright.recipe.postprocess import Confidence, Detection, Head

from .compiled import detection

GRID = (Tensor("y", (1, 8, 4, 8), "float32"),)
LIST = (Tensor("y", (1, 40, 8), "float32"),)
TWO = (*GRID, Tensor("z", (1, 8, 2, 4), "float32"))
INTEGERS = (Tensor("y", (1, 8, 4, 8), "int8"),)
BATCH = (Tensor("y", (2, 8, 4, 8), "float32"),)


@pytest.mark.parametrize(
    ("stated", "outputs", "message"),
    [
        (
            detection("offset-exp"),
            TWO,
            "head 0: the network has several outputs; state `output`: y, z",
        ),
        (detection("offset-exp", heads=(Head("x"),)), GRID, "no output 'x'"),
        (
            detection("offset-exp"),
            LIST,
            "has shape [1, 40, 8]; the recipe's `layout`, NCHW, has 4 axes",
        ),
        (
            detection("offset-exp"),
            BATCH,
            "several samples at once; export the network for one, and state `batch`",
        ),
        (detection("offset-exp"), INTEGERS, "output 'y' is int8; expected float32, or int8"),
        (detection("offset-exp", heads=(Head(stride=16),)), GRID, "a grid of 8 x 4 cells"),
        (detection("offset-exp", heads=(Head(anchors=((1, 1),)),)), GRID, "has no anchors"),
        (detection("sigmoid-exp"), GRID, "needs anchors"),
        (
            detection("sigmoid-exp", heads=(Head(anchors=((1, 1),) * 3),)),
            GRID,
            "8 channels are not a multiple of 3 anchors",
        ),
        (
            detection("sigmoid-exp", heads=(Head(anchors=((1, 1),) * 2),)),
            GRID,
            "has 4 channels per anchor; box, objectness and 3 classes need 8",
        ),
        (detection("offset-exp", layout="NLC"), LIST, "needs the head's `stride`"),
        (
            detection("offset-exp", layout="NLC", heads=(Head(stride=5),)),
            LIST,
            "64 x 32 pixels are not a multiple of the stride 5",
        ),
        (
            detection("offset-exp", layout="NLC", heads=(Head(stride=8),)),
            LIST,
            "output 'y' has 40 cells; the heads have 32",
        ),
        (
            detection("offset-exp", layout="NLC", heads=(Head(stride=8), Head(stride=8))),
            LIST,
            "head 1: 8 x 4 cells with 1 boxes each do not fit the 8 remaining",
        ),
        (
            detection("offset-exp", objectness=Confidence(3)),
            GRID,
            "the channels of box (0 to 3) and objectness (from 3) overlap",
        ),
    ],
)
def test_mistake(stated: Detection, outputs: Sequence[Tensor], message: str) -> None:
    with pytest.raises(UserError) as raised:
        fit_detector(stated, 3, tuple(outputs))
    assert str(raised.value).startswith("the detection does not fit the network's outputs")
    assert message in str(raised.value)


def test_all_mistakes_at_once() -> None:
    heads = (Head("x"), Head("y", stride=3))
    stated = structs.replace(detection("offset-exp", objectness=Confidence(2)), heads=heads)
    with pytest.raises(UserError) as raised:
        fit_detector(stated, 3, GRID)
    assert len(str(raised.value).splitlines()) == 4
