"""Writes the inputs of TI's tools for each region, in a folder with TI's layout.

For the N-th region of TIDL, ``tempDir`` has ``subgraph<N>.onnx``, ``tidl_import_subgraph<N>.txt``,
``calib_raw_data<N>.bin`` and ``subgraph<N>.layer_info.txt``. For all regions, the folder has
``relay.nfo``, ``allowedNode.txt`` and ``import.sh``. No file contains a time or an absolute path.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from tvm import relax

from firmwright.devices.tidl.artifact_records import (
    BoundaryTensor,
    RegionFiles,
    TidlRegionArtifacts,
)
from firmwright.devices.tidl.import_config import RegionImport, format_import_config
from firmwright.devices.tidl.options import TidlOptions
from firmwright.devices.tidl.region_tensors import compute_tensors
from firmwright.devices.tidl.submodel import SubModel, export_sub_model
from firmwright.devices.tidl.tools import make_import_script
from firmwright.ir.operators import LAYOUT, short_name
from firmwright.ir.quant_params import QuantParams, read_quant_params
from firmwright.ir.regions import Partition, Region
from firmwright.ir.relax import main_bindings, operator_name, read_variables
from firmwright.ir.tensors import is_source_name
from firmwright.partition.layer_groups import CONVERSIONS
from firmwright.targets.fact_context import make_fact_context

NON_COMPUTING = CONVERSIONS | {"constant"}
TEMP_FOLDER = "tempDir"
"""The folder in which TI's compilers store files that users do not deploy."""
COMMON_FILES = ("allowedNode.txt", "import.sh", "relay.nfo")


FLOAT = QuantParams("float32", 1.0, 0)
"""The parameters of a tensor that is not quantized."""


@dataclass(frozen=True)
class TidlNetwork:
    """A partitioned network, with the inputs for the import of its regions.

    ``samples`` are the frames with which TIDL calibrates. Each frame has one array per input of the
    network, in the order of the inputs.
    """

    module: tvm.IRModule
    partition: Partition
    samples: Sequence[Mapping[str, npt.NDArray[Any]]]
    options: TidlOptions

    @property
    def regions(self) -> list[Region]:
        return [r for r in self.partition.regions if r.device == "tidl"]

    def function(self, region: Region) -> relax.Function:
        return self.module[region.name]


@dataclass(frozen=True)
class WrittenRegion:
    region: Region
    model: SubModel
    imported: RegionImport


def write_artifacts(network: TidlNetwork, folder: Path) -> list[TidlRegionArtifacts]:
    """Write all files except the results of TI's tools into the empty folder ``folder``.

    Raises UserError if an operator cannot be exported to a sub-model.
    """
    written = [
        write_region(network, region, number, folder)
        for number, region in enumerate(network.regions)
    ]
    digests = write_calibration(network, written, folder)
    write_text(folder / "relay.nfo", json.dumps(make_nfo(network, written), indent=1) + "\n")
    write_text(folder / "allowedNode.txt", format_allowed_nodes(network))
    write_text(
        folder / "import.sh", make_import_script([one.imported.files.config for one in written])
    )
    return [make_record(network, one, digest) for one, digest in zip(written, digests, strict=True)]


def write_region(network: TidlNetwork, region: Region, number: int, folder: Path) -> WrittenRegion:
    function = network.function(region)
    model = export_sub_model(function, number)
    prequantized = any(short_name(b.value) == "quantize" for b in bindings_of(function))
    files = RegionFiles(number)
    imported = RegionImport(
        files,
        model.inputs,
        model.outputs,
        boundary_quant_params(function),
        network.options.number("tensor_bits"),
        prequantized,
    )
    (folder / files.model).write_bytes(model.data)
    write_text(folder / files.layers, format_layer_info(model))
    configuration = format_import_config(imported, network.options, len(network.samples))
    write_text(folder / files.config, configuration)
    return WrittenRegion(region, model, imported)


def write_calibration(
    network: TidlNetwork, written: Sequence[WrittenRegion], folder: Path
) -> list[str]:
    """Write each region's inputs for all samples, and return the digests of the files.

    The inputs of a sample follow each other. Elements are little-endian, in row order.
    """
    if not written:
        return []
    wanted = list(dict.fromkeys(t for one in written for t in one.region.inputs))
    files = [folder / one.imported.files.calibration for one in written]
    digests = [hashlib.sha256() for _ in files]
    for file in files:
        file.touch()
    for values in compute_tensors(network.module, network.partition, network.samples, wanted):
        for one, file, total in zip(written, files, digests, strict=True):
            frame = b"".join(to_raw_bytes(values[tensor]) for tensor in one.region.inputs)
            total.update(frame)
            with file.open("ab") as stream:
                stream.write(frame)
    return [total.hexdigest() for total in digests]


