"""A build sends no telemetry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODEL = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
PROGRAM = """
import sys
import firmwright
import onnxruntime
onnxruntime.InferenceSession(sys.argv[1])
"""


def test_onnx_runtime_leaves_no_record_of_its_use(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    for name in ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY"):
        environment.pop(name, None)
    subprocess.run([sys.executable, "-c", PROGRAM, str(MODEL)], env=environment, check=True)
    assert [*tmp_path.rglob("*")] == []
