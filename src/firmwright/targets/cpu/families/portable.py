"""Forms for every core."""

from __future__ import annotations

from firmwright.ir.layer import LayerKind
from firmwright.targets.cpu.forms import addition
from firmwright.targets.cpu.forms.conditions import FACTORS
from firmwright.targets.cpu.forms.form import Form

FORMS = (
    Form(
        name="add",
        kind=LayerKind.ADD,
        features=frozenset(),
        conditions=(FACTORS,),
        pack=addition.pack_addition,
        cost=0.0,
        sentence="Two multiplications and a shift, proven for every pair of bytes.",
    ),
)
