"""api: ``Model``, release 2.1. ``compile`` packs the files of core and of published archives."""

from __future__ import annotations

import io
import json
import logging
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

from ..backends.mpk.interface import L2CachingMode
from ..load.importers.general_importer import ImporterParams
from .defines import QuantizationParams

GRANTED_BATCH = 12
"""1.4: the example asks for 16, and its result is 12."""
KNOWN_KEYWORDS = {"retained_temporary_directory_name", "deployable"}
CYCLES = 1000


class Model:
    def __init__(
        self,
        params: ImporterParams,
        name: str,
        config: QuantizationParams,
        samples: int,
        arm_only: bool,
    ) -> None:
        self.params = params
        self.name = name
        self.config = config
        self.samples = samples
        self.arm_only = arm_only
        self.remarks: dict[str, Any] = {}

    def save(
        self, model_name: str, output_directory: str = "", *, include_unquantized_net: bool = True
    ) -> None:
        """Write ``<name>.sima``, a zip file, and ``<name>.sima.json``."""
        folder = Path(output_directory)
        found = {"config": repr(self.config), "samples": self.samples, "arm_only": self.arm_only}
        found |= self.remarks
        (folder / f"{model_name}.sima.json").write_text(json.dumps(found))
        with zipfile.ZipFile(folder / f"{model_name}.sima", "w") as packed:
            packed.writestr("network", "recorded")

    def compile(
        self,
        output_path: str,
        batch_size: int = 1,
        compress: bool = True,
        log_level: int = logging.NOTSET,
        tessellate_parameters: None = None,
        l2_caching_mode: L2CachingMode = L2CachingMode.NONE,
        preserve: bool = True,
        **kwargs: Any,
    ) -> None:
        """Write ``<name>_mpk.tar.gz``, with the largest possible batch."""
        if unknown := set(kwargs) - KNOWN_KEYWORDS:
            raise TypeError(f"no page states {unknown}")
        batch = {
            "desired_batch_size": batch_size,
            "actual_batch_size": min(batch_size, GRANTED_BATCH),
        }
        files = self.make_arm_files() if self.arm_only else self.make_mla_files(batch)
        place = Path(output_path) / f"{self.name}_mpk.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime = len(data), time.time()  # archives have real times
                archive.addfile(entry, io.BytesIO(data))

    def make_mla_files(self, batch: dict[str, int]) -> dict[str, bytes]:
        """Return the files of a network that runs completely on the MLA."""
        program = f"{self.name}_stage1_mla.elf"
        inputs = list(self.params.shapes)
        outputs = [o.name for o in self.params.model.graph.output]
        steps = [
            step("EV74", "quantization_transform", batch, inputs, ["quantized"]),
            step("EV74", "tessellation_transform", batch, ["quantized"], ["ifm"]),
            {
                **step("MLA", "MLA_0", {**batch, "number_of_quads_to_user": 4}, ["ifm"], ["ofm"]),
                "resources": {"executable": program},
            },
            step("EV74", "MLA_0_ofm_unpack_transform", batch, ["ofm"], ["unpacked"]),
            step("EV74", "detessellation_transform", batch, ["unpacked"], ["plain"]),
            step("EV74", "dequantization_transform", batch, ["plain"], outputs),
        ]
        return {
            f"{self.name}_mpk.json": self.describe(steps),
            program: b"\x7fELF recorded",
            f"{self.name}_stage1_mla_stats.yaml": self.schedule(),
        }

    def make_arm_files(self) -> dict[str, bytes]:
        """Return the files of a network that the Arm cores run."""
        program = f"{self.name}_stage0_a65.so"
        outputs = [o.name for o in self.params.model.graph.output]
        only = step("A65", "APU_0", {}, list(self.params.shapes), outputs)
        described = self.describe([{**only, "resources": {"executable": program}}])
        return {f"{self.name}_mpk.json": described, program: b"\x7fELF recorded"}

    def describe(self, steps: list[dict[str, Any]]) -> bytes:
        numbered = [{**one, "sequence": i} for i, one in enumerate(steps, 1)]
        content = {
            "name": self.name,
            "model_sdk_version": "2.1.0",
            "input_nodes": [{"name": name} for name in self.params.shapes],
            "plugins": numbered,
        }
        return json.dumps(content).encode()

    def schedule(self) -> bytes:
        """Return a layer for each convolution and product, in the format of the page on 1.4."""
        layers = [n for n in self.params.model.graph.node if n.op_type in ("Conv", "MatMul")]
        lines = [
            f"{i}:\n  name: MLA_0/{node.op_type.lower()}_{i}\n"
            f"  start_cycle: {i * CYCLES}\n  end_cycle: {(i + 1) * CYCLES - 1}\n"
            for i, node in enumerate(layers)
        ]
        return "".join(lines).encode()


def step(
    processor: str, name: str, config: dict[str, int], inputs: list[str], outputs: list[str]
) -> dict[str, Any]:
    return {
        "name": name,
        "processor": processor,
        "type": "sgpProcess",
        "config_params": dict(config),
        "input_nodes": [{"name": n, "type": "buffer", "size": 1} for n in inputs],
        "output_nodes": [{"name": n, "type": "buffer", "size": 1} for n in outputs],
    }
