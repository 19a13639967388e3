"""The page of results by operator, and the reasons for rejected cases."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import onnx

from tests.conformance.case import Outcome
from tests.conformance.reasons import DECIDED_BY_INPUTS, TRAINING, sentence

EVALUATED = Path(__file__).with_name("evaluated_by_tvm.txt")
EMX = Path(__file__).with_name("emx_onnx_cgen.csv")

INTRODUCTION = """\
# ONNX conformance

`python -m tests.conformance.run` writes this page. CI judges one case of each operator;
`--check` judges all cases.

The backend node tests of ONNX {version} are {count} models of one operator each (or of the
function that defines it, "expanded"), with inputs, expected outputs and a tolerance. Each case
runs all steps: import, transforms, partition, lowering, C, the host's gcc with
`-fsanitize=undefined`, run. A case is *passed* if every output has the expected type and shape
and is within the tolerance of the case. A case is *rejected* if firmwright reports why it cannot
compile the model. All other cases are *wrong*, including a crash or a time limit.

Firmware has static shapes. Shapes, axes and counts are inputs in the node tests, but constants in
real models. A rejected case runs again with the fewest such inputs as initializers:

- int32 and int64 inputs of rank 0 or 1, except the first input and inputs of an output's type,
  which are data. The first input of ConstantOfShape, MelWeightMatrix and the windows is a size;
- the inputs `scales`, `roi` and `depth`, and inputs without elements;
- all inputs of Range, the trip count and the first condition of Loop, the ratio and the mode of
  Dropout, the edges of MelWeightMatrix, the limit of NonMaxSuppression;
- the inputs of RegexFullMatch, StringConcat, StringNormalizer and StringSplit. The build computes
  these operators on constants. Firmware only moves and compares strings.

*Constant shapes* counts the cases that pass only with initializers.

The firmware reads and writes a sequence, or an optional value, as its tensors. SequenceConstruct or
Optional precedes the operator, and SequenceAt or OptionalGetElement follows it. An output without
elements is omitted. The unused rows of NonMaxSuppression are omitted, too.

ONNX computed the expected outputs of DFT in float32. The rounding errors of
terms that cancel out exceed the tolerance, so a step of the largest input is allowed.

The reference of the two cases that align the corners of fractional lengths is ONNX Runtime. ONNX
Runtime and PyTorch align the corners of whole lengths, and PyTorch exports such scales.

The runner of ONNX also tests firmwright, by `firmwright.onnx_backend.FirmwrightBackend`:

```python
from onnx.backend.test import BackendTest
from firmwright.onnx_backend import FirmwrightBackend

tests = BackendTest(FirmwrightBackend, __name__)
```

unittest or pytest runs these tests. A model that firmwright rejects is an error with the message;
`tests.exclude(pattern)` omits this model.
"""

COUNT = """
## What could be compiled

Values of inputs decide the outcome of {decided} rejected cases: the length of an output, or random
numbers. **{rejected} of the {others:,} other cases are rejected, {percent:.1f} %**:
{training} train a network, and {rest} have other reasons.
"""

BESIDE = """
## Comparison with emx-onnx-cgen

