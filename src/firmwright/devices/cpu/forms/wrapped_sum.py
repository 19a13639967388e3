"""Packs sums and differences of bytes that wrap, which forms of several families compute."""

from __future__ import annotations

from firmwright.devices.cpu.forms.form import Form, Packing
from firmwright.ir.layer import LayerKind, WrappedSum


def pack_wrapped_sum(layer: WrappedSum) -> Packing:
    """Return a packing whose record has no arrays."""
    return Packing({}, {"elements": layer.elements}, {"subtracts": layer.sign < 0})


def make_form(name: str, feature: str, sentence: str) -> Form:
    """Return the form of wrapped sums for cores with a feature."""
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
