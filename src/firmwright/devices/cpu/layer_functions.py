"""Writes the C functions of layers: separate functions with constants, or shared functions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firmwright.codegen.templates import make_environment, render
from firmwright.devices.cpu.forms.form import Form, Packing
from firmwright.devices.cpu.forms.requantize import make_requantization
from firmwright.ir.byte_layers import AnyLayer, ByteFunction, Resize, Softmax
from firmwright.ir.kernels import C_TYPES, Parameter, SourceFile
from firmwright.ir.layer import (
    BinaryLayer,
    FloatLayer,
    Layer,
    LayerRounding,
    MatrixProduct,
    Pair,
    Sums,
)

Variables = Mapping[str, Any]


@dataclass(frozen=True)
class LayerFunction:
    """A C function and its ``files``.

    A shared function reads the numbers of a layer from a ``struct``. The struct also has pointers
    to the ``parts`` that the function calls. ``parts`` maps the names of templates to C names. A
    function of a single layer has no struct.
    """

    name: str
    files: tuple[SourceFile, ...]
    struct: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)

    def define_record(self, numbers: Variables) -> str:
        """Return the C that defines the struct of a layer, or '' if the function has no struct."""
        if not self.struct:
            return ""
        values = list_values({**numbers, **self.parts})
        return f"static const struct {self.struct}_layer layer = {{{values}}};"

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(file.name for file in self.files if file.name.endswith(".h"))


def write_function(
    form: Form,
    layer: AnyLayer,
    packing: Packing,
    constants: Sequence[Parameter],
    results: Sequence[Parameter],
    shared: bool,
) -> LayerFunction:
    """Return the function of a form for a layer: a separate function or a shared one.

    All layers with equal template variables share one function. Layers with equal numbers also have
    one separate function.
    """
    text = packing.choose_text(shared)
    # Pointers to memory that may overlap are not `restrict`.
    qualifier = "*" if form.in_place else "*restrict "
    layer_parameters = [f"const {p.c_type} {qualifier}{p.name}" for p in constants]
    layer_parameters += [f"{p.c_type} {qualifier}{p.name}" for p in results]
    variables = {
        **describe_layer(layer, packing),
        **text.variant,
        "folder": form.folder,
        "fields": [*packing.record],
        "parts": [*text.parts],
        "part_parameters": packing.part_parameters,
        "ports": ", ".join(layer_parameters),
        "arguments": ", ".join(["l", *(p.name for p in (*constants, *results))]),
    }
    ports = {"ports": packing.part_parameters}
    used = {name: {**part, **ports} for name, part in text.parts.items() if part is not None}
    if not shared:
        return write_single(form.name, variables, used, packing.record)
    key = repr((form.name, variables, used))
    if key not in _shared:
        _shared[key] = write_shared(form.name, variables, used)
    return _shared[key]


_shared: dict[str, LayerFunction] = {}
"""The shared functions by the variables of their templates.

Thousands of layers may share a few functions.
"""


def write_single(
    form: str, variables: Variables, parts: Mapping[str, Variables], record: Variables
) -> LayerFunction:
    """Return a function in which the numbers of a layer are constants."""
    inline = "static inline __attribute__((always_inline)) "
    given = {**variables, "parts": [], "record": "compute", "linkage": inline, "call": ""}
    texts = [render_file("record", given)]
    texts += [
        render_function(f"{form}_{p}", p, {**given, **part_variables})
        for p, part_variables in parts.items()
    ]
    texts.append(render_function(form, "compute", given))
    name = f"{form}_{digest(*texts, record)}"
    texts.append(render_file("single", {**given, "name": name, "values": list_values(record)}))
    header = make_header(name, f"void {name}({variables['ports']});")
    return LayerFunction(name, (header, make_source(name, texts)))


def write_shared(form: str, variables: Variables, parts: Mapping[str, Variables]) -> LayerFunction:
    """Return a function that reads the numbers of a layer from a struct, and its parts."""
    given = {**variables, "record": "shared", "linkage": "", "call": "l->"}
    name = name_function(form, given)
    struct = f"{form}_{digest(render_file('record', given))}" if parts else name
    given["record"] = struct
    names, files = {}, [make_header(f"{struct}_layer", render_file("record", given))]
    for part, part_variables in parts.items():
        names[part] = name_function(f"{form}_{part}", {**given, **part_variables})
        files += make_files(f"{form}_{part}", names[part], {**given, **part_variables})
    files += make_files(form, name, given)
    return LayerFunction(name, tuple(files), struct, names)


def name_function(template: str, given: Variables) -> str:
    """Return the name of a shared function, which the function's text determines."""
    return f"{template}_{digest(render_function(template, 'compute', given), given['fields'])}"


