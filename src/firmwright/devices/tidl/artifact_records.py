"""What a build records of the regions that TI's tools are given (``artifacts/artifacts.json``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundaryTensor:
    """A tensor that a region hands over; ``name`` in its sub-model, ``tensor`` in the partition.

    A real number is ``scale`` times (integer - ``zero_point``); floats have 1 and 0.
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class TidlRegionArtifacts:
    """One region's files; ``calibration_sha256`` digests its calibration tensors.

    ``region`` is its name in the partition, and ``operators`` counts its sub-model's.
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
    """All regions of a network.

    ``folder`` is named as TI names it. TI leaves out what decides about the contents: the digest of
    ``model``, the bits of a region, ``frames`` and digests (``samples``) of the calibration, and
    the version of the tools, None where only stand-ins were built. ``files`` are those to hand on,
    relative to the folder.
    """

    folder: str
    files: tuple[str, ...]
    model: str
    frames: int
    samples: tuple[str, ...]
    tools: str | None
    regions: tuple[TidlRegionArtifacts, ...]
