"""Lists the variants of a layer: each form that fits, as a separate or a shared function."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from firmwright.devices.cpu.all_forms import FORMS
from firmwright.devices.cpu.forms.form import Form, FormChoice, fits_bits, list_fitting
from firmwright.devices.cpu.forms.packed import BITS, LEAST_DEPTHWISE, LEAST_WEIGHTS
from firmwright.ir.byte_layers import AnyLayer, ByteFunction, Softmax
from firmwright.ir.kernels import TableVariant
from firmwright.ir.layer import FloatLayer, Layer, LayerKind, Pair
from firmwright.targets import Context

RESULTS_WORTH_A_FUNCTION = 2**14
"""The minimum number of results for a separate function.

Shared loops need more instructions per result. Separate loops need two kilobytes.
"""

PAIRS_WORTH_A_FUNCTION = 2**10
"""The minimum number of results for a separate function of a sum or product of two tensors.

A shared function needs 1.8 times the cycles. The loops of a separate function need 300 bytes.
"""

LOOPS = "loops"
FUNCTIONS = {False: "separate", True: "shared"}
"""The part of a variant's name for separate and for shared functions."""


def shares_function(layer: AnyLayer, form: Form, specialize: str) -> bool:
    """Return whether a layer by default calls a function that other layers also call."""
    if specialize == "auto":
        if isinstance(layer, Pair | ByteFunction):
            return form.shared and layer.elements < PAIRS_WORTH_A_FUNCTION
        results = layer.elements if isinstance(layer, Softmax) else layer.output_elements
        return form.shared and results < RESULTS_WORTH_A_FUNCTION
    return specialize == "size"


def choose_variant(
    region: str, layer: AnyLayer, choice: FormChoice, context: Context
) -> FormChoice:
    name = context.variants.get(region)
    if name is None:
        form, asked = choice.form, read_specialize(context)
        return replace(choice, shared=form is not None and shares_function(layer, form, asked))
    return dict(list_variants(layer, context)).get(name, FormChoice(None, ()))


def name_variants(layer: AnyLayer, context: Context) -> tuple[str, ...]:
    """Return the names of a layer's variants: the default function and form first, loops last.

    A layer of floats has no variant with loops, because loops produce sums with different bits. A
    softmax has no such variant either.
    """
    loops = () if isinstance(layer, FloatLayer | Softmax) else (LOOPS,)
    return (*(name for name, _ in list_variants(layer, context)), *loops)


def list_variants(layer: AnyLayer, context: Context) -> Iterator[tuple[str, FormChoice]]:
    """Yield the names of a layer's variants by forms, and the choice for each variant.

    If the user sets ``-specialize``, the option selects the kind of function for all variants. The
    name of a variant contains its tile unless the tile is the default. Other tiles are listed only
    for the default form. They use separate functions unless the user asks for shared functions.
    This rule limits the number of variants, because each variant may need another build of the
    network.
    """
    asked = read_specialize(context)
    forms = list_fitting(layer, context.platform.features, FORMS)
    for form in forms:
        default = shares_function(layer, form, asked)
        for shared in (default, not default) if asked == "auto" else (default,):
            yield f"{form.name} {FUNCTIONS[shared]}", FormChoice(form, (), shared)
        shared = asked == "size"
        for tile in form.list_tiles(layer)[1:] if form is forms[0] else ():
            name = f"{form.name} {FUNCTIONS[shared]} tile={tile}"
            yield name, FormChoice(form.with_tile(tile), (), shared)


def find_table_variant(layer: AnyLayer, form: Form, context: Context) -> TableVariant | None:
    """Return the variant that reads the layer's weights from a table, or None.

    None if the chosen form already stores few bits per weight.
    """
    if form.bits < 8 or not isinstance(layer, Layer):
        return None
    for name, choice in list_variants(layer, context):
        table_form = choice.form
        if table_form is not None and table_form.looked_up:
            arrays = table_form.pack_layer(layer).arrays
            products = layer.batch * layer.pixels * layer.weights.size
            return TableVariant(
                name,
                arrays["weights"].nbytes + arrays["values"].nbytes,
                round((table_form.cost - form.cost) * products),
            )
    return None


def explain_width(layer: AnyLayer, form: Form, features: Collection[str]) -> str:
    """Return the reason why bytes store weights of 4 bits, or '' for all other layers."""
    if form.bits < 8 or not isinstance(layer, Layer) or not fits_bits(layer, BITS):
        return ""
    is_depthwise = layer.kind is LayerKind.DEPTHWISE_CONV2D
    least = LEAST_DEPTHWISE if is_depthwise else LEAST_WEIGHTS
    if layer.weights.size < least:
        return f"there are fewer than {least} weights"
    packed = [f for f in FORMS if f.bits < 8 and f.is_for(layer, features)]
    fitting = [f.name for f in packed if not f.find_broken(layer)]
    if fitting:
        return f"{fitting[0]} is slower"
    broken = [f"{f.name} needs {'; '.join(f.find_broken(layer))}" for f in packed]
    return "; ".join(broken) or f"no form for {layer.kind.value} stores fewer bits"


def read_specialize(context: Context) -> str:
    return context.options.get("specialize", "auto")
