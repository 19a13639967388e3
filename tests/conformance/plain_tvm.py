"""List, in evaluated_by_tvm.txt, the rejected cases that TVM alone imports and evaluates right.

    python -m tests.conformance.plain_tvm

It reads docs/reference/conformance_rejected.csv. Run it by hand after a change of TVM or of the
list of rejected cases; the page states why each of the cases stays rejected.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.case import (
    Case,
    Outcome,
    array,
    cases,
    compare_output,
    shape_inputs,
    with_constants,
)

LIST = Path(__file__).with_name("evaluated_by_tvm.txt")
PROGRAM = "tests.conformance.plain_tvm"
REJECTED = Path(__file__).parents[2] / "docs/reference/conformance_rejected.csv"


def judge(name: str) -> Outcome:
    """Evaluate a case in TVM's virtual machine, as it is or with constant shapes."""
    case = cases()[name]
    outcome = attempt(case)
    if outcome.verdict != "passed" and shape_inputs(case):
        outcome = attempt(with_constants(case, tuple(shape_inputs(case))))
    return outcome


def attempt(case: Case) -> Outcome:
    outcome = Outcome(case.name, case.operator, "passed", "")
    try:
        evaluate(case)
    except Exception as error:  # TVM raises all kinds
        return replace(outcome, verdict="rejected", reason=str(error))
    return outcome


def evaluate(case: Case) -> None:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    from firmwright.ir.virtual_machine import make_virtual_machine

    module = from_onnx(case.model)
    module = relax.transform.DecomposeOpsForInference()(module)
    machine = make_virtual_machine(module)
    for given, expected in case.data:
        result = machine["main"](*(tvm.runtime.tensor(array(v)) for v in given))
        found = flat(result)
        for ours, theirs in zip(found[: len(expected)], expected, strict=True):
            compare_output(ours, array(theirs), case)


def flat(result: Any) -> list[np.ndarray[Any, Any]]:
    """Return the tensors of a result, which may be a tuple of tensors or a single number."""
    if hasattr(result, "numpy"):
        return [result.numpy()]
    if isinstance(result, bool | int | float):
        return [np.asarray(result)]
    return [tensor for part in result for tensor in flat(part)]


def main() -> None:
    from tests.conformance.pool import judge_all

    with REJECTED.open(encoding="utf-8", newline="") as file:
        names = [row["case"] for row in csv.DictReader(file)]
    right = [o.case for o in judge_all(names, PROGRAM) if o.verdict == "passed"]
    LIST.write_text("".join(f"{name}\n" for name in right), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        from tests.conformance.case import serve

        serve(judge)
    else:
        main()
