"""One ONNX backend node test through all steps: from the model to C to numbers.

As a program, it is a worker: it reads a line with a case's name, and writes a line with its outcome
(JSON).
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

from firmwright.compile import compile_network
from firmwright.errors import UserError
from firmwright.ir.small_types import to_bytes, to_model_type
from firmwright.ir.tensors import ModelInterface
from firmwright.models.onnx.importer import import_model
from firmwright.models.onnx.onnxruntime_outputs import run_reference
from firmwright.pipeline.freshness import file_digest
from firmwright.project.write import write_project
from firmwright.recipe.target import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import Build, load_platform, load_toolchain
from firmwright.toolchain.project_folders import list_sources
from firmwright.user_folders import find_cache_folder
from firmwright.verify.protocol import decode_outputs, encode_samples

SANITIZE = ("-O0", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
"""Undefined behavior is an illegal instruction, because a library that reports it links slowly."""

MIX = load_mix(parse_target("c"), load_platform("host"), "onnx")
RUN_SECONDS = 20
SIZES_FIRST = ("BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow")
PARAMETERS = {
    "Dropout": ("ratio", "training_mode"),
    "Loop": ("M", "cond"),
    "MelWeightMatrix": ("num_mel_bins", "lower_edge_hertz", "upper_edge_hertz"),
    "NonMaxSuppression": ("max_output_boxes_per_class",),
    "Range": ("start", "limit", "delta"),
}
"""Inputs that are constants in real models, by operator."""

JUDGED_BY_ONNX_RUNTIME = frozenset(
    {
        "test_resize_downsample_scales_cubic_align_corners",
        "test_resize_downsample_scales_linear_align_corners",
    }
)
"""ONNX aligns the corners of fractional lengths (0.6 * 4 = 2.4). ONNX Runtime and PyTorch, which
exports such scales, align the corners of whole lengths."""

FLOAT_PARAMETERS = ("scales", "roi", "depth")
STRING_MAKERS = ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")
"""Operators on constants. The build computes them, because firmware creates no strings."""
INDEX_TYPES = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: ``passed``, ``rejected`` or ``wrong``, and the reason.

    ``baked`` names the inputs that became initializers; without this, the case is rejected.
    """

    case: str
    operator: str
    verdict: str
    reason: str
    baked: tuple[str, ...] = ()


class WrongError(Exception):
    """The C was generated and is not right."""


@dataclass(frozen=True)
class Case:
    """A model, and data sets of (inputs, expected outputs) with the tolerance for the latter.

    ``node`` is the operator of the case; an expanded case has the operator of the original case.
    """

    name: str
    node: onnx.NodeProto
    opset: int
    model: onnx.ModelProto
    data: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        return f"{self.node.domain}.{self.node.op_type}".lstrip(".")


Source = tuple[onnx.ModelProto, tuple[tuple[list[Any], list[Any]], ...], float, float]
"""A test of ONNX: a model, data sets of inputs and outputs, and two tolerances."""


@cache
def cases() -> dict[str, Case]:
    """Return all node tests by name; an expanded one belongs to its function's operator."""
    found = read_sources()

    def case(name: str) -> Case:
        model, data, *tolerances = found[name]
        about, *_ = found.get(name.split("_expanded")[0], found[name])
        node = about.graph.node[0]
        opset = next(o.version for o in about.opset_import if o.domain == node.domain)
        if name in JUDGED_BY_ONNX_RUNTIME:
            data = tuple((i, run_onnx_runtime(model, i)) for i, _ in data)
        return with_tensors(Case(name, node, opset, model, data, *tolerances))

    return {name: case(name) for name in sorted(found)}


def read_sources() -> dict[str, Source]:
    """Return ONNX's node tests by name. ONNX computes them in 9 s, so a file keeps them.

    The results depend on ONNX, on numpy, and on this module, which selects their content.
    """
    folder = find_cache_folder()
    if folder is None:
        return collect_sources()
    versions = f"{onnx.__version__}-{np.__version__}-{file_digest(__file__)[:16]}"
    stored = folder / f"tests-of-onnx-{versions}.pickle"
    if not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        partial = stored.with_suffix(f".{os.getpid()}")  # two processes may write the file at once
        partial.write_bytes(pickle.dumps(collect_sources()))
        partial.replace(stored)
    found: dict[str, Source] = pickle.loads(stored.read_bytes())
    return found


def collect_sources() -> dict[str, Source]:
    def convert(data_sets: Iterable[Any] | None) -> tuple[tuple[list[Any], list[Any]], ...]:
        return tuple((list(inputs), list(outputs)) for inputs, outputs in data_sets or ())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            case.name: (case.model, convert(case.data_sets), case.rtol, case.atol)
            for case in collect_testcases(None)
            if case.model is not None
        }


