"""An archive in place of SiMa's, for machines without the Model SDK. It says that it is one.

It has the description that programs around the archive read: inputs, outputs, the desired batch.
It has no program, so SiMa's reader refuses it, and its name and all its texts tell what it is.
"""

from __future__ import annotations

from typing import Any

from firmwright.ir.records import encode_record
from firmwright.ir.tensors import Tensor

VERSION = "none: a stand-in, written without SiMa's Model SDK"
NOTICE = """\
This archive is a stand-in. firmwright wrote it because SiMa's Model SDK was not installed.
It has no program for the MLA, and no chip can run it. compile.py next to it makes the real one.
"""


def make_stand_in(
    name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], batch: int
) -> dict[str, bytes]:
    """Return the files of the stand-in for network ``name`` by their names."""
    description = {
        "name": name,
        "model_sdk_version": VERSION,
        "input_nodes": [describe_node(tensor) for tensor in inputs],
        "plugins": [
            {
                "name": "MLA_0",
                "sequence": 1,
                "processor": "MLA",
                "config_params": {"desired_batch_size": batch},
                "input_nodes": [describe_node(tensor) for tensor in inputs],
                "output_nodes": [describe_node(tensor) for tensor in outputs],
            }
        ],
    }
    return {"STAND_IN.txt": NOTICE.encode(), f"{name}_mpk.json": encode_record(description)}


def describe_node(tensor: Tensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "type": "buffer",
        "size": tensor.bytes,
        "logical_shape": list(tensor.shape),
        "logical_dtype": tensor.dtype,
    }
