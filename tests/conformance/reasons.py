"""The reasons for which cases are refused, as sentences: messages name nodes and numbers."""

from __future__ import annotations

import re

from tests.conformance.case import Outcome

SENTENCES = (
    (r"is object, which", "It works on strings."),
    (r"of a non-tensor type|is a sequence, not|SequenceMap|seq_empty|_EmptyOptional",
     "It works on sequences or optional values; firmware has tensors of fixed shapes."),
    (r"has no static shape|only run time tells|Loop|has no elements: its shape is \[0\]$",
     "Only run time tells an output's length; firmware needs fixed shapes."),
    (r"has no elements", "An output has no elements."),
    (r"training mode|preview\.training|no defined value in opset",
     "It trains the network, or draws what to drop."),
    (r"Bernoulli|Random|Multinomial", "It draws random numbers."),
    (r"control flow", "A condition or a trip count is known at run time only."),
    (r"output image size", "Resize keeps an aspect ratio to a size that is rounded up."),
    (r"operator MaxUnpool", "TVM's converter does not take a constant output_shape."),
    (r"only \d of its \d results", "TVM computes the first of its results only."),
    (r"mode max", "RoiAlign's mode max: TVM does not compute what ONNX defines."),
    (r"ai\.onnx\.ml", "An operator of classical machine learning; TVM has no converter."),
    (r"operators that cannot be compiled:\n  [\w.]+ \(node '[^']*'\)\n  export",
     "TVM has no converter."),
)  # fmt: skip
"""Patterns of messages, and what they say to a reader of the page; the first that fits holds."""


def sentence(outcome: Outcome) -> str:
    """Return the reason as a sentence; a message that no pattern fits stands for itself."""
    for pattern, text in SENTENCES:
        if re.search(pattern, outcome.reason):
            return text
    message = re.sub(r" ?\((node )?'[^']*'\)", "", outcome.reason)
    return " ".join(message.split())
