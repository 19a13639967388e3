"""Write docs/reference/conformance.md, check it, or judge single cases.

python -m tests.conformance.run                 write the page
python -m tests.conformance.run --check         exit 1, with a diff, if it is stale
python -m tests.conformance.run --sample        judge a case of each operator; exit 1 if stale
python -m tests.conformance.run test_abs ...    print the outcomes of these cases, and why
"""

from __future__ import annotations

import csv
import difflib
import random
import sys
from collections import defaultdict
from pathlib import Path

from tests.conformance.case import cases
from tests.conformance.page import render
from tests.conformance.pool import judge_all
from tests.conformance.reasons import sentence

ROOT = Path(__file__).parents[2]
FILES = {
    "conformance.md": ROOT / "docs/reference/conformance.md",
    "conformance_rejected.csv": ROOT / "docs/reference/conformance_rejected.csv",
}


def draw_sample() -> list[str]:
    """Return one case of each operator, which the operator's name selects."""
    by_operator = defaultdict(list)
    for name, case in sorted(cases().items()):
        by_operator[case.operator].append(name)
    return [random.Random(operator).choice(names) for operator, names in by_operator.items()]


def check_sample() -> int:
    """Judge a case of each operator; return 1 if the stored list has another outcome."""
    outcomes = judge_all(draw_sample())
    judged = {o.case for o in outcomes}
    text = FILES["conformance_rejected.csv"].read_text(encoding="utf-8")
    stored = {(r["case"], r["reason"]) for r in csv.DictReader(text.splitlines())}
    found = {
        (o.case, sentence(o) if o.verdict == "rejected" else f"{o.verdict}: {o.reason}")
        for o in outcomes
        if o.verdict != "passed"
    }
    stale = sorted(found ^ {(case, reason) for case, reason in stored if case in judged})
    for case, reason in stale:
        print(f"{'found' if (case, reason) in found else 'stored'}: {case}: {reason}")
    return 1 if stale else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--sample"]:
        return check_sample()
    check = arguments == ["--check"]
    names = [] if check else arguments
    unknown = sorted(set(names) - set(cases()))
    if unknown:
        print(f"no such case: {', '.join(unknown)}", file=sys.stderr)
        return 2
    outcomes = judge_all(names or sorted(cases()))
    if names:
        for outcome in outcomes:
            print(f"{outcome.case}: {outcome.verdict} {outcome.reason}".rstrip())
        return 0
    stale = False
    for name, text in render(outcomes).items():
        path = FILES[name]
        stored = path.read_text(encoding="utf-8") if path.exists() else ""
        if check and stored != text:
            stale = True
            lines = difflib.unified_diff(
                stored.splitlines(),
                text.splitlines(),
                f"docs/reference/{name}",
                "this run",
                lineterm="",
            )
            print("\n".join(lines))
        elif not check:
            path.write_text(text, encoding="utf-8", newline="\n")
    wrong = [o for o in outcomes if o.verdict == "wrong"]
    for outcome in wrong:
        print(f"wrong: {outcome.case}: {outcome.reason}", file=sys.stderr)
    if stale:
        print("stale: run `python -m tests.conformance.run`", file=sys.stderr)
    return 1 if stale or wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
