"""Runs one trial of a search for types of weights, and builds and evaluates the firmware."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from firmwright.pipeline.layer_precision import TRIAL_FILE, make_trial_job
from firmwright.precision.type_trials import read_tried

from .trial import build_trial


def main(scratch: str, arguments: Sequence[str], text: str) -> int:
    """Build the recipe with the types of a precision file's ``text``.

    The function prints the result and returns the exit code.
    """
    stages = ("firmware", "accuracy")
    failed, trial = build_trial(
        Path(scratch), arguments, (TRIAL_FILE, text), make_trial_job, stages
    )
    if not failed:
        print(msgspec.json.encode(read_tried(trial)).decode())
    return failed
