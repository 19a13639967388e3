"""Lists all artifacts that stages exchange."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .artifact import ARRAYS, LOWERED_STAGE, MODULE, NETWORK_STAGE, PATH, Artifact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from firmwright.ir.kernels import KeptRegions, Kernels
    from firmwright.ir.nodes import IRModule
    from firmwright.ir.regions import Partition
    from firmwright.ir.tensors import BatchLayout, ModelInterface, ModelSignature
    from firmwright.planning import Plan
    from firmwright.planning.batch_size import BatchChoice
    from firmwright.quantize.calibration import CalibrationRecord
    from firmwright.quantize.quantization_record import QuantizationRecord
    from firmwright.report.advice import AdviceRecord
    from firmwright.report.comparison import CostComparison, TimeComparison
    from firmwright.report.manifest import NetworksRun
    from firmwright.report.timeline import Timeline
    from firmwright.toolchain.flash_images import FirmwareSize
    from firmwright.verify.detection import DetectionReport
    from firmwright.verify.run_records import (
        AccuracyRecord,
        NetworkValues,
        ReferenceRecord,
        RunRecord,
    )

    Arrays = dict[str, NDArray[Any]]

INTERFACE_CLASS = "firmwright.ir.tensors:ModelInterface"

MODEL_INTERFACE: Artifact[ModelInterface] = Artifact("model", "model.json", INTERFACE_CLASS)
MODEL_MODULE: Artifact[IRModule] = Artifact("model", "module.json", MODULE)
MODEL_SIGNATURE: Artifact[ModelSignature] = Artifact(
    "model", "signature.json", "firmwright.ir.tensors:ModelSignature"
)
"""The signature of the model, which exists only if the recipe requires a signature."""

CALIBRATION: Artifact[CalibrationRecord] = Artifact(
    "calibration", "calibration.json", "firmwright.quantize.calibration:CalibrationRecord"
)
DISTRIBUTIONS: Artifact[Arrays] = Artifact("calibration", "distributions.npz", ARRAYS)
PREPARED_MODEL: Artifact[Path] = Artifact("calibration", "prepared.onnx", PATH)
"""The float network as ONNX, in the form that is quantized."""

QUANTIZATION: Artifact[QuantizationRecord] = Artifact(
    "quantized", "quantization.json", "firmwright.quantize.quantization_record:QuantizationRecord"
)
QUANTIZED_MODEL: Artifact[Path] = Artifact("quantized", "model.onnx", PATH)

QUANTIZED_RELAX: Artifact[Path] = Artifact("quantized", "model.relax", PATH)
"""The network in shift arithmetic, in the form that is compiled."""

NETWORK_INTERFACE: Artifact[ModelInterface] = Artifact(NETWORK_STAGE, "model.json", INTERFACE_CLASS)
NETWORK_MODULE: Artifact[IRModule] = Artifact(NETWORK_STAGE, "module.json", MODULE)

NETWORK_VALUES: Artifact[NetworkValues] = Artifact(
    NETWORK_STAGE, "values.json", "firmwright.verify.run_records:NetworkValues"
)

BATCH: Artifact[BatchChoice] = Artifact(
    "batch", "batch.json", "firmwright.planning.batch_size:BatchChoice"
)

PARTITION: Artifact[Partition] = Artifact(
    "partition", "partition.json", "firmwright.ir.regions:Partition"
)
REGIONS: Artifact[IRModule] = Artifact("partition", "module.json", MODULE)
"""The network with one function per region."""
LOWERED: Artifact[IRModule] = Artifact(LOWERED_STAGE, "module.json", MODULE)
"""The network that is lowered, in which a device may have replaced regions of the partition."""
LOWERED_MODEL: Artifact[IRModule] = Artifact(LOWERED_STAGE, "model.relax", MODULE)
"""The reference network, which exists only if a device replaced regions."""
INTERFACE: Artifact[ModelInterface] = Artifact("partition", "interface.json", INTERFACE_CLASS)
"""The inputs and outputs of the C function: whole batches in their memory layout."""
BATCH_LAYOUT: Artifact[BatchLayout] = Artifact(
    "partition", "batch.json", "firmwright.ir.tensors:BatchLayout"
)
"""The batch layout, which exists only if the recipe states a batch."""

OF_SAMPLES: tuple[Artifact[Any], ...] = (
    MODEL_INTERFACE, NETWORK_INTERFACE, NETWORK_VALUES, INTERFACE, BATCH_LAYOUT, PARTITION, LOWERED,
)  # fmt: skip
"""The artifacts that determine the samples of a network and the outputs of its reference."""

KERNELS: Artifact[Kernels] = Artifact("kernels", "kernels.json", "firmwright.ir.kernels:Kernels")
WEIGHTS: Artifact[Arrays] = Artifact("kernels", "weights.npz", ARRAYS)
KEPT_REGIONS: Artifact[KeptRegions] = Artifact(
    "kernels", "kept.json", "firmwright.ir.kernels:KeptRegions"
)
"""The kernels of the last run, which only the next run of the kernels stage reads."""

ACCURACY: Artifact[AccuracyRecord] = Artifact(
    "accuracy", "accuracy.json", "firmwright.verify.run_records:AccuracyRecord"
)

ADVICE: Artifact[AdviceRecord] = Artifact(
    "advice", "advice.json", "firmwright.report.advice:AdviceRecord"
)

PLAN: Artifact[Plan] = Artifact("plan", "plan.json", "firmwright.planning:Plan")

GOLDEN: Artifact[Arrays] = Artifact("selftest", "golden.npz", ARRAYS)
"""The samples of the self-test and the layers' checksums.

