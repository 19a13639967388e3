"""The generated C of a detector, compiled alone with sanitizers, and called on any outputs."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from firmwright.codegen.templates import make_environment, render
from firmwright.ir.tensors import BatchLayout, Tensor
from firmwright.postprocess.boxes import Box
from firmwright.postprocess.detector import Detector, fit_detector
from firmwright.project.write import make_dequantize_tables, name_ports
from firmwright.recipe.postprocess import BoxCode, Classes, Confidence, Detection, Head
from firmwright.verify.protocol import BOX_STRUCT

Outputs = Sequence[npt.NDArray[Any]]

NETWORK_H = """\
#include <stdbool.h>
#include <stdint.h>
#define NETWORK_CLASSES %d
typedef struct network_outputs {
%s
} network_outputs;
"""

REFUSED = 5
"""Exit code of the program if the detector returns -1."""

HARNESS = """\
#include "network_detection.h"
#include <stdio.h>
#include <stdlib.h>

static void *exactly(size_t bytes)
{
    void *data = malloc(bytes);
    if (data == NULL || fread(data, 1, bytes, stdin) != bytes) {
        exit(3);
    }
    return data;
}

int main(void)
{
    int32_t capacity;
    while (fread(&capacity, sizeof capacity, 1, stdin) == 1) {
        network_outputs outputs = {%(reads)s};
        network_box *boxes = malloc((size_t)capacity * sizeof *boxes);
        const int32_t count = network_detect(&outputs, %(sample)sboxes, capacity);
        if (count < 0) {
            exit(%(refused)d);
        }
        fwrite(&count, sizeof count, 1, stdout);
        fwrite(boxes, sizeof *boxes, (size_t)count, stdout);
        free(boxes);
%(frees)s
    }
    {
        network_outputs none = {0};
        network_box box;
        network_outputs *missing = NULL;
        return network_detect(missing, %(sample)s&box, 1) +
               network_detect(&none, %(sample)s&box, 1) +
               network_detect(&none, %(sample)sNULL, 1) +
               network_detect(&none, %(sample)s&box, 0) + 4;
    }
}
"""

FLAGS = ("-std=c99", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all")  # fmt: skip


class CompiledDetector:
    """The C of one detector as a program; with a ``batch``, for its sample number ``sample``."""

    def __init__(
        self,
        detector: Detector,
        folder: Path,
        compiler: str = "gcc",
        batch: BatchLayout | None = None,
        sample: int = 0,
    ) -> None:
        self.program = folder / "detector"
        shown = name_ports(detector.outputs, {})
        variables = {
            "network": {"name": "test", "batch": batch},
            "prefix": "network",
            "outputs": shown,
            "detector": detector,
            "byte_values": make_dequantize_tables(detector.outputs),
        }
        for name in ("detection.c", "detection.h"):
            text = render(make_environment(), f"postprocess/{name}.j2", variables)
            (folder / f"network_{name}").write_text(text)
        members = "\n".join(f"    {p.c_type} *{p.member};" for p in shown)
        size = f"#define NETWORK_BATCH_SIZE {batch.size}\n" if batch else ""
        (folder / "network.h").write_text(NETWORK_H % (detector.classes, members) + size)
        reads = ", ".join(f".{p.member} = exactly({p.tensor.bytes})" for p in shown)
        frees = "\n".join(f"        free(outputs.{p.member});" for p in shown)
        chosen = f"{sample}, " if batch else ""
        parts = {"reads": reads, "frees": frees, "sample": chosen, "refused": REFUSED}
        (folder / "main.c").write_text(HARNESS % parts)
        done = subprocess.run(
            [compiler, *FLAGS, "-o", self.program, "network_detection.c", "main.c", "-lm"],
            cwd=folder, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def detect(self, samples: Sequence[Outputs], capacity: int) -> list[list[Box]]:
        """Return the boxes for each set of outputs; fails if a sanitizer reports an error."""
        given = b"".join(
            struct.pack("<i", capacity) + b"".join(np.ascontiguousarray(o).tobytes() for o in s)
            for s in samples
        )
        done = subprocess.run([self.program], input=given, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        found, at = [], 0
        while at < len(done.stdout):
            (count,) = struct.unpack_from("<i", done.stdout, at)
            end = at + 4 + count * BOX_STRUCT.size
            found.append([Box(*b) for b in BOX_STRUCT.iter_unpack(done.stdout[at + 4 : end])])
            at = end
        assert len(found) == len(samples)
        return found


def detection(encoding: str, **changes: Any) -> Detection:
    """Return a detection with objectness in channel 4 and three classes from 5 on."""
    plain = Detection(
        picture=(64, 32),
        layout="NCHW",
        heads=(Head(),),
        box=BoxCode(encoding),
        objectness=Confidence(4),
        class_scores=Confidence(5),
        classes=Classes(count=3),
        threshold=0.25,
        iou=0.5,
        per_class=True,
        candidates=256,
    )
    return structs.replace(plain, **changes)


def list_detector(candidates: int = 256, **changes: Any) -> Detector:
    """Return a detector of corners in pixels in a float list of six boxes."""
    stated = detection("corners", layout="NLC", candidates=candidates, **changes)
    return fit_detector(stated, 3, (Tensor("boxes", (1, 6, 8), "float32"),))
