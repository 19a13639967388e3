"""Random samples are of the range that the model states; a run tells when they prove little."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.networks.onnx_models import quantized

from .conftest import new_repository

REMARK = "all samples give the same outputs: give real ones (`run.inputs`)"


def test_random_samples_are_of_the_models_range(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "r")
    repository.write("r.yaml", "model: net.onnx\nplatform: host\nrun: {samples: 3}\n")
    (repository.folder / "net.onnx").write_bytes(quantized(1.0).SerializeToString())
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert REMARK not in done.stdout
    assert repository.manifest("build/r/r-host.tar.gz")["run"]["drawn"] == {"x": [-131, 124]}
    with np.load(repository.folder / "build/r/host/run/outputs.npz") as outputs:
        assert np.ptp(outputs["firmware_0"]) > 100  # of 0 to 1 it would be 1 at most

    np.savez(repository.folder / "same.npz", x=np.zeros((3, 2, 3), "float32"))
    repository.write(
        "r.yaml", "model: net.onnx\nplatform: host\nrun: {inputs: same.npz, samples: 3}\n"
    )
    done = repository.doit("build", "recipe=r.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert REMARK in " ".join(done.stdout.split())
    assert repository.manifest("build/r/r-host.tar.gz")["run"]["drawn"] == {}