def run_onnx_runtime(model: onnx.ModelProto, inputs: list[Any]) -> list[Any]:
    sample = {value.name: array for value, array in zip(model.graph.input, inputs, strict=True)}
    return [*run_reference(model.SerializeToString(), [sample]).outputs[0]]


def judge(name: str) -> Outcome:
    """Run a case; if it is rejected, run it again with constants for inputs that decide shapes.

    The number of constants is minimal: every subset is tried, smaller ones first.
    """
    case = cases()[name]
    outcome = attempt(case)
    candidates = shape_inputs(case)
    for count in range(1, len(candidates) + 1):
        for names in itertools.combinations(candidates, count):
            if outcome.verdict == "rejected":
                outcome = replace(attempt(with_constants(case, names)), baked=names)
    return outcome if outcome.verdict != "rejected" else replace(outcome, baked=())


def attempt(case: Case) -> Outcome:
    try:
        run(case)
    except UserError as error:
        reason = str(error).removeprefix(f"{case.name}: ")
        return Outcome(case.name, case.operator, "rejected", reason)
    except Exception as error:
        reason = str(error) if isinstance(error, WrongError) else f"{type(error).__name__}: {error}"
        return Outcome(case.name, case.operator, "wrong", reason)
    return Outcome(case.name, case.operator, "passed", "")


def shape_inputs(case: Case) -> list[str]:
    """Return the graph inputs that may decide a shape, as far as the operator's schema states it.

    These are shapes, axes, counts and limits. They are integers of rank 0 or 1 that have neither
    the outputs' type nor are the operator's first input, so they are not data. Inputs that
    operators call scales, roi or depth, the inputs in PARAMETERS, and inputs without elements
    count, too.
    """
    node = case.node
    if node.op_type in STRING_MAKERS:
        return [*node.input]
    schema = onnx.defs.get_schema(node.op_type, case.opset, node.domain)
    results = {o.type_str for o in schema.outputs}
    parameters = [*schema.inputs, *list(schema.inputs[-1:]) * len(node.input)]
    types = dict(zip(node.input, (p.type_str for p in parameters), strict=False))
    names = dict(zip(node.input, (p.name for p in parameters), strict=False))
    found = []
    for value in case.model.graph.input if len(case.data) == 1 else ():
        kind = value.type.tensor_type
        is_index = kind.elem_type in INDEX_TYPES and types.get(value.name) not in results
        if value.name == node.input[0] and node.op_type not in SIZES_FIRST:
            is_index = False
        is_parameter = names.get(value.name) in (
            *FLOAT_PARAMETERS, *PARAMETERS.get(node.op_type, ())
        )  # fmt: skip
        is_empty = any(d.dim_value == 0 for d in kind.shape.dim)
        if is_empty or (len(kind.shape.dim) <= 1 and (is_index or is_parameter)):
            found.append(value.name)
    return found


def with_tensors(case: Case) -> Case:
    """Replace each sequence, or optional value, among the inputs and outputs by its tensors."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    if all(v.type.HasField("tensor_type") for v in (*graph.input, *graph.output)):
        return case
    (given, expected), *_ = case.data
    before, inputs, after, outputs = [], [], [], []
    for value, data in zip(graph.input, given, strict=True):
        nodes, ports = split_input(value, data)
        before += nodes
        inputs += ports
    for value, data in zip(graph.output, expected, strict=True):
        nodes, ports = split_output(value, data)
        after += nodes
        outputs += ports
    nodes = [*before, *graph.node, *after]
    for field, values in ((graph.input, inputs), (graph.output, outputs), (graph.node, nodes)):
        copies = [type(v).FromString(v.SerializeToString()) for v in values]
        del field[:]
        field.extend(copies)
    return replace(case, model=model, data=((flatten(given), flatten(expected)),))


def flatten(values: Iterable[Any]) -> list[Any]:
    return [t for v in values if v is not None for t in (v if isinstance(v, list) else [v])]


def split_input(
    value: onnx.ValueInfoProto, data: Any
) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """Return the nodes that make an input of its tensors, and these."""
    kind, is_optional = value.type, value.type.HasField("optional_type")
    inner = kind.optional_type.elem_type if is_optional else kind
    if data is None:
        return [helper.make_node("Optional", [], [value.name], type=inner)], []
    if kind.HasField("tensor_type"):
        return [], [value]
    ports = describe_tensors(value.name, data)
    name = f"{value.name}/value" if is_optional else value.name
    made = [helper.make_node("Optional", [name], [value.name])] if is_optional else []
    names = [p.name for p in ports]
    if inner.HasField("tensor_type"):
        return [helper.make_node("Identity", names, [name]), *made], ports
    operator = "SequenceConstruct" if names else "SequenceEmpty"
    return [helper.make_node(operator, names, [name]), *made], ports


def split_output(
    value: onnx.ValueInfoProto, data: Any
) -> tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto]]:
    """Return the nodes that split an output, and its tensors."""
    if value.type.HasField("tensor_type"):
        return [], [value]
    nodes, name = [], value.name
    if value.type.HasField("optional_type"):
        name = f"{value.name}/value"
        nodes.append(helper.make_node("OptionalGetElement", [value.name], [name]))
    ports = describe_tensors(value.name, data)
    if not isinstance(data, list):
        return [*nodes, helper.make_node("Identity", [name], [ports[0].name])], ports
    for i, port in enumerate(ports):
        number = numpy_helper.from_array(np.array(i))
        place = helper.make_node("Constant", [], [f"{port.name}/place"], value=number)
        nodes += [place, helper.make_node("SequenceAt", [name, place.output[0]], [port.name])]
    return nodes, ports


def describe_tensors(name: str, data: Any) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(
            f"{name}/{i}", helper.np_dtype_to_tensor_dtype(array(tensor).dtype), array(tensor).shape
        )
        for i, tensor in enumerate(data if isinstance(data, list) else [data])
    ]


def with_constants(case: Case, names: tuple[str, ...]) -> Case:
    """Turn graph inputs into initializers, as every real model has them."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)  # before, initializers were inputs as well
    given, expected = case.data[0]
    kept = []
    for value, data in zip(case.model.graph.input, given, strict=True):
        if value.name in names:
            model.graph.initializer.append(numpy_helper.from_array(array(data), value.name))
            model.graph.input.remove(value)
        else:
            kept.append(data)
    return replace(case, model=model, data=((kept, expected),))


