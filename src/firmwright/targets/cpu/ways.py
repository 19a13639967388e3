"""The ways to write a layer: by each form that fits, in a function of its own or a shared one."""

from __future__ import annotations

from dataclasses import replace

from firmwright.ir.layer import FloatLayer, Pair, Softmax
from firmwright.targets import Context
from firmwright.targets.cpu.forms.form import Choice, Form
from firmwright.targets.cpu.layer_functions import AnyLayer
from firmwright.targets.cpu.table import FORMS

RESULTS_WORTH_A_FUNCTION = 2**14
"""Of one layer: each takes some instructions more in shared loops; own ones take two kilobytes."""

LOOPS = "loops"
FUNCTIONS = {False: "own", True: "shared"}
"""What a function is, by whether layers share it."""


def shares_function(layer: AnyLayer, form: Form, specialize: str) -> bool:
    """Tell whether a layer usually calls a function that others call, too."""
    if specialize == "auto":
        results = 0 if isinstance(layer, Pair | Softmax) else layer.output_elements
        return form.shared and results < RESULTS_WORTH_A_FUNCTION
    return specialize == "size"


def choose_way(region: str, layer: AnyLayer, choice: Choice, context: Context) -> Choice:
    """Return the way for which a region was tuned, or the usual one."""
    name = context.ways.get(region)
    if name is None:
        form, asked = choice.form, read_specialize(context)
        return replace(choice, shared=form is not None and shares_function(layer, form, asked))
    form_name, _, function = name.partition(" ")
    found = (form for form in list_fitting(layer, context) if form.name == form_name)
    return Choice(next(found, None), (), function == FUNCTIONS[True])


def name_ways(layer: AnyLayer, context: Context) -> tuple[str, ...]:
    """Return the names of a layer's ways: the usual function and form come first, loops last.

    What the user asks for by ``-specialize`` has no alternative. Sums of floats have other bits in
    loops, so that these are no way to write them; nor are they for softmax.
    """
    asked, names = read_specialize(context), []
    for form in list_fitting(layer, context):
        usual = shares_function(layer, form, asked)
        functions = (usual, not usual) if asked == "auto" else (usual,)
        names += [f"{form.name} {FUNCTIONS[shared]}" for shared in functions]
    return (*names, *([] if isinstance(layer, FloatLayer | Softmax) else [LOOPS]))


def list_fitting(layer: AnyLayer, context: Context) -> list[Form]:
    """Return all forms for a layer on a core, in the order of the table."""
    features = context.platform.features
    return [f for f in FORMS if f.is_for(layer, features) and not f.find_broken(layer)]


def read_specialize(context: Context) -> str:
    return context.options.get("specialize", "auto")
