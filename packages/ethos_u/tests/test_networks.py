"""The int8 networks of MLPerf Tiny equal LiteRT's reference kernels, bit for bit.

LiteRT rounds the sums of FULLY_CONNECTED once; Vela requests two roundings, as for a convolution.
So `ad01_int8`, which has no other operators, is compared with a reference that rounds twice.
"""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from firmwright_ethos_u.compiler import compile_network
from single import Array, compare, random

from firmwright.device import find_in_mirror

NETWORKS = {
    "kws_ref_model": "aeea436800704fce17b17292e4412630ad856e9d777c044c64ef748a880bd0ae",
    "vww_96_int8": "597a384c8c2c8a1276f04702f25013b7838f2f814f1ca7c174d295b73e3d6b7b",
    "pretrainedResnet_quant": "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415",
    "ad01_int8": "87cf24194ef93d1d9b11a591d805526b98008e351655d29883c825c9c106ba24",
}


def load(name: str) -> bytes:
    """Return a network of the mirror folder."""
    network = find_in_mirror(f"{name}.tflite", NETWORKS[name])
    assert network is not None, f"the folders of FIRMWRIGHT_MIRROR have no {name}.tflite"
    return network


@pytest.mark.parametrize("name", ["kws_ref_model", "vww_96_int8", "pretrainedResnet_quant"])
def test_network(name: str) -> None:
    network = load(name)
    shape = Interpreter(model_content=network).get_input_details()[0]["shape"]
    compare(network, [random(np.random.default_rng(7), tuple(shape), "int8")])


def test_dense_layers() -> None:
    network = load("ad01_int8")
    values = random(np.random.default_rng(8), (1, 640), "int8")
    found = compile_network(network, "ethos-u55-128", "shared_sram").run([values])[0]
    np.testing.assert_array_equal(found.view(np.int8), round_twice(network, values))


def round_twice(network: bytes, values: Array) -> Array:
    """Return the output of a chain of dense layers."""
    interpreter = Interpreter(model_content=network)
    interpreter.allocate_tensors()
    tensors = {tensor["index"]: tensor for tensor in interpreter.get_tensor_details()}
    for operator in interpreter._get_ops_details():
        if operator["op_name"] != "FULLY_CONNECTED":
            continue
        source, weights, bias = operator["inputs"]
        scales, zeros = (
            [tensors[i]["quantization_parameters"][name][0] for i in (source, weights, target)]
            for target in operator["outputs"]
            for name in ("scales", "zero_points")
        )
        centered = values.astype(np.int64).ravel() - zeros[0]
        sums = interpreter.get_tensor(weights).astype(np.int64) @ centered
        fraction, exponent = np.frexp(np.float64(scales[0] * scales[1]) / np.float64(scales[2]))
        factor, shift = int(np.floor(fraction * 2**31 + 0.5)), -int(exponent)
        rounded = scale_and_round(sums + interpreter.get_tensor(bias), factor, shift)
        values = np.clip(rounded + zeros[2], -128, 127)
    return values


def scale_and_round(sums: Array, factor: int, shift: int) -> Array:
    """Return `sums * factor / 2**(31 + shift)` with the two roundings of gemmlowp.

    The first one is SaturatingRoundingDoublingHighMul, the second one RoundingDivideByPOT.
    """
    product = sums * factor
    nudged: Array = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) >> 31)
    mask = (1 << shift) - 1
    return np.asarray((high >> shift) + ((high & mask) > (mask >> 1) + (high < 0)))
