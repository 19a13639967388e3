"""The choice of the reference if firmware and ONNX Runtime differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from firmwright.errors import UserError
from firmwright.ir.tensors import Tensor
from firmwright.models.formats import ReferenceOutputs
from firmwright.recipe.recipe import Tolerance
from firmwright.stages import check_outputs

FOUND = np.array([1, 2, 3, 40], "int8")


@pytest.mark.parametrize(
    ("wrong", "stale", "accepted"), [(0, 0, True), (1, 0, False), (0, 1, False)]
)
def test_equal_values_in_float64_decide_between_distant_references(
    wrong: int, stale: int, accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step of difference is within the tolerance, but the references are far apart.

    A stale reference is of other samples.
    """
    other = ReferenceOutputs("onnxruntime", [[FOUND - np.array([0, 0, 0, 9], "int8")]])
    again = ReferenceOutputs("onnxruntime", [[FOUND - np.array([0, 0, stale, 9], "int8")]])
    exact = ReferenceOutputs("float64", [[FOUND + np.array([0, 0, 0, wrong], "int8")]])
    samples = SimpleNamespace(
        run_in_float64=lambda *_: exact,
        run_reference=lambda *_: again,
        read_batch_layout=lambda *_: SimpleNamespace(size=1, output_axes=(None,)),
    )
    monkeypatch.setattr(check_outputs, "recipe_samples", samples)
    monkeypatch.setattr(check_outputs, "describe_first_layer", lambda *_: "a layer")
    monkeypatch.setattr(check_outputs, "keep_outputs", lambda *_: "kept.npz")
    job: Any = SimpleNamespace(
        recipe=SimpleNamespace(run=SimpleNamespace(tolerance=Tolerance(1, 0))),
        note=lambda _: None,
    )
    interface: Any = SimpleNamespace(outputs=(Tensor("y", (4,), "int8"),))
    arguments = (job, interface, (), [[FOUND]], other)
    if accepted:
        assert check_outputs.judge(*arguments)[0] is exact
        return
    with pytest.raises(UserError, match="differs from float64 in 1 values, by up to"):
        check_outputs.judge(*arguments)
