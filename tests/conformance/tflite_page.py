"""`python -m tests.conformance.tflite_page` writes docs/reference/tflite-operators.md."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from ai_edge_litert import schema_py_generated as schema

from firmwright.models.tflite.checks import REPLACE_STATEFUL, STATEFUL_OPERATORS
from firmwright.models.tflite.converter import UNSUPPORTED, WITH_SUBGRAPHS, Converter
from firmwright.models.tflite.custom_calls import list_known_operators
from firmwright.models.tflite.interpreters import OPTIMIZED, make_interpreter
from firmwright.models.tflite.litert_outputs import MISSING_KERNEL
from firmwright.models.tflite.states_as_inputs import VARIABLE_OPERATORS
from firmwright.models.tflite.subgraphs import INLINED
from tests.conformance.tflite_entries import RESULTS, TYPES
from tests.conformance.tflite_sweep import COLUMNS, GROUP
from tests.networks.tflite_models import ModelBuilder

PAGE = Path(__file__).parents[2] / "docs/reference/tflite-operators.md"

INTRODUCTION = """\
# TensorFlow operators

`python -m tests.conformance.tflite_page` writes this page. A test fails if the page is stale.

`python -m tests.conformance.tflite_sweep` makes TFLite operators of random attributes, shapes,
weights and quantization parameters. It compiles them to C, runs the C on the host and compares the
results with LiteRT. The table below has {count:,} operators: {totals}.
CI runs 2,000 other operators, {group} in one network, and fails if one is wrong. They include each
operator and type that is exact or near. In CI, the networks with states or subgraphs are separate.

- *exact*: every value is LiteRT's, bit for bit. Integers are exact or wrong.
- *near*: floats differ by at most 1e-5 of the largest result.
- *rejected*: the build fails with the reason below.
- *none*: LiteRT has no kernel for the type, or its kernel rejects the type.

The type is the type of the data. `int16` has int8 weights (16x8). `dynamic` has int8 weights and
activations in float (dynamic range): LiteRT and firmwright quantize the activations in each run,
and the weights stay int8 in flash.

## The judge

The expected results are those of LiteRT's reference kernels. LiteRT's optimized kernels judge two
kinds of operators:

- Operators without a reference kernel (CEIL, ELU, ROUND, SEGMENT_SUM, for example).
- SUM of quantized integers, because the reference kernel of LiteRT 2.3.0 reads int8 as uint8, and
  keeps sums of int16 in 16 bits. The optimized kernel scales the sum in float32.

The sweep omits three undefined results of LiteRT. Integer DIV overflows if a quotient is far below
a step; firmwright rounds the quotient to 0. Comparisons of integers need scales below 1; firmwright
compares the real numbers. MATRIX_DIAG and MATRIX_SET_DIAG do not write bool.

## By operator and type
"""

REASONS = """
## Why operators of the sweep are rejected
"""

OTHERS = """
## Operators that are always rejected

| operator | reason |
|---|---|
{rejected}

LiteRT has no kernel for these operators, so that no model with them runs: {missing}.

## Notes

Custom operators need [a C function and its reference](../howto/custom-operators.md). These are
built in, and equal TFLite Micro or LiteRT bit for bit: {custom}.

RFFT2D transforms one row. Its complex numbers can be reshaped, and COMPLEX_ABS, REAL and IMAG read
them; other operators on complex numbers are rejected.

The import replaces IF and WHILE by the operators of their subgraphs. These are both branches, or
one branch if the condition is constant, and each step of a loop. The import rejects a loop whose
number of steps depends on an input.
"""

NO_CONVERTER = "TVM has no converter: replace the operator, or end the model before the operator"

WITH_STATE = f"keeps a state between runs: {REPLACE_STATEFUL}"

SPARSE = "sparse tensors are not supported: convert the model without sparsity"

Rows = Mapping[tuple[str, str], Mapping[str, str]]


def read_rows(path: Path = RESULTS) -> Rows:
    with path.open(newline="", encoding="utf-8") as stream:
        return {(row["operator"], row["type"]): row for row in csv.DictReader(stream)}


def render(rows: Rows) -> str:
    """Return the page."""
    total = Counter({name: sum(int(r[name]) for r in rows.values()) for name in COLUMNS[2:7]})
    totals = ", ".join(f"{total[name]:,} {name}" for name in COLUMNS[2:7])
    swept = sorted({operator for operator, _ in rows})
    reasons = list_rejected() | dict.fromkeys(find_missing(swept), "")
    parts = [
        INTRODUCTION.format(count=total.total(), totals=totals, group=GROUP),
        f"| operator | {' | '.join(TYPES)} |",
        "|---|" + "---|" * len(TYPES),
        *(f"| {o} | {' | '.join(cell(rows, o, t) for t in TYPES)} |" for o in swept),
        REASONS,
        *(reason_lines(rows) or ["None is."]),
        OTHERS.format(
            rejected="\n".join(
                f"| {o} | {r} |" for o, r in sorted(reasons.items()) if r and o not in swept
            ),
            missing=listed({operator for operator, reason in reasons.items() if not reason}),
            custom=listed(set(list_known_operators())),
        ),
    ]
    return "\n".join(parts)


def list_rejected() -> dict[str, str]:
    """Return the operators that the import always rejects, and the reasons."""
    subgraphs = {kind: f"runs other subgraphs: {fix}" for kind, fix in WITH_SUBGRAPHS.items()}
    stateful = dict.fromkeys(STATEFUL_OPERATORS, WITH_STATE)
    known = {*Converter(None, None, None, None).convert_map}
    kept = known | VARIABLE_OPERATORS | INLINED | {"CUSTOM"}
    missing = dict.fromkeys(list_schema() - kept, NO_CONVERTER)
    return {**missing, **UNSUPPORTED, **subgraphs, **stateful, "DENSIFY": SPARSE}


def list_schema() -> set[str]:
    """Return the operators of the schema, without the two that are not operators."""
    names = {name for name in vars(schema.BuiltinOperator) if name.isupper()}
    return names - {"CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}


def find_missing(swept: Collection[str]) -> set[str]:
    """Return the operators outside of the sweep for which LiteRT has no kernel."""
    return {kind for kind in list_schema() - {*swept} if not has_kernel(kind)}


def has_kernel(kind: str) -> bool:
    """Return whether LiteRT knows an operator; it may reject the inputs."""
    builder = ModelBuilder()
    builder.operator(kind, [builder.input((1,), "float32", None)], [], version=1)
    try:
        make_interpreter(builder.build(), OPTIMIZED)
    except (RuntimeError, ValueError) as error:
        return MISSING_KERNEL not in str(error)
    return True


def cell(rows: Rows, operator: str, dtype: str) -> str:
    """Return the outcomes of one operator in one type, only the most frequent one if possible."""
    row = rows.get((operator, dtype))
    found = [] if row is None else [n for n in COLUMNS[2:6] if int(row[n])]
    if row is None or not found:
        return "none"
    if "exact" in found and set(found) <= {"exact", "near"}:
        return " or ".join(found)
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
