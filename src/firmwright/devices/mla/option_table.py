"""Lists the options of ``mla``: settings of SiMa's ``afe`` that have no recipe key.

The defaults are the defaults of ``afe`` for release 2 according to SiMa's pages. The pages have no
default of ``num_bins``, so the table has the number of their example.
"""

from __future__ import annotations

from collections.abc import Sequence

from firmwright.targets.device_options import SWITCH, NumberRange, Option

OPTIONS: Sequence[Option[str]] = (
    Option("precision", "int8", ("int8", "bf16"),
           "the MLA's type; only Modalix supports `bf16`"),
    Option("requantization_mode", "sima", ("sima", "tflite"), "how sums are rounded to 8 bits"),
    Option("bias_correction", "recipe", ("recipe", "none", "regular", "iterative"),
           "`recipe` follows `quantize.bias_correction`: `regular` or `none`"),
    Option("smooth_quant", "0", SWITCH, "move scale from activations to weights"),
    Option("prefer_int8_udf", "1", SWITCH, "tables of 8 bits for functions"),
    Option("unquantized_nodes", "", (), "nodes that stay float, by the names of `afe`"),
    Option("num_bins", "2048", NumberRange(1), "bins of the histograms of a calibration"),
    Option("automatic_layout_conversion", "0", SWITCH, "`afe` moves axes if that helps"),
    Option("any_shape_on_mla", "0", SWITCH, "the MLA may run tensors without 4 axes"),
    Option("arm_only", "0", SWITCH, "all layers run on the Arm cores, without calibration"),
    Option("convert_to_sima_quantization", "0", SWITCH,
           "keep the scales of a quantized model, without a calibration"),
    Option("target_accuracy", "none", NumberRange(0, 1, decimal=True, other_values=("none",)),
           "quantize again until this share of the classes in `evaluate` is right"),
    Option("max_optimization_steps", "none", NumberRange(1, other_values=("none",)),
           "the maximum number of attempts to reach `target_accuracy`"),
    Option("compress", "1", SWITCH, "compress data in DRAM"),
    Option("l2_caching_mode", "none", ("none", "single_model"), "the contents of the second cache"),
)  # fmt: skip
