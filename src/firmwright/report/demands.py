"""A recipe's demands on where its operators run: ``allow_fallback`` and ``require_offload``."""

from __future__ import annotations

from collections.abc import Callable

from firmwright.ir.regions import COPY
from firmwright.report.explanation import Explanation, OperatorPlacement, compute_mac_share


def check_offload(
    explanation: Explanation,
    allow_fallback: bool,
    require_offload: float | None,
    ends_on_processor: bool = True,
) -> list[str]:
    """Return a text for each demand that is not met, with the operators and rules they break.

    ``require_offload`` is in percent of the network's multiply-accumulates. A mix of one device
    meets every demand. Nothing falls back to the processor in a mix that ends with an accelerator,
    one that runs C.
    """
    *offered, last = explanation.summary.macs_by_device
    problems: list[str] = []
    if not offered:
        return problems
    if ends_on_processor and not allow_fallback:
        fallen = list_operators(explanation, last, lambda o: not o.view and o.kind != COPY)
        if fallen:
            problems.append(f"allow_fallback: false, but on {last} are\n" + "\n".join(fallen))
    if require_offload is not None:
        share = 100.0 - compute_mac_share(explanation.summary, last)
        if explanation.summary.macs and share < require_offload:
            heavy = list_operators(explanation, last, lambda o: o.macs > 0)
            problems.append(
                f"require_offload: {require_offload:g} %, but {share:.1f} % of MACs are on "
                f"{', '.join(offered)}; on {last} are\n" + "\n".join(heavy)
            )
    return problems


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
