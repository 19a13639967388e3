"""The int8 networks of MLPerf Tiny are bit-exact to LiteRT's reference kernels."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from single import compare, random

from firmwright.device import find_in_mirror

NETWORKS = {
    "kws_ref_model": "aeea436800704fce17b17292e4412630ad856e9d777c044c64ef748a880bd0ae",
    "vww_96_int8": "597a384c8c2c8a1276f04702f25013b7838f2f814f1ca7c174d295b73e3d6b7b",
    "pretrainedResnet_quant": "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415",
    "ad01_int8": "87cf24194ef93d1d9b11a591d805526b98008e351655d29883c825c9c106ba24",
}


def load(name: str) -> bytes:
    network = find_in_mirror(f"{name}.tflite", NETWORKS[name])
    assert network is not None, f"the folders of FIRMWRIGHT_MIRROR have no {name}.tflite"
    return network


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str) -> None:
    network = load(name)
    shape = Interpreter(model_content=network).get_input_details()[0]["shape"]
    compare(network, [random(np.random.default_rng(7), tuple(shape), "int8")])