The arrays are ``input_0`` …, ``output_0`` … and ``checksums``.
"""

PROJECT: Artifact[Path] = Artifact("sources", "", PATH)
OBJECTS: Artifact[Path] = Artifact("objects", "", PATH)

FIRMWARE: Artifact[Path] = Artifact("firmware", "firmware.elf", PATH)
FIRMWARE_SIZE: Artifact[FirmwareSize] = Artifact(
    "firmware", "memory.json", "firmwright.toolchain.flash_images:FirmwareSize"
)

REFERENCE: Artifact[ReferenceRecord] = Artifact(
    "reference", "reference.json", "firmwright.verify.run_records:ReferenceRecord"
)
REFERENCE_OUTPUTS: Artifact[Arrays] = Artifact("reference", "outputs.npz", ARRAYS)
"""The reference's outputs ``output_0`` … for the run's samples, one sample at a time."""

RUN: Artifact[RunRecord] = Artifact("run", "run.json", "firmwright.verify.run_records:RunRecord")
NETWORKS_RUN: Artifact[NetworksRun] = Artifact(
    "run", "run.json", "firmwright.report.manifest:NetworksRun"
)
"""The results of the networks, which exist only for a firmware of several networks."""
RUN_OUTPUTS: Artifact[Arrays] = Artifact("run", "outputs.npz", ARRAYS)
"""The outputs of the firmware, ``firmware_0`` …, and of the reference, ``reference_0`` …."""
RUN_SAMPLE: Artifact[Arrays] = Artifact("run", "sample.npz", ARRAYS)
"""The firmware's first inputs, ``input_0`` …, and their outputs, ``output_0`` …."""
BOXES: Artifact[DetectionReport] = Artifact(
    "run", "boxes.json", "firmwright.verify.detection:DetectionReport"
)
"""The boxes of a detector, which exist only if the recipe has a detection."""

TIMELINE: Artifact[Timeline] = Artifact(
    "stats", "stats.json", "firmwright.report.timeline:Timeline"
)
COMPARISON: Artifact[TimeComparison] = Artifact(
    "comparison", "comparison.json", "firmwright.report.comparison:TimeComparison"
)
MAPPING: Artifact[CostComparison] = Artifact(
    "mapping", "mapping.json", "firmwright.report.comparison:CostComparison"
)
DEMO: Artifact[Path] = Artifact("demo", "", PATH)
DEMO_CONSOLE: Artifact[Path] = Artifact("demo-run", "console.txt", PATH)
EXPORTS: Artifact[Path] = Artifact("exports", "", PATH)

SUMMARY: Artifact[Path] = Artifact("bundle", "summary.json", PATH)
"""The rows of the table that a build prints at its end."""