def run(case: Case) -> None:
    """Compile and compare; UserError if the model is rejected, WrongError if the C is wrong."""
    module, interface = import_model(case.model.SerializeToString(), case.name, {})
    network = compile_network(module, interface, MIX)
    build = Build(load_toolchain("gcc"), load_platform("host"), ())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(network, build, folder)
        # One compiler run is much faster than one for each file.
        sources = "".join(f'#include "{source}"\n' for source in list_sources(folder))
        command = ["gcc", *build.compile_flags, *SANITIZE, "-I.", "-xc", "-", "-o", "firmware"]
        made = subprocess.run(
            [*command, "-lm"], cwd=folder, input=sources, capture_output=True, text=True
        )
        if made.returncode:
            raise WrongError(f"the C does not compile: {made.stderr[:300]}")
        compare(case, interface, folder / "firmware")


def compare(case: Case, interface: ModelInterface, firmware: Path) -> None:
    for given, expected in case.data:
        sample = {t.name: to_bytes(array(v)) for t, v in zip(interface.inputs, given, strict=True)}
        done = subprocess.run(
            [firmware],
            input=encode_samples(interface.inputs, [sample]),
            capture_output=True,
            timeout=RUN_SECONDS,
        )
        if done.returncode:
            raise WrongError(f"exit code {done.returncode}: {done.stderr.decode()[:300]}")
        found = decode_outputs(done.stdout, interface.outputs, 1, done.returncode)[0]
        if case.operator == "NonMaxSuppression":  # the last output has the number of used rows
            found = [found[0][: int(found[1].item())]]
        lost = find_lost_bits(case, sample.values())
        allowed = replace(case, atol=max(case.atol, lost))
        kept = [v for v in expected if array(v).size]
        for tensor, ours, value in zip(interface.outputs[: len(found)], found, kept, strict=True):
            compare_output(to_model_type(ours, tensor), array(value), allowed)


def find_lost_bits(case: Case, values: Iterable[np.ndarray[Any, Any]]) -> float:
    """Return the possible error of the expected outputs of a DFT: a step of the largest element.

    numpy computes them in float32. If terms cancel out, the error exceeds the tolerance.
    """
    if case.operator != "DFT":
        return 0.0
    return max(float(np.finfo("float32").eps * np.abs(v).max()) for v in values if v.size)


def compare_output(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], case: Case) -> None:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        raise WrongError(f"{ours.dtype}{ours.shape} for {theirs.dtype}{theirs.shape}")
    if ours.dtype == object:
        if (ours != theirs).any():
            raise WrongError("the strings differ")
        return
    # As ONNX's runner does; the cases' tolerances are less than a step of bfloat16.
    relative = max(case.rtol, 2**-6) if ours.dtype.name == "bfloat16" else case.rtol
    if not np.allclose(ours, theirs, relative, case.atol, equal_nan=True):
        raise WrongError("the numbers differ")


def array(value: Any) -> np.ndarray[Any, Any]:
    return np.asarray(numpy_helper.to_array(value) if hasattr(value, "data_type") else value)


def serve(answer: Callable[[str], Outcome]) -> None:
    """Print a line when ready; then read names of cases and print their outcomes."""
    # TVM's importer prints to standard output, also from C++; answers use another descriptor.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    cases()  # needs seconds, which the time limit of a case does not count
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(asdict(answer(line.strip()))), file=answers, flush=True)


if __name__ == "__main__":
    serve(judge)
