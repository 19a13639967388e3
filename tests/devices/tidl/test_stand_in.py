"""The stand-in of a float region is quantized as the target's options state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from tvm import relax

from firmwright.devices.tidl.region_tensors import join_regions
from firmwright.devices.tidl.scale_facts import find_quantization_facts, is_quantized_float
from firmwright.devices.tidl.stand_in import choose_options, make_region, quantize_regions
from firmwright.errors import UserError
from firmwright.ir.relax import main_bindings, operator_name

from .networks import float_convolution, network, values, vm_outputs
from .test_artifacts import IMAGE, branches, partitioned

op = relax.op


def bindings_of(function: relax.Function) -> list[relax.VarBinding]:
    return main_bindings(tvm.IRModule({"main": function}))


def types_of(function: relax.Function) -> Iterator[str]:
    for binding in bindings_of(function):
        if operator_name(binding.value) == "relax.quantize":
            yield str(binding.value.attrs.out_dtype)


@pytest.mark.parametrize(
    ("platform", "options", "symmetric", "powers_of_two", "dtype"),
    [
        ("am62a", "", False, False, "int8"),
        ("j721e", "", True, True, "int8"),
        ("j721e", "-advanced_options:quantization_scale_type=0", True, False, "int8"),
        ("am62a", "-tensor_bits=16", False, False, "int16"),
    ],
)
def test_scales_and_bits_are_those_that_tidl_is_asked_for(
    platform: str, options: str, symmetric: bool, powers_of_two: bool, dtype: str
) -> None:
    whole = partitioned(float_convolution(), f"tidl {options}, c", platform)
    (region,) = whole.regions
    function = quantize_regions(whole, [region])[region.name]
    found = find_quantization_facts(bindings_of(function))
    assert found["symmetric_per_tensor"] == symmetric
    assert found["powers_of_two"] == powers_of_two
    assert set(types_of(function)) == {dtype}
    assert is_quantized_float(function)
    assert not is_quantized_float(whole.function(region))


def test_a_region_keeps_its_border_and_comes_near_its_floats() -> None:
    whole = partitioned(network(branches), "tidl, c")
    module = quantize_regions(whole, whole.regions)
    for region in whole.regions:
        before, after = whole.function(region), module[region.name]
        for ours, theirs in zip(after.params, before.params, strict=True):
            tvm.ir.assert_structural_equal(ours.ty, theirs.ty)
        tvm.ir.assert_structural_equal(after.ret_ty, before.ret_ty)
    (sample, *_) = whole.samples
    joined = join_regions(
        module, whole.partition, whole.partition.regions, whole.partition.outputs[:1]
    )
    found = vm_outputs(relax.transform.InlinePrivateFunctions()(joined), sample["x"])[0]
    expected = vm_outputs(network(branches), sample["x"])[0]
    assert not np.array_equal(found, expected)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("options", "corrected"),
    [
        ("", True),
        ("-accuracy_level=0", False),
        ("-accuracy_level=9", True),
        ("-accuracy_level=9 -advanced_options:bias_calibration=0", False),
    ],
)
def test_biases_are_corrected_where_tidl_is_asked_to(options: str, corrected: bool) -> None:
    whole = partitioned(float_convolution(), f"tidl {options}, c")
    assert choose_options(whole.options).bias_correction == corrected


def test_what_the_importer_writes_as_loops_is_not_quantized() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(IMAGE, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.call_te(tvm.topi.add, x, values(4, 1, 1)))
        builder.emit_func_output(result)
    with pytest.raises(
        UserError, match=r"no stand-in quantizes add.*; keep floats with tensor_bits=32"
    ):
        make_region(builder.get())
