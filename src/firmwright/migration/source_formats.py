"""Lists the formats that ``init --from`` reads, and their readers and detection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from firmwright.errors import UserError
from firmwright.migration.c_arrays import ARRAY, METADATA, read_c_array, read_edge_impulse
from firmwright.migration.command_lines import (
    DEEPLOY,
    ONNX2C,
    TVMC,
    read_command,
    read_tvmc,
)
from firmwright.migration.documents import read_document, read_options, read_platformio
from firmwright.migration.python_scripts import Calls, read_script
from firmwright.migration.source import Setting

if TYPE_CHECKING:
    from firmwright.migration.source import Source


@dataclass(frozen=True)
class SourceFormat:
    """One format: the name of its rules, its title in messages, its reader, and its page.

    A file has the format if its suffix is in ``suffixes``, or if ``suffixes`` is empty, and if
    ``pattern`` matches a part of its text. ``uses`` are devices of the target, unless the file
    excludes them. ``c_prefix`` begins the C names of the tool if the file states no other prefix.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    pattern: str
    read: Callable[[Source], Iterable[Setting]]
    page: str = "index.md"
    uses: tuple[str, ...] = ()
    c_prefix: str = ""

    def has(self, source: Source) -> bool:
        known = not self.suffixes or source.suffix in self.suffixes
        return known and bool(re.search(self.pattern, source.text, re.M))


AFE_CALLS: Calls = {
    "onnx_source": ("model_path", "shape_dict", "dtype_dict"),
    "tflite_source": ("model_path", "shape_dict", "dtype_dict"),
    "pytorch_source": ("model_path", "input_names", "input_shapes"),
    "load_model": ("params", "target"),
    "quantize": ("calibration_data", "quantization_config"),
    "compile": ("output_path", "batch_size", "compress"),
    "length_hinted": ("n", "iterable"),
    "from_str": ("method",),
    "MinMaxMethod": (),
    "MovingAverageMinMaxMethod": (),
    "HistogramMSEMethod": ("num_bins",),
    "HistogramEntropyMethod": ("num_bins",),
    "HistogramPercentileMethod": ("percentile_value", "num_bins"),
    "SkipCalibration": (),
    "quantization_scheme": ("asymmetric", "per_channel", "bits"),
    "bfloat16_scheme": (),
    "with_calibration": ("method",),
    "with_activation_quantization": ("scheme",),
    "with_weight_quantization": ("scheme",),
    "with_bias_correction": ("value",),
    "with_channel_equalization": ("value",),
    "with_smooth_quant": ("value",),
    "with_prefer_int8_udf": ("value",),
    "with_requantization_mode": ("mode",),
    "with_unquantized_nodes": ("nodes",),
    "with_custom_quantization_configs": ("configs",),
}
"""The functions of SiMa's afe and their parameters, according to its documentation."""

TIDL_CALLS: Calls = {
    "compile_model": (
        *("model_name", "platform", "compile_for_device", "enable_tidl_offload"),
        *("enable_c7x_codegen", "batch_size"),
    ),
    "compile_relay": (
        *("mod", "params", "calibration_input_list", "platform", "compile_for_device"),
        *("enable_tidl_offload", "enable_c7x_codegen", "artifacts_folder", "tidl_tensor_bits"),
        "advanced_options",
    ),
    "TIDLCompiler": ("platform", "version"),
    "TIOffloadCompiler": ("platform", "tidl_tools_path"),
}
TIDL_MAPPINGS = (
    *("compile_options", "delegate_options", "runtime_options", "required_options"),
    *("optional_options", "advanced_options"),
)
"""The functions and the dicts of options in scripts for TI's tools."""

HTVM_CALLS: Calls = {
    "tvmc_compile_and_unpack": ("model", "target", "fuse_layers", "build_path"),
    "create_demo_file": ("mod", "path"),
}
"""The functions of HTVM's ``utils.py`` and their parameters, as in its notebook."""

AFE_NAMES = r"^\s*(?:from|import)\s+afe\b|\b(?:default_quantization|gen[12]_target)\b"
"""The import of afe, and names that scripts in SiMa's pages use without the import."""

HTVM_CALL = r"\btvmc_compile_and_unpack\("
TIDL_KEYS = r"^\s*(?:(?:compile|runtime)_options|session_name)\s*:"
"""Keys that occur only in TI's YAML files."""


