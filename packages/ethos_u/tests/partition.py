"""Partitions a network like a build, and runs the only region in the simulator."""

from __future__ import annotations

import numpy as np
import tvm
from firmwright_ethos_u.layers import Layer, find_layers
from firmwright_ethos_u.regions import compile_function
from single import Array, evaluate

from firmwright.models.tflite.importer import import_model
from firmwright.partition.outline import partition_module
from firmwright.recipe import parse_target
from firmwright.targets.load_devices import load_mix
from firmwright.toolchain import load_platform
from firmwright.transforms import canonicalize


def compare_region(network: bytes, inputs: list[Array], target: str = "ethos_u, c") -> list[Layer]:
    """Assert that a network is one region with LiteRT's outputs.

    Return the layers of the region.
    """
    mix = load_mix(parse_target(target), load_platform("host"), "tflite")
    imported, interface = import_model(network, "network", {})
    module, partition = partition_module(canonicalize(imported), interface, mix)
    (region,) = partition.regions
    assert region.device == "ethos_u"
    kernel = mix[0].target.lower(region, module, mix[0].context).kernel  # checks its parameters
    assert kernel.region == region.name
    function = tvm.IRModule({"main": module[region.name].without_attr("global_symbol")})
    layers = find_layers(function)
    compiled = compile_function(function, layers, mix[0].context)
    given = dict(zip(partition.inputs, inputs, strict=True))
    found = dict(zip(region.outputs, compiled.run([given[n] for n in region.inputs]), strict=True))
    for name, expected in zip(partition.outputs, evaluate(network, inputs), strict=True):
        np.testing.assert_array_equal(found[name].view(expected.dtype), expected.ravel())
    return layers
