"""Appends the activation functions of recurrent operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firmwright.models.onnx.graph.body import NodeBuilder

DEFAULTS: Mapping[str, tuple[float, ...]] = {
    "Affine": (0, 0),
    "Elu": (1,),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01,),
    "Relu": (),
    "ScaledTanh": (0, 0),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": (0,),
}
"""The default parameters alpha and beta of each function in ONNX Runtime."""


@dataclass(frozen=True)
class Activation:
    """An activation function of ONNX, and its alpha and beta.

    The argument of the function is clipped to the magnitude ``limit``, unless ``limit`` is 0.
    """

    name: str
    parameters: tuple[float, ...]
    limit: float = 0

    def add(self, body: NodeBuilder, value: str, dtype: np.dtype[Any], label: str = "") -> str:
        """Append the function of a value of type ``dtype``.

        ``label`` names the function's result.
        """
        if self.limit:
            limits = (body.constant(n, dtype) for n in (-self.limit, self.limit))
            value = body.add("Clip", value, *limits)
        operator, operands, stated = self.name, [value], {}
        if self.name in ("Affine", "ScaledTanh"):
            alpha, beta = (body.constant(n, dtype) for n in self.parameters)
            if self.name == "Affine":
                operator, operands = "Add", [body.add("Mul", value, alpha), beta]
            else:
                inner = body.add("Tanh", body.add("Mul", value, beta))
                operator, operands = "Mul", [inner, alpha]
        else:
            stated = dict(zip(("alpha", "beta"), self.parameters, strict=False))
        if label:
            return body.add_as(label, operator, *operands, **stated)
        return body.add(operator, *operands, **stated)


def read_activations(
    body: NodeBuilder, standard: Sequence[str], directions: int
) -> list[list[Activation]]:
    """Return the functions of each direction, in the order of the operator's definition.

    The values of alpha and beta are in the order of the functions that use these values.
    """
    names = [a.decode() for a in body.attribute("activations", [])]
    names = names or [*standard] * directions
    known = {name.lower(): name for name in DEFAULTS}
    unknown = [name for name in names if name.lower() not in known]
    if unknown or len(names) != len(standard) * directions:
        body.refuse_inconsistent(
            f"its activations are {', '.join(names)}; expected {len(standard)} per direction, "
            f"{len(standard) * directions} in total, from {', '.join(DEFAULTS)}"
        )
    alphas, betas = (iter(body.attribute(f"activation_{n}", [])) for n in ("alpha", "beta"))
    limit = body.attribute("clip", 0.0)
    found = []
    for name in (known[name.lower()] for name in names):
        stated = zip((alphas, betas), DEFAULTS[name], strict=False)
        found.append(Activation(name, tuple(next(*pair) for pair in stated), limit))
    count = len(standard)
    return [found[i * count : (i + 1) * count] for i in range(directions)]
