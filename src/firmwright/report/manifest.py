"""What a bundle says of itself; ``manifest.schema.json`` is its published schema."""

from __future__ import annotations

from dataclasses import dataclass, field

from firmwright.ir.kernels import FloatOperator
from firmwright.recipe import Tolerance
from firmwright.report.comparison import CycleComparison
from firmwright.report.detection import DetectionReport
from firmwright.report.mappings import CostComparison
from firmwright.report.timeline import Timeline

MANIFEST_VERSION = 1


@dataclass(frozen=True)
class Source:
    """A file or document by its digest."""

    sha256: str


@dataclass(frozen=True)
class ModelReport:
    """The model file."""

    format: str
    sha256: str


@dataclass(frozen=True)
class InputsReport:
    """What was read beside the recipe, as :class:`firmwright.recipe.lock.Lock` has it."""

    files: dict[str, str]
    samples: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class BundledFile:
    """A file of the archive; ``path`` is relative to the archive's one folder."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class MemoryReport:
    """Bytes, as linked. ``arena_lower_bound_bytes`` is what no placement could go below.

    ``other_memories`` has the arenas that are not in the processor's; ``copied_bytes`` are those
    that one inference copies from memory to memory.
    """

    flash_bytes: int
    ram_bytes: int
    arena_bytes: int
    arena_lower_bound_bytes: int
    other_memories: dict[str, int]
    copied_bytes: int


@dataclass(frozen=True)
class Arithmetic:
    """How quantized values are computed.

    ``quantized_operators`` counts the operators on values that were dequantized;
    ``float_operators`` are those of them that run in float32, all others run on integers.
    """

    rounding: str
    quantized_operators: int
    float_operators: tuple[FloatOperator, ...]


@dataclass(frozen=True)
class BatchReport:
    """The batch that was wanted and the one that fits; bytes of RAM.

    ``next_needs`` is what one sample more would need, null where no more were wanted.
    """

    desired_batch_size: int
    actual_batch_size: int
    memory: str
    capacity: int
    needs: int
    next_needs: int | None


@dataclass(frozen=True)
class RunReport:
    """How the firmware ran; see :class:`firmwright.verify.record.RunRecord`.

    ``instructions`` and ``macs`` are of one inference, which takes a whole batch. ``mismatches``
    are output values beyond ``tolerance``, ``differences`` those that differ at all, of
    ``values``. ``counts`` are what emulated devices counted in all samples, by name.
    """

    emulator: str
    reference: str
    instructions: int | None
    macs: int
    samples: int
    mismatches: int
    differences: int
    values: int
    max_difference: float
    tolerance: Tolerance
    counts: dict[str, int]


@dataclass(frozen=True)
class QuantizationReport:
    """How a float network was quantized: :class:`firmwright.quantize.record.QuantizationRecord`."""

    engine: str
    scheme: str
    activations: str
    weights: str
    per_channel: bool
    method: str


@dataclass(frozen=True)
class BoxRateReport:
    """Boxes that a network found; see :class:`firmwright.verify.boxes.BoxRates`."""

    found: int
    recall: float
    precision: float
    mean_average_precision: float


@dataclass(frozen=True)
class BoxReport:
    """Boxes of each network; see :class:`firmwright.verify.boxes.BoxAccuracy`."""

    iou: float
    right: int
    networks: dict[str, BoxRateReport]


@dataclass(frozen=True)
class AccuracyReport:
    """What the accuracy stage found, see :class:`firmwright.verify.accuracy.AccuracyRecord`.

    Values are by network: ``float32``, ``quantized`` and ``firmware``, or, without `quantize`,
    ``reference`` and ``firmware``. Of the samples that judged, the calibration saw ``calibrated``.
    ``top1`` counts the classes of the labels (``labelled``) or of the first network, ``agreement``
    the latter. ``reference`` names the runtime that evaluated the network as it is compiled,
    ``firmware`` what compiled the C that was evaluated.
    """

    calibrated: int
    labelled: bool
    reference: str
    firmware: str
    top1: dict[str, float]
    agreement: dict[str, float]
    metric: dict[str, float] | None
    boxes: BoxReport | None


@dataclass(frozen=True)
class RegionArtifacts:
    """What an accelerator's own tools are given of a region.

    ``bits`` are those of its integers, ``calibration_sha256`` digests the tensors that it reads
    for all samples of the calibration. ``prequantized`` regions state their grids themselves.
    """

    number: int
    region: str
    bits: int
    prequantized: bool
    macs: int
    calibration_sha256: str


@dataclass(frozen=True)
class ArtifactsReport:
    """What the archive's ``artifacts/<folder>`` was made from and by, as its name does not say.

    ``model`` is the model file's digest, ``samples`` are those of the ``frames`` that the tools
    calibrate with, ``tools`` their version, null where none were there. ``files`` are relative to
    the folder.
    """

    folder: str
    files: tuple[str, ...]
    model: str
    frames: int
    samples: tuple[str, ...]
    tools: str | None
    regions: tuple[RegionArtifacts, ...]


@dataclass(frozen=True)
class Manifest:
    """The file ``manifest.json`` of a bundle.

    ``recipe.sha256`` is the digest of the resolved recipe (defaults filled in, overrides
    applied), so it does not change with a comment. ``versions`` are those of the tools that
    decided about the bytes. ``detection`` lists the boxes of a recipe with `postprocess`.
    ``cycles`` is None where the emulator counts no instructions, ``comparison`` also without
    the recipe's `compare`; with it, ``mapping`` has modelled costs where the platform states its
    `timing`. ``stand_ins`` has by region what its code stands in for, ``artifacts`` what an
    accelerator's own tools are given; None for a target without such.
    """

    manifest_version: int
    name: str
    platform: str
    target: str
    model: ModelReport
    recipe: Source
    files: tuple[BundledFile, ...]
    arithmetic: Arithmetic
    memory: MemoryReport
    batch: BatchReport | None
    run: RunReport
    inputs: InputsReport
    versions: dict[str, str]
    detection: DetectionReport | None = None
    quantization: QuantizationReport | None = None
    accuracy: AccuracyReport | None = None
    cycles: Timeline | None = None
    comparison: CycleComparison | None = None
    mapping: CostComparison | None = None
    stand_ins: dict[str, str] = field(default_factory=dict)
    artifacts: ArtifactsReport | None = None
