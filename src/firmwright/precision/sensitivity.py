"""Measures the effect of weight types on a network: the bytes, and the error of the outputs.

In a measurement, only one layer has weights of another type. All other weights, and all tensors
between layers, stay float32. The results are stored under the digest of all inputs of the
measurement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime

from firmwright.compression.coders import Array, list_encoded
from firmwright.data.samples import Sample, sample_digest
from firmwright.documents.whole_file import write_whole
from firmwright.precision.best_choices import Choice
from firmwright.progress import report
from firmwright.quantize.calibration import Distribution
from firmwright.quantize.chosen_layers import LayerChoice, choose_layers, match_nodes
from firmwright.quantize.clusters import choose_clusters, round_to_values, spread_scales
from firmwright.quantize.float_graph import session_options
from firmwright.quantize.qdq_graph import choose_activation_params
from firmwright.quantize.weight_rounding import (
    MAX_INPUTS,
    ROUNDED_OPERATORS,
    count_inputs,
    round_layer,
    second_moments,
)
from firmwright.quantize.weights import WEIGHTED, Weight, choose_weight_params, find_weights
from firmwright.recipe.quantize_keys import QuantizeOptions

METHOD = 3
"""The version of the method. Each digest contains the version."""
MAX_SAMPLES = 32
"""The maximum number of calibration samples on which errors are measured."""
MIN_PACKED = 512
"""The minimum number of weights of a layer that stores two weights in a byte. Smaller layers use a
byte per weight, unless the recipe compresses constants.
"""
PACKED = ("int2", "int3", "int4")
"""Types with two weights in a byte. Some cores store four int2 weights in a byte."""
FLOAT = "float32"


@dataclass(frozen=True)
class Measured:
    layer: str
    choices: tuple[Choice, ...]


class Sensitivity:
    """Measures the layers of a float network ``model`` whose type the recipe does not state.

    ``folder`` contains the results. ``compressed`` states whether the build compresses constants.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        distributions: Mapping[str, Distribution],
        options: QuantizeOptions,
        samples: Sequence[Sample],
        folder: Path,
        compressed: bool,
    ) -> None:
        self.model, self.options, self.folder = model, options, folder
        self.samples, self.compressed = samples, compressed
        self.constants = {i.name: i for i in model.graph.initializer}
        layers = choose_layers(model, options)
        params_of = choose_activation_params(model, distributions, options, layers)
        self.scales = {name: params.scale for name, params in params_of.items()}
        free = find_free_layers(model, options, layers)
        self.weights = {
            free[w.name].name: w
            for w in find_weights(model, layers)
            if w.name in free and w.input in params_of
        }
        self.nodes = {node.name: node for node in free.values()}
        self.digest = self.digest_inputs()

    def digest_inputs(self) -> bytes:
        """Return the digest of all inputs of a measurement except the layer and the type."""
        digest = hashlib.sha256(self.model.SerializeToString(deterministic=True))
        facts = (
            METHOD, self.options.compensate_rounding, self.options.per_channel,
            self.options.scheme, self.options.block, self.compressed, sorted(self.scales.items()),
            [sample_digest(sample) for sample in self.samples],
        )  # fmt: skip
        digest.update(repr(facts).encode())
        return digest.digest()

    def measure(self, threads: int) -> list[Measured]:
        """Return the choices of each layer, in the order of the network."""
        assert self.options.search is not None
        types = self.options.search.types
        kept = {
            (name, dtype): self.read_kept(name, dtype) for name in self.weights for dtype in types
        }
        missing = [key for key, choice in kept.items() if choice is None]
        moments = self.measure_moments(dict.fromkeys(name for name, _ in missing))
        if missing:
            _ = self.wanted  # computed once, before the threads start
        with ThreadPoolExecutor(threads) as pool:
            results = pool.map(lambda key: self.measure_type(key[0], key[1], moments), missing)
            done = len(kept) - len(missing)
            report("measurements", done, len(kept))
            for key, choice in zip(missing, results, strict=True):
                kept[key] = choice
                write_whole(self.find_file(*key), msgspec.json.encode(choice))
                done += 1
                report("measurements", done, len(kept))
        choices = {name: [kept[name, dtype] for dtype in types] for name in self.weights}
        return [Measured(name, tuple(filter(None, each))) for name, each in choices.items()]

    def find_file(self, layer: str, dtype: str) -> Path:
        name = hashlib.sha256(self.digest + repr((layer, dtype)).encode()).hexdigest()
        return self.folder / f"{name}.json"

    def read_kept(self, layer: str, dtype: str) -> Choice | None:
        """Return the result of an earlier search, or None if there is no result."""
        try:
            return msgspec.json.decode(self.find_file(layer, dtype).read_bytes(), type=Choice)
        except (OSError, msgspec.MsgspecError):
            return None

    def measure_moments(self, layers: Iterable[str]) -> dict[str, Array]:
        """Return the second moments of the inputs of layers whose rounding is compensated."""
        if not self.options.compensate_rounding:
            return {}
        nodes = {
            self.nodes[name].input[1]: self.nodes[name]
            for name in layers
            if self.nodes[name].op_type in ROUNDED_OPERATORS
            and count_inputs(self.nodes[name], self.constants) <= MAX_INPUTS
        }
        return second_moments(nodes, self.constants, self.model, self.samples) if nodes else {}

    def measure_type(self, layer: str, dtype: str, moments: Mapping[str, Array]) -> Choice:
        weight, node = self.weights[layer], self.nodes[layer]
        if dtype == FLOAT:
            return Choice(dtype, 4 * weight.values.size, 0.0)
        weight = replace(weight, dtype=dtype)
        steps, rounded = self.round(weight, node, moments.get(weight.name))
        size = self.count_bytes(steps, weight.stored_type, node)
        return Choice(dtype, size, self.measure_error(weight.name, rounded))

    def round(
        self, weight: Weight, node: onnx.NodeProto, moments: Array | None
    ) -> tuple[Array, Array]:
        """Return a layer's weights as integers, and the real numbers of these integers."""
        options = self.options
        params = choose_weight_params(
            weight, self.scales[weight.input], options.per_channel, options.scheme == "pow2"
        )
        values, scales = weight.values, spread_scales(weight.values.ndim, weight.axis, params)
        clusters = choose_clusters(values / scales, weight.dtype)
        factors = weight.choose_factors(params)
        if moments is not None:
            values = round_layer(node, values, moments, params, clusters, factors).astype("float64")
        steps = round_to_values(values / scales, params[0], clusters, factors)
        return steps, (steps * scales).astype("float32")

    def count_bytes(self, steps: Array, dtype: str, node: onnx.NodeProto) -> int:
        """Return the number of bytes of a layer's weights in flash, without their scales."""
        if dtype == "int16":
            stored = steps.astype("int16")
        elif dtype in PACKED and self.is_packed(steps, node):
            pairs = np.pad(steps.reshape(-1), (0, steps.size % 2)).astype("int8").reshape(-1, 2)
            stored = (pairs[:, 0] & 15 | pairs[:, 1] << 4).astype("int8")
        else:
            stored = steps.astype("int8")
        saved = [one.saved for one in list_encoded(stored)] if self.compressed else []
        return int(stored.nbytes) - max(saved, default=0)

    def is_packed(self, steps: Array, node: onnx.NodeProto) -> bool:
        """Return whether a byte contains two weights of 4 bits."""
        groups = next((a.i for a in node.attribute if a.name == "group"), 1)
        return groups == 1 and steps.size >= MIN_PACKED

    def measure_error(self, name: str, values: Array) -> float:
        """Return the energy of the outputs' error divided by the energy of the outputs.

        ``values`` replace the weights ``name``. All outputs have equal weight.
        """
        energies = [0.0] * len(self.wanted[0])
        errors = [0.0] * len(self.wanted[0])
        for sample, wanted in zip(self.samples[:MAX_SAMPLES], self.wanted, strict=True):
            outputs = self.session.run(None, {**sample, name: values})
            for output, (ours, theirs) in enumerate(zip(outputs, wanted, strict=True)):
                right = np.asarray(theirs, "float64")
                energies[output] += float(np.square(right).sum())
                errors[output] += float(np.square(np.asarray(ours, "float64") - right).sum())
        ratios = [e / (energy or 1.0) for e, energy in zip(errors, energies, strict=True)]
        return float(f"{sum(ratios) / len(ratios):.4g}")

    @cached_property
    def session(self) -> Any:
        """The float network. The weights are inputs whose defaults are the original weights."""
        model = deepcopy(self.model)
        for weight in self.weights.values():
            tensor = self.constants[weight.name]
            value = onnx.helper.make_tensor_value_info(weight.name, tensor.data_type, tensor.dims)
            model.graph.input.append(value)
        return onnxruntime.InferenceSession(
            model.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
        )

    @cached_property
    def wanted(self) -> list[Any]:
        """The outputs of the float network for each sample."""
        return [self.session.run(None, dict(sample)) for sample in self.samples[:MAX_SAMPLES]]


def find_free_layers(
    model: onnx.ModelProto, options: QuantizeOptions, layers: LayerChoice
) -> dict[str, onnx.NodeProto]:
    """Map weights to their layers. Layers whose type the recipe states are excluded."""
    nodes = list(model.graph.node)
    fixed = {n for e in options.layers if e.weights for n in match_nodes(nodes, e.match)}
    free_layers: dict[str, onnx.NodeProto] = {}
    for node in nodes:
        excluded = node.name in fixed or node.name in layers.kept_float
        if node.op_type in WEIGHTED and not excluded:
            free_layers.setdefault(node.input[1], node)
    return free_layers
