"""Writes the first files of a user's repository: a model's recipe, its samples, and a workflow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from firmwright.codegen.names import c_identifier, make_unique_identifiers
from firmwright.codegen.templates import make_environment, render
from firmwright.data.fetch import read_model
from firmwright.data.samples import Range
from firmwright.errors import UserError, did_you_mean
from firmwright.ir.tensors import ModelInterface, Tensor
from firmwright.models import FORMATS
from firmwright.models.formats import Importer, OpenShapesError, describe_saved_model
from firmwright.models.onnx.fixed_inputs import fix_inputs
from firmwright.project.workflow import list_debian_packages, write_missing, write_workflow
from firmwright.recipe.defaults import FORMATS_BY_SUFFIX, describe_unknown_format
from firmwright.recipe.editor_schema import FIRST_LINE
from firmwright.recipe.target import parse_target
from firmwright.recipe.user_files import is_description_file
from firmwright.targets.load_devices import target_names
from firmwright.toolchain import load_platform, load_toolchain

SAMPLES = "repository/samples.py.j2"


def make_file_name(text: str) -> str:
    """Convert a text to a file name without characters that shells or tasks interpret."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._") or "network"


def write_new_repository(
    model: str,
    network: Mapping[str, Any],
    platform: str,
    target: str,
    pins: Sequence[str],
    folder: Path,
    ci: str = "github",
) -> dict[Path, bool]:
    """Write the files into ``folder``. Return whether each file is new.

    The path ``model`` starts at ``folder``. ``network`` is the result of :func:`describe_model`.
    The workflow of the service ``ci`` installs the versions ``pins``. Each version is a line such
    as ``numpy==2.3.5``. Existing files are not changed. The samples are in a file with the recipe's
    name if files exist. The missing steps of the workflow are then printed on stderr. Raises
    UserError if the platform or a device is unknown, or if the recipe exists.
    """
    known = load_platform(platform)
    for device in parse_target(target):
        if device.name not in target_names():
            hint = did_you_mean(device.name, target_names())
            raise UserError(f"target: unknown device '{device.name}'{hint}")
    name = make_file_name(Path(model).stem)
    recipe = folder / f"{name}.yaml"
    if recipe.exists():
        raise UserError(f"{recipe}: already exists; remove it, or rename the model")
    stated = platform if is_description_file(platform) else known.name
    variables = {
        "name": name,
        "model": model,
        "platform": stated,
        **network,
    }
    variables |= {"first_line": FIRST_LINE, "target": target}
    variables["others"] = [] if target != "c" else list(known.accelerators)
    env = make_environment()
    samples = render(env, SAMPLES, variables)
    module = variables["module"] = name_samples(folder, name, samples)
    rendered = {
        recipe.name: render(env, "repository/recipe.yaml.j2", variables),
        **({f"{module}.py": samples} if network["inputs"] else {}),
        "dodo.py": "from firmwright.tasks.dodo import *\n",
    }
    toolchain, emulator = load_toolchain(known.toolchains[0]), next(iter(known.emulators), None)
    packages = list_debian_packages(known, toolchain, emulator)
    written = write_missing(rendered, folder)
    return written | write_workflow(recipe.name, name, packages, pins, folder, ci)


def name_samples(folder: Path, name: str, text: str) -> str:
    """Return the module name of the samples. The module of another recipe keeps its name."""
    path = folder / "samples.py"
    taken = path.exists() and path.read_text("utf-8") != text
    return f"samples_{c_identifier(name)}" if taken else "samples"


def describe_model(
    model: str,
    find_ranges: Callable[[Any], Sequence[Range | None]],
    signature: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Sequence[Any]] | None = None,
) -> Mapping[str, Any]:
    """Return the inputs and outputs of a model file, and a unique function name for each input.

    ``find_ranges`` returns the limits of each network input that is an index, or None.
    ``signature`` selects a network of the model. ``shapes`` are the shapes of inputs with open
    lengths, and ``values`` are the values of inputs that become constants. ``open_shapes`` of the
    result are the shapes that are still open. The inputs and outputs are unknown if shapes are
    open. Raises UserError if the model cannot be read, or if the arguments do not fit the model.
    """
    if advice := describe_saved_model(Path(model), model):
        raise UserError(f"{model}: {advice}")
    if Path(model).is_dir():
        hint = f"for an export of Edge Impulse: firmwright init --from {model}"
        raise UserError(f"{model}: a folder, not a model file; {hint}")
    kind = FORMATS_BY_SUFFIX.get(Path(model).suffix.lower())
    if kind is None:
        raise UserError(f"{model}: {describe_unknown_format(model)}")
    data = read_model(Path(model), model, None)
    if signature is not None:
        data = FORMATS[kind].select_network(data, model, signature)
    fixed = {n: v[0] if len(v) == 1 else list(v) for n, v in (values or {}).items()}
    if fixed:
        if kind != "onnx":
            raise UserError(f"{model}: --value needs an ONNX model, found {kind}; remove --value")
        data = fix_inputs(data, model, fixed, {})
    importer = FORMATS[kind].load()
    stated = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    still_open: Mapping[str, Sequence[int | str]] = {}
    inputs: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()
    ranges: Mapping[str, Range | None] = {}
    try:
        module, interface = import_one_sample(importer, data, model, stated)
        names = (tensor.name for tensor in interface.parameters)
        ranges = dict(zip(names, find_ranges(module), strict=True))
        inputs, outputs = interface.inputs, interface.outputs
    except OpenShapesError as error:
        still_open = error.shapes
    functions = make_unique_identifiers([tensor.name for tensor in inputs])
    return {
        "signature": signature,
        "inputs": inputs,
        "outputs": outputs,
        "shapes": stated,
        "open_shapes": still_open,
        "values": fixed,
        "named_inputs": [
            (tensor, function, ranges.get(tensor.name))
            for tensor, function in zip(inputs, functions, strict=True)
        ],
    }


def import_one_sample(
    importer: Importer, data: bytes, model: str, shapes: dict[str, tuple[int, ...]]
) -> tuple[Any, ModelInterface]:
    """Return a model for one sample and its interface, and add the chosen shapes to ``shapes``."""
    try:
        return importer.import_model(data, model, shapes)[:2]
    except OpenShapesError as error:
        shapes |= choose_one_sample(error)
        return importer.import_model(data, model, shapes)[:2]


def choose_one_sample(error: OpenShapesError) -> dict[str, tuple[int, ...]]:
    """Return the shapes for one sample of a model that was exported for any number of samples.

    Raises ``error`` if lengths after the first axis are open, because only the user can state these
    lengths.
    """
    shapes = {}
    for name, (_, *others) in error.shapes.items():
        fixed = [length for length in others if isinstance(length, int) and length > 0]
        if len(fixed) < len(others):
            raise error
        shapes[name] = (1, *fixed)
    return shapes