def to_raw_bytes(array: npt.NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def format_layer_info(model: SubModel) -> str:
    """Return one line per layer: number, ONNX operator and name."""
    nodes = onnx.load_model_from_string(model.data).graph.node
    return "".join(f"{i} {n.op_type} {n.name or n.output[0]}\n" for i, n in enumerate(nodes))


def format_allowed_nodes(network: TidlNetwork) -> str:
    """Return one line per operator: its device, its kind, and its name in the model or ``-``."""
    numbers = {region.name: number for number, region in enumerate(network.regions)}
    lines = []
    for region in network.partition.regions:
        number = numbers.get(region.name)
        section = region.device if number is None else f"subgraph{number}"
        for binding in bindings_of(network.function(region)):
            if short_name(binding.value) not in NON_COMPUTING:
                name = binding.var.name if is_source_name(str(binding.var.name)) else "-"
                lines.append(f"{section} {short_name(binding.value)} {name}\n")
    return "".join(lines)


def make_nfo(network: TidlNetwork, written: Sequence[WrittenRegion]) -> dict[str, Any]:
    """Return the content of ``relay.nfo``, with the keys of TI's compilers.

    Zero points and inverse scales of the inputs come first. The values of the outputs follow.
    """
    others = [r for r in network.partition.regions if r.device != "tidl"]
    functions = [network.function(r) for r in network.partition.regions]
    is_nchw = int(
        make_fact_context([b for f in functions for b in bindings_of(f)]).layout == "NCHW"
    )
    return {
        "tvm": {
            "is_nchw": is_nchw,
            "macs": sum(r.macs for r in others),
            "nodes": count_operators([network.function(r) for r in others]),
        },
        "subgraphs": [
            {
                "name": f"tidl_{one.imported.files.number}",
                "is_nchw": is_nchw,
                "macs": one.region.macs,
                "ninputs": len(one.model.inputs),
                "noutputs": len(one.model.outputs),
                "inouts_zp": [g.zero_point for g in one.imported.quant_params],
                "inouts_scale_inv": [1 / g.scale for g in one.imported.quant_params],
                "nodes": count_operators([network.function(one.region)]),
            }
            for one in written
        ],
    }


def count_operators(functions: Sequence[relax.Function]) -> dict[str, int]:
    names = [short_name(b.value) for f in functions for b in bindings_of(f)]
    return dict(sorted(Counter(n for n in names if n != "constant").items()))


def list_bundle_files(regions: Sequence[TidlRegionArtifacts], imported: bool) -> tuple[str, ...]:
    """Return the files for a bundle, relative to the folder of artifacts.

    The result excludes calibration tensors, because they are large and belong to the user. The
    result has only two files of TI's tools per region: the network and its description.
    """
    names = [RegionFiles(region.number) for region in regions]
    parts = [(*n.build_files, *(n.tool_files if imported else ())) for n in names]
    return tuple(f"{TEMP_FOLDER}/{name}" for part in (COMMON_FILES, *parts) for name in part)


def make_record(network: TidlNetwork, one: WrittenRegion, digest: str) -> TidlRegionArtifacts:
    imported, inputs = one.imported, len(one.model.inputs)
    tensors = [*zip(one.model.inputs, one.region.inputs, strict=True),
               *zip(one.model.outputs, one.region.outputs, strict=True)]  # fmt: skip
    sides = [
        BoundaryTensor(t.name, name, t.shape, t.dtype, params.scale, params.zero_point)
        for (t, name), params in zip(tensors, imported.quant_params, strict=True)
    ]
    return TidlRegionArtifacts(
        number=imported.files.number,
        region=one.region.name,
        inputs=tuple(sides[:inputs]),
        outputs=tuple(sides[inputs:]),
        bits=imported.bits,
        prequantized=imported.prequantized,
        macs=one.region.macs,
        operators=count_operators([network.function(one.region)]),
        calibration_sha256=digest,
    )


def write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def boundary_quant_params(function: relax.Function) -> list[QuantParams]:
    """Return the quantization parameters of a region's inputs, then of its outputs.

    An input has the parameters of the dequantize operator that reads it. An output has the
    parameters of the quantize operator that produces it. Operators that only move elements may be
    in between.
    """
    bindings = bindings_of(function)
    makers = {b.var: b.value for b in bindings}
    return [
        *(find_input_params(v, bindings) for v in function.params),
        *(find_output_params(v, makers) for v in function.body.body.fields),
    ]


def bindings_of(function: relax.Function) -> list[relax.VarBinding]:
    return main_bindings(tvm.IRModule({"main": function}))


def find_input_params(tensor: relax.Var, bindings: Sequence[relax.VarBinding]) -> QuantParams:
    same = {tensor}
    for binding in bindings:
        if same.isdisjoint(read_variables(binding.value)):
            continue
        name = operator_name(binding.value)
        if name == "relax.dequantize":
            return read_quant_params(binding.value)
        if name in LAYOUT:
            same.add(binding.var)
    return FLOAT


def find_output_params(tensor: relax.Var, makers: Mapping[relax.Var, relax.Expr]) -> QuantParams:
    value = makers.get(tensor)
    while operator_name(value) in LAYOUT:
        value = makers.get(read_variables(value)[0])
    return read_quant_params(value) if operator_name(value) == "relax.quantize" else FLOAT
