"""Runs samples as the steps of one sequence. The final states of a step start the next step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmwright.ir.tensors import State
from firmwright.models.formats import Samples
from firmwright.progress import track

Array = npt.NDArray[Any]


def run_in_sequence(
    samples: Samples,
    states: Sequence[State],
    outputs: Sequence[str],
    run: Callable[[dict[str, Array]], Sequence[Array]],
) -> list[list[Array]]:
    """Return the outputs of each sample.

    The final states of a sample are inputs of the next sample. ``run`` receives all inputs of the
    model and returns all ``outputs``. Only states with an output are passed to the next sample,
    because the model keeps the other states. Outputs without elements are omitted, as in importers.
    """
    handed = [state for state in states if state.output]
    kept = [i for i, name in enumerate(outputs) if name not in {s.output for s in handed}]
    values = {state.tensor.name: read_initial(state) for state in handed}
    results = []
    for sample in track(samples, "samples"):
        arrays = [np.asarray(array) for array in run({**sample, **values})]
        values = {s.tensor.name: arrays[[*outputs].index(s.output)] for s in handed}
        results.append([arrays[i] for i in kept if arrays[i].size])
    return results


def read_initial(state: State) -> Array:
    """Return the value of a state before the first run."""
    kind = np.dtype(state.tensor.dtype).newbyteorder("<")
    return np.frombuffer(state.initial, kind).reshape(state.tensor.shape).astype(state.tensor.dtype)