[emx-onnx-cgen](https://github.com/emmtrix/emx-onnx-cgen) also writes C of ONNX models. On 24
November 2026 its version 1.4.0 ran the same cases on x86-64 Linux, by its module for
`onnx.backend.test` in ONNX's runner. The compiler was gcc 12.2, or clang 22 if gcc failed.
emx-onnx-cgen supports ONNX 1.21.0; {newer} of the cases that it rejects or computes wrongly are
newer than ONNX 1.21.0.
A case is *not measured* if a library that decodes pictures, or a function of bfloat16, was missing.
The allowance for DFT is the same for both tools.

emx-onnx-cgen supports strings, pictures, and the shapes and sequences of the cases. It sets the
size of an array at run time if inputs decide it. In firmwright, sequences are tensors, and shapes
and strings are constants in the cases of the third line.
[emx_onnx_cgen.csv](../../tests/conformance/emx_onnx_cgen.csv) lists the cases that did not pass.
"""

BY_REASON = """
## Why cases are rejected

[conformance_rejected.csv](conformance_rejected.csv) lists the reason of each case;
`python -m tests.conformance.run CASE` prints the whole reason.
"""


BY_TVM = """
## Rejected here, evaluated by TVM

TVM's virtual machine imports and evaluates {count} of the rejected cases as ONNX defines
(`tests/conformance/plain_tvm.py` finds these cases). This machine allocates memory at run time,
but firmware has a static schedule:
"""


def render(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the texts of the page and of the list of rejected cases, by file name."""
    rejected = [o for o in outcomes if o.verdict == "rejected"]
    evaluated = set(EVALUATED.read_text(encoding="utf-8").split())
    by_tvm = [o for o in rejected if o.case in evaluated]
    verdicts = Counter(o.verdict for o in outcomes)
    totals = ", ".join(f"{v} {verdicts[v]}" for v in ("passed", "rejected", "wrong"))
    page = [
        INTRODUCTION.format(version=onnx.__version__, count=f"{len(outcomes):,}"),
        "## By operator\n",
        *table(("operator", "passed", "constant shapes", "rejected", "wrong"), operators(outcomes)),
        count(len(outcomes), rejected),
        *beside(outcomes),
        BY_REASON,
        *table(("reason", "cases", "operators"), reasons(rejected)),
        BY_TVM.format(count=len(by_tvm)),
        *table(("reason", "cases", "operators"), reasons(by_tvm)),
        "",
        totals,
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("case", "operator", "reason"))
    writer.writerows((o.case, o.operator, sentence(o)) for o in rejected)
    return {"conformance.md": "\n".join(page) + "\n", "conformance_rejected.csv": text.getvalue()}


def count(cases: int, rejected: Sequence[Outcome]) -> str:
    """Return the section that counts the rejected cases by kind of reason."""
    reasons = Counter(sentence(o) for o in rejected)
    decided = sum(reasons[r] for r in DECIDED_BY_INPUTS)
    counted = len(rejected) - decided
    others = cases - decided
    return COUNT.format(
        decided=decided,
        others=others,
        rejected=counted,
        percent=100 * counted / others,
        training=reasons[TRAINING],
        rest=counted - reasons[TRAINING],
    )


def beside(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the section that has emx-onnx-cgen's results next to these results."""
    with EMX.open(encoding="utf-8", newline="") as file:
        failed = {row["case"]: row for row in csv.DictReader(file)}
    newer = sum(r["in_onnx_1_21"] == "no" and r["verdict"] != "not measured"
                for r in failed.values())  # fmt: skip
    decided = {o.case for o in outcomes
               if o.verdict == "rejected" and sentence(o) in DECIDED_BY_INPUTS}  # fmt: skip
    training = {o.case for o in outcomes
                if o.verdict == "rejected" and sentence(o) == TRAINING}  # fmt: skip
    others = [o for o in outcomes if o.case not in decided]
    ours = Counter(o.verdict for o in others)
    theirs = Counter(failed[o.case]["verdict"] if o.case in failed else "passed" for o in others)
    constant = sum(bool(o.baked) for o in others)
    rows = [
        ("inputs do not decide", len(others), len(others)),
        ("passed", ours["passed"], theirs["passed"]),
        ("of these with shapes or strings as constants", constant, 0),
        ("rejected", ours["rejected"], theirs["rejected"]),
        (
            "of these by operators that train a network",
            len(training),
            sum(failed[case]["verdict"] == "rejected" for case in training & set(failed)),
        ),
        ("wrong", ours["wrong"], theirs["wrong"]),
        ("not measured", 0, theirs["not measured"]),
        ("inputs, or chance, decide", len(decided), len(decided)),
        ("passed", 0, len(decided - set(failed))),
    ]
    return [BESIDE.format(newer=newer), *table(("cases", "firmwright", "emx-onnx-cgen"), rows)]


def operators(outcomes: Iterable[Outcome]) -> list[tuple[object, ...]]:
    counts: Mapping[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        counts[outcome.operator][outcome.verdict] += 1
        counts[outcome.operator]["constant"] += bool(outcome.baked)
    columns = ("passed", "constant", "rejected", "wrong")
    return [
        (operator, *(count[c] or "" for c in columns)) for operator, count in sorted(counts.items())
    ]


def reasons(rejected: Iterable[Outcome]) -> list[tuple[object, ...]]:
    counts: Mapping[str, Counter[str]] = defaultdict(Counter)
    for outcome in rejected:
        counts[sentence(outcome)][outcome.operator] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
    return [(reason, count.total(), ", ".join(sorted(count))) for reason, count in ordered]


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(c).replace("|", "\\|") for c in line) + " |" for line in lines]
