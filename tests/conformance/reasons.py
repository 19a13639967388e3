"""The reasons for rejected cases, as sentences without the nodes and numbers of the messages."""

from __future__ import annotations

import re

from tests.conformance.case import Outcome

RUN_TIME = "The length of an output is known only at run time; firmware needs fixed shapes."
PICTURE = "The encoded picture decides the size of the output."
RANDOM = "It draws random numbers, so that no expected output is right."
TRAINING = "It trains a network; firmware is for inference."

DECIDED_BY_INPUTS = (RUN_TIME, PICTURE, RANDOM)
"""Reasons in the values of a case's inputs, or in chance; no compiler can support these."""

SENTENCES = (
    (r"of a non-tensor type|is a sequence, not",
     "It works on sequences or optional values; firmware has tensors of fixed shapes."),
    (r"has no static shape|known only at run time", RUN_TIME),
    (r"Bernoulli|Random|Multinomial|Dropout.*training mode", RANDOM),
    (r"training operators|in training mode", TRAINING),
    (r"ImageDecoder", PICTURE),
    (r"operators that cannot be compiled:\n  [\w.]+ \(node '[^']*'\)\n  export",
     "TVM has no converter."),
)  # fmt: skip
"""Patterns of messages, and their sentences on the page; the first match applies."""


def sentence(outcome: Outcome) -> str:
    """Return the reason as a sentence; a message without a pattern is its own sentence."""
    for pattern, text in SENTENCES:
        if re.search(pattern, outcome.reason):
            return text
    message = re.sub(r" ?\((node )?'[^']*'\)", "", outcome.reason)
    return " ".join(message.split())
