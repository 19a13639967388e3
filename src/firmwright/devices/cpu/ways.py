"""The ways to write a layer: by each form that fits, in a function of its own or a shared one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import Choice, Form
from firmwright.devices.cpu.layer_functions import AnyLayer
from firmwright.ir.layer import FloatLayer, Pair, Softmax
from firmwright.targets import Context

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
    return dict(list_ways(layer, context)).get(name, Choice(None, ()))


def name_ways(layer: AnyLayer, context: Context) -> tuple[str, ...]:
    """Return the names of a layer's ways: the usual function and form come first, loops last.

    Sums of floats have other bits in loops, so that these are no way to write them; nor are they
    for softmax.
    """
    loops = () if isinstance(layer, FloatLayer | Softmax) else (LOOPS,)
    return (*(name for name, _ in list_ways(layer, context)), *loops)


def list_ways(layer: AnyLayer, context: Context) -> Iterator[tuple[str, Choice]]:
    """Yield the names of a layer's ways by forms, and how it is written then.

    What the user asks for by ``-specialize`` has no alternative. Tiles that are not the usual one
    are named. These are tried for the usual form alone, in a function of its own unless others
    are asked for: each way of a layer may be one more build of the network.
    """
    asked = read_specialize(context)
    forms = list_fitting(layer, context)
    for form in forms:
        usual = shares_function(layer, form, asked)
        for shared in (usual, not usual) if asked == "auto" else (usual,):
            yield f"{form.name} {FUNCTIONS[shared]}", Choice(form, (), shared)
        shared = asked == "size"
        for tile in form.list_tiles(layer)[1:] if form is forms[0] else ():
            name = f"{form.name} {FUNCTIONS[shared]} tile={tile}"
            yield name, Choice(form.with_tile(tile), (), shared)


def list_fitting(layer: AnyLayer, context: Context) -> list[Form]:
    """Return all forms for a layer on a core, in the order of the table."""
    features = context.platform.features
    return [f for f in FORMS if f.is_for(layer, features) and not f.find_broken(layer)]


def read_specialize(context: Context) -> str:
    return context.options.get("specialize", "auto")
