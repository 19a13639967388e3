"""Defines the files and the record of the regions that TI's tools import (``artifacts.json``)."""

from __future__ import annotations

from dataclasses import dataclass


class RegionFiles:
    """The file names of the ``number``-th region.

    TI's tool writes ``net`` and ``params``. The tool appends ``1.bin`` to ``params_stem``.
    ``build_files`` are the files that a build writes for the bundle. They exclude calibration
    tensors, which are large.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.stem = f"subgraph{number}"
        self.model = f"{self.stem}.onnx"
        self.layers = f"{self.stem}.layer_info.txt"
        self.config = f"tidl_import_{self.stem}.txt"
        self.calibration = f"calib_raw_data{number}.bin"
        self.net = f"{self.stem}_net.bin"
        self.params_stem = f"{self.stem}_params_"
        self.params = f"{self.params_stem}1.bin"
        self.build_files = (self.model, self.layers, self.config)
        self.tool_files = (self.net, self.params)


@dataclass(frozen=True, slots=True)
class BoundaryTensor:
    """A boundary tensor of a region: ``name`` in its sub-model, ``tensor`` in the partition.

    A real number is ``scale`` times (integer - ``zero_point``). Floats have the scale 1 and the
    zero point 0.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class TidlRegionArtifacts:
    """The facts about one region, which is ``region`` in the partition.

    ``operators`` counts the operators of its sub-model. ``calibration_sha256`` is the digest of its
    calibration tensors.
    """

    number: int
    region: str
    inputs: tuple[BoundaryTensor, ...]
    outputs: tuple[BoundaryTensor, ...]
    bits: int
    prequantized: bool
    macs: int
    operators: dict[str, int]
    calibration_sha256: str


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The record of all regions of a network.

    ``folder`` is a name in TI's format. TI does not record the facts that determine the contents of
    the folder. This record contains those facts: the digest of ``model``, the bits of a region,
    ``frames``, and the digests of the calibration (``samples``). ``tools`` is the version of the
    tools, or None if the build has only stand-ins. ``files`` are the files for the bundle, relative
    to the folder.
    """

    folder: str
    files: tuple[str, ...]
    model: str
    frames: int
    samples: tuple[str, ...]
    tools: str | None
    regions: tuple[TidlRegionArtifacts, ...]
