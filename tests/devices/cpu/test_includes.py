"""Each file of a form includes a header once, before all other text."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lowering.test_tflite_networks import mirrored
from tests.networks.firmware import lowered


@pytest.mark.parametrize("platform", ["host", "aarch64-linux", "cortex-m55-bare", "rv32-bare"])
def test_a_header_is_included_once(platform: str) -> None:
    network = lowered(mirrored("resnet8_qdq.onnx").read_bytes(), platform=platform)
    files = {file.name: file.text for kernel in network.kernels.kernels for file in kernel.files}
    assert len(files) > 5
    for text in files.values():
        lines = Counter(line for line in text.splitlines() if line.startswith("#include"))
        assert {*lines.values()} <= {1}
