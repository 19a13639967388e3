"""A recipe's demands on where its operators run: ``allow_fallback`` and ``require_offload``."""

from __future__ import annotations

from collections.abc import Callable

from firmwright.ir.regions import COPY
from firmwright.report.explanation import Explanation, OperatorPlacement, percentage


def check_offload(
    explanation: Explanation,
    allow_fallback: bool,
    require_offload: float | None,
    ends_on_processor: bool = True,
) -> list[str]:
    """Return what is wrong, one text a demand, naming the operators and the rules they break.

    A mix of one device is not asked: nothing falls back there. Nor does anything in a mix that
    does not end with the processor's own device, but with an accelerator that runs C.
    """
    *offered, last = explanation.summary.macs_by_device
    found: list[str] = []
    if not offered:
        return found
    if ends_on_processor and not allow_fallback:
        fallen = list_operators(explanation, last, lambda o: not o.view and o.kind != COPY)
        if fallen:
            found.append(f"allow_fallback: false, but on {last} are\n" + "\n".join(fallen))
    if require_offload is not None:
        share = 100.0 - percentage(explanation.summary, last)
        if explanation.summary.macs and share < require_offload:
            heavy = list_operators(explanation, last, lambda o: o.macs > 0)
            found.append(
                f"require_offload: {require_offload:g} %, but {share:.1f} % of MACs are on "
                f"{', '.join(offered)}; on {last} are\n" + "\n".join(heavy)
            )
    return found


def list_operators(
    explanation: Explanation, device: str, counts: Callable[[OperatorPlacement], bool]
) -> list[str]:
    """Return a line for each operator on a device, and one for each rule that it breaks."""
    lines = []
    for operator in explanation.operators:
        if operator.device == device and counts(operator):
            lines.append(f"  {operator.kind} ('{operator.name}'), {operator.macs:,} MACs")
            lines += [f"    {r.device}: {r.rule}: {r.sentence}" for r in operator.refusals]
    return lines
