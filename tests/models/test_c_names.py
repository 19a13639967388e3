"""C names for inputs and outputs that the model or its C function does not have."""

from __future__ import annotations

from firmwright.ir.tensors import Tensor
from firmwright.models.c_names import find_unfit_names


def test_a_state_has_no_c_name() -> None:
    inputs = [Tensor("x", (1,), "float32"), Tensor("y", (1,), "float32")]
    chosen = {"x": "imu", "h": "hidden", "z": "other"}
    assert list(find_unfit_names("input", inputs, chosen, {"h"})) == [
        ("h", "the C function has no such input: 'h' is a state or has a `value`"),
        ("z", "the model has no input 'z'; known: x, y"),
    ]