def make_files(template: str, name: str, given: Variables) -> list[SourceFile]:
    prototype = f'#include "{given["record"]}_layer.h"\n\nvoid {name}({list_parameters(given)});'
    return [
        make_header(name, prototype),
        make_source(name, [render_function(template, name, given)]),
    ]


def make_header(name: str, text: str) -> SourceFile:
    return SourceFile(f"{name}.h", render_file("header", {"name": name, "text": text}) + "\n")


def make_source(name: str, texts: Sequence[str]) -> SourceFile:
    includes, text = split_includes("\n\n".join(texts))
    head = "\n".join([f'#include "{name}.h"', *([""] if includes else []), *includes])
    return SourceFile(f"{name}.c", f"{head}\n\n{text}\n")


def split_includes(text: str) -> tuple[list[str], str]:
    """Return the sorted lines that include headers on every machine, and the remaining text.

    Each part of a template has the include lines that it needs, so several parts may have equal
    lines.
    """
    includes, depth = set[str](), 0
    for line in text.splitlines():
        depth += line.startswith("#if") - line.startswith("#endif")
        if depth == 0 and line.startswith("#include <"):
            includes.add(line)
    kept = list[str]()
    for line in text.splitlines():
        if line not in includes and (line or (kept and kept[-1])):
            kept.append(line)
    return sorted(includes), "\n".join(kept)


def write_headers(form: Form) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(n, render_file(n, {}, form.folder) + "\n") for n in form.headers)


def render_function(template: str, name: str, given: Variables) -> str:
    parameters = list_parameters(given)
    return render_file(
        f"{template}.c", {**given, "name": name, "parameters": parameters}, given["folder"]
    )


def render_file(name: str, given: Variables, folder: str = "c/layers") -> str:
    return render(make_environment(), f"{folder}/{name}.j2", dict(given)).strip("\n")


def list_parameters(given: Variables) -> str:
    return f"const struct {given['record']}_layer *restrict l, {given['ports']}"


def list_values(record: Variables) -> str:
    return ", ".join(f".{name} = {value}" for name, value in record.items())


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:8]


def describe_layer(layer: AnyLayer, packing: Packing) -> dict[str, Any]:
    if isinstance(layer, FloatLayer):
        return {"input_type": "float", "output_type": "float"}
    types: dict[str, Any] = {"output_type": C_TYPES[layer.output_dtype]}
    if isinstance(layer, Pair):
        return {**types, "input_types": [C_TYPES[dtype] for dtype in layer.input_dtypes]}
    if isinstance(layer, MatrixProduct):
        right = {"right_type": C_TYPES[layer.right.dtype]}
        return {**describe_layer(layer.sums, packing), **right}
    types |= {"input_type": C_TYPES[layer.input_dtype]}
    if isinstance(layer, Softmax | Sums | ByteFunction | BinaryLayer | Resize):
        return types
    types |= {"wide": layer.is_wide}
    return types | describe_requantization(layer, bool(packing.variant.get("float_scaled")))


def describe_requantization(layer: Layer, float_scaled: bool) -> dict[str, Any]:
    """Return the requantization variables that the templates of all forms use.

    If ``float_scaled`` is true, the C scales sums with the core's floats, like ONNX Runtime.
    """
    once = layer.scaling.rounding is LayerRounding.ONCE
    steps = layer.scaling.has_offsets and not float_scaled
    emulated = steps and bool((make_requantization(layer).multipliers == 0).any())
    one_shift = once or steps or layer.low >= layer.zero_point
    return {
        "one_shift": one_shift,
        "float_scaled": float_scaled,
        "offsets_given": steps,
        "emulated": emulated,
        "lift": layer.zero_point - layer.low if emulated else 0,
        "twice_in_one_shift": one_shift and layer.scaling.rounding is LayerRounding.TWICE,
        "zero_point": layer.zero_point,
        "low": layer.low,
        "high": layer.high,
    }
