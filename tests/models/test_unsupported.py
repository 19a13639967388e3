"""The advice for Keras models and SavedModels is a command that writes a TFLite file."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from firmwright.models.formats import describe_saved_model, describe_unsupported

TENSORFLOW = """
class keras:
    class models:
        load_model = staticmethod(lambda path: f"loaded {path}")
class lite:
    class TFLiteConverter:
        def __init__(self, source): self.source = source
        @classmethod
        def from_keras_model(cls, model): return cls(model)
        @classmethod
        def from_saved_model(cls, folder): return cls(f"folder {folder}")
        def convert(self): return self.source.encode()
"""
"""A module with the functions of TensorFlow that the command calls."""


@pytest.mark.parametrize(
    ("file", "written", "content"),
    [
        ("nets/kws.keras", "kws.tflite", "loaded nets/kws.keras"),
        ("kws.H5", "kws.tflite", "loaded kws.H5"),
        ("it's.keras", "model.tflite", "loaded model.keras"),
        ("https://a.b/k.keras?download=1", "model.tflite", "loaded model.keras"),
        ("saved/kws/saved_model.pb", "kws.tflite", "folder saved/kws"),
        ("saved_model.pb", "model.tflite", "folder ."),
        ("my nets/kws/saved_model.pb", "model.tflite", "folder model"),
    ],
)
def test_the_command_converts_the_file(
    file: str, written: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    suffix = Path(file.partition("?")[0]).suffix.lower()
    advice = describe_unsupported(suffix, file)
    assert advice is not None
    program, *arguments = shlex.split(advice.partition("convert it: ")[2])
    assert program == "python"
    subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=True)
    assert (tmp_path / written).read_text() == content


def test_a_graph_has_no_command() -> None:
    advice = describe_unsupported(".pb", "nets/frozen.pb")
    assert advice is not None
    assert advice.startswith(
        "a TensorFlow graph is not supported; export the model as a SavedModel"
    )


def test_the_folder_of_a_saved_model_has_the_command_of_its_file(tmp_path: Path) -> None:
    assert describe_saved_model(tmp_path, "saved/kws") is None
    assert describe_saved_model(Path("a" * 300), "too long for the system") is None
    (tmp_path / "saved_model.pb").touch()
    found = describe_saved_model(tmp_path, "saved/kws")
    assert found == describe_unsupported(".pb", "saved/kws/saved_model.pb")


def test_other_suffixes_have_no_advice() -> None:
    assert describe_unsupported(".tflite", "kws.tflite") is None


def test_a_c_array_is_converted_by_init() -> None:
    advice = describe_unsupported(".cc", "src/model.cc")
    assert advice is not None
    assert advice.endswith("firmwright init --from src/model.cc")
