"""`python -m tests.conformance.tflite_page` writes docs/reference/tflite-operators.md."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import tflite

from firmwright.models.tflite.checks import STATEFUL_OPERATORS
from firmwright.models.tflite.converter import WITH_SUBGRAPHS, Converter
from firmwright.models.tflite.custom_calls import list_known_operators
from firmwright.models.tflite.states_as_inputs import VARIABLE_OPERATORS
from firmwright.models.tflite.subgraphs import INLINED
from tests.conformance.tflite_sweep import COLUMNS, RESULTS, WEIGHT_TYPES

PAGE = Path(__file__).parents[2] / "docs/reference/tflite-operators.md"

INTRODUCTION = """\
# TensorFlow operators

`python -m tests.conformance.tflite_page` writes this page. A test fails if the page is stale.

`python -m tests.conformance.tflite_sweep` makes TFLite operators of random attributes, shapes,
weights and quantization parameters. It compiles them to C, runs the C on the host and compares the
results with LiteRT. The last runs had {count:,} operators: {totals}.
CI runs 2,000 other operators, 50 in one network, and fails if one is wrong.

- *exact*: every value is LiteRT's, bit for bit.
- *near*: integers differ by at most 1, floats by at most 1e-5 of the largest result.
- *rejected*: the build fails with the reason below.
- *none*: LiteRT's reference kernels lack the type, or the sweep did not draw it.

The expected results are those of LiteRT's reference kernels. An operator without a reference
kernel (ELU, for example) and SUM in int8 or int16 run by the optimized kernels; the other operators
of the network do not. The reference kernel of SUM in LiteRT 2.3.0 reads int8 as uint8, and keeps
sums of int16 in 16 bits.

The sweep omits two undefined results of LiteRT. Integer DIV overflows if a quotient is far below
a step; firmwright rounds the quotient to 0. Comparisons of integers need scales below 1; firmwright
compares the real numbers.

Layers with weights in int8 and activations in float (dynamic range, `dynamic` in the table)
quantize their activations in each run, as LiteRT does. The weights stay int8 in flash. LSTM and
SVDF support such weights too.

## By operator and type
"""

REASONS = """
## Why operators of the sweep are rejected
"""

OTHERS = """
## Other operators

The import accepts these, but the sweep does not have them: {imported}, and operators of StableHLO.
The run of each build compares the results with LiteRT.

Custom operators need [a C function and its reference](../howto/custom-operators.md). These are
built in, and equal TFLite Micro or LiteRT bit for bit: {custom}.

RFFT2D transforms one row. Its complex numbers can be reshaped, and COMPLEX_ABS, REAL and IMAG read
them; other operators on complex numbers are rejected.

The import replaces IF and WHILE by the operators of their subgraphs. These are both branches, or
one branch if the condition is constant, and each step of a loop. The import rejects a loop whose
number of steps depends on an input.

The import rejects operators whose results depend on other subgraphs, or on states that the
generated function does not keep: {rejected}.

The import rejects operators without a converter in TVM: {missing}.
"""

Rows = Mapping[tuple[str, str], Mapping[str, str]]


def read_rows(path: Path = RESULTS) -> Rows:
    with path.open(newline="", encoding="utf-8") as stream:
        return {(row["operator"], row["type"]): row for row in csv.DictReader(stream)}


def render(rows: Rows) -> str:
    """Return the page."""
    total = Counter({name: sum(int(r[name]) for r in rows.values()) for name in COLUMNS[2:7]})
    totals = ", ".join(f"{total[name]:,} {name}" for name in COLUMNS[2:7])
    swept = sorted({operator for operator, _ in rows})
    known = {*Converter(None, None, None, None).convert_map} - {"CUSTOM"}
    names = {name for name in vars(tflite.BuiltinOperator) if name.isupper()}
    schema = {name for name in names if not name.startswith("STABLEHLO")}
    rejected = {*WITH_SUBGRAPHS, *STATEFUL_OPERATORS}
    parts = [
        INTRODUCTION.format(count=total.total(), totals=totals),
        f"| operator | {' | '.join(WEIGHT_TYPES)} |",
        "|---|" + "---|" * len(WEIGHT_TYPES),
        *(f"| {o} | {' | '.join(cell(rows, o, t) for t in WEIGHT_TYPES)} |" for o in swept),
        REASONS,
        *(reason_lines(rows) or ["None is."]),
        OTHERS.format(
            imported=listed(
                (known | VARIABLE_OPERATORS) & schema - set(swept) - rejected - INLINED
            ),
            rejected=listed(rejected),
            custom=listed(set(list_known_operators())),
            missing=listed(schema - known - rejected - VARIABLE_OPERATORS - INLINED - {"CUSTOM"}),
        ),
    ]
    return "\n".join(parts)


def cell(rows: Rows, operator: str, dtype: str) -> str:
    """Return the outcomes of one operator in one type, only the most frequent one if possible."""
    row = rows.get((operator, dtype))
    found = [] if row is None else [n for n in COLUMNS[2:6] if int(row[n])]
    if row is None or not found:
        return "none"
    if len(found) == 1:
        return found[0]
    return ", ".join(f"{row[name]} {name}" for name in found)


def reason_lines(rows: Rows) -> list[str]:
    """Return one line per operator and reason, with the types that have this reason."""
    types: dict[tuple[str, str], list[str]] = {}
    for (operator, dtype), row in rows.items():
        if row["reason"]:
            reason = row["reason"].removeprefix("model: ")
            types.setdefault((operator, reason), []).append(dtype)
    return [f"- {o}, {', '.join(found)}: {r}" for (o, r), found in types.items()]


def listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def main() -> int:
    PAGE.write_text(render(read_rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
