"""Packs wrapping sums and differences of bytes for forms of several families."""

from __future__ import annotations

from firmwright.devices.cpu.forms.form import Form, Packing
from firmwright.ir.layer import LayerKind, WrappedSum


def pack_wrapped_sum(layer: WrappedSum) -> Packing:
    return Packing({}, {"elements": layer.elements}, {"subtracts": layer.sign < 0})


def make_form(name: str, feature: str, sentence: str) -> Form:
    return Form(
        name=name,
        kind=LayerKind.WRAPPED_SUM,
        features=frozenset({feature}),
        conditions=(),
        pack=pack_wrapped_sum,
        cost=0.0,
        sentence=sentence,
        in_place=("input_0", "input_1"),
    )