def read_afe(source: Source) -> list[Setting]:
    """Return the settings of a script. SiMa's model zoo passes a dict ``args`` to the importer.

    Afe corrects no biases by default, but a recipe with samples does.
    """
    settings = read_script(source, AFE_CALLS, ("args",))
    given = {setting.name: setting for setting in settings}
    name = "with_bias_correction.value"
    if name not in given and "quantize.quantization_config" in given:
        quantized = given["quantize.quantization_config"]
        settings.append(Setting(name, False, source.shown, quantized.line))
    return settings


COMMAND: tuple[str, ...] = ()
FOLDER, INI, MLCONF, PYTHON, YAML = ("/",), (".ini",), (".mlconf",), (".py",), (".yaml", ".yml")
C = (".c", ".cc", ".cpp", ".h", ".hpp")
"""The suffixes of a kind of file. A command is also found in notes and in scripts."""

read_ti_script = partial(read_script, calls=TIDL_CALLS, mappings=TIDL_MAPPINGS)
read_htvm_script = partial(read_script, calls=HTVM_CALLS, mappings=())
read_onnx2c, read_deeploy = (partial(read_command, tool=tool) for tool in (ONNX2C, DEEPLOY))

FORMATS = (
    SourceFormat(
        *("edge_impulse", "an export of Edge Impulse", FOLDER, rf"{METADATA}$"),
        *(read_edge_impulse, "edge-impulse.md"),
        c_prefix="impulse",
    ),
    SourceFormat(
        "afe", "a script for SiMa's afe", PYTHON, AFE_NAMES, read_afe, "sima.md", ("mla",)
    ),
    SourceFormat(
        *("tidl", "a script for TI's compiler", PYTHON, r"(?i:tidl)"),
        *(read_ti_script, "ti.md", ("tidl",)),
    ),
    SourceFormat("htvm", "a script for HTVM", PYTHON, HTVM_CALL, read_htvm_script, "htvm.md"),
    SourceFormat("mlconf", "an .mlconf file of Silicon Labs", MLCONF, "", read_document, "tflm.md"),
    SourceFormat(
        "tidl", "compile options of TI", YAML, TIDL_KEYS, read_options, "ti.md", ("tidl",)
    ),
    SourceFormat(
        "platformio", "a PlatformIO project", INI, r"^\[(?:env|platformio)\b", read_platformio
    ),
    SourceFormat("c_array", "a C array of a model", C, ARRAY.pattern, read_c_array, "tflm.md"),
    SourceFormat(
        *("tvmc", "a command of tvmc", COMMAND, TVMC.pattern.pattern, read_tvmc, "microtvm.md"),
        c_prefix="tvmgen_default",
    ),
    SourceFormat(
        *("onnx2c", "a command of onnx2c", COMMAND, ONNX2C.pattern.pattern),
        *(read_onnx2c, "onnx2c.md"),
    ),
    SourceFormat("deeploy", "a command of Deeploy", COMMAND, DEEPLOY.pattern.pattern, read_deeploy),
)
"""The formats. The first format that a file has reads the file."""


PAGES = {
    "soma_dory": "`firmwright init MODEL --platform diana` writes a recipe; see "
    "docs/migration/htvm.md",
    "stedgeai": "`firmwright init MODEL` writes a recipe; see docs/migration/stm32cube-ai.md",
    "stm32ai": "`firmwright init MODEL` writes a recipe; see docs/migration/stm32cube-ai.md",
    "vela": "`firmwright init MODEL` writes a recipe; see packages/ethos_u/README.md",
}
"""The names of tools and devices whose files are not converted, with the way to a recipe."""

NOTEBOOK = "save the notebook as a script: `jupyter nbconvert --to script`"


def find_format(source: Source) -> SourceFormat:
    """Return the format of a file. Raises UserError if a file has no known format."""
    for each in FORMATS:
        if each.has(source):
            return each
    titles = ", ".join(dict.fromkeys(each.title for each in FORMATS))
    tool = next((name for name in PAGES if re.search(rf"\b{name}\b", source.text)), "")
    hint = f"; {tool}: {PAGES[tool]}" if tool else ""
    hint = f"; {NOTEBOOK}" if source.suffix == ".ipynb" else hint
    raise UserError(f"{source.shown}: unknown format; expected {titles}{hint}")
