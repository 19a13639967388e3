"""A package whose modules are gone is one error with a remedy, not a fault."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from firmwright.errors import UserError
from firmwright.plugins import load_plugin


@pytest.mark.parametrize("value", ["no_such_package:DEVICE", "firmwright.plugins:NO_SUCH_DEVICE"])
def test_incomplete_package(value: str) -> None:
    point = EntryPoint("chip", value, "firmwright.targets")
    with pytest.raises(UserError) as error:
        load_plugin(point)
    message = str(error.value)
    assert "the package chip adds 'chip' to firmwright.targets, but its installation is" in message
    assert message.endswith("install it again, or remove it with `pip uninstall chip`")


@pytest.mark.parametrize(
    "line", ["from firmwright.device import Targt", "TABLE = None; TABLE.rows"]
)
def test_error_in_a_module_has_its_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / f"chip_{len(line)}.py"
    file.write_text(f"\n{line}\n")
    with pytest.raises(UserError) as error:
        load_plugin(EntryPoint("chip", f"{file.stem}:DEVICE", "firmwright.targets"))
    assert str(error.value).startswith(f"{file}:2: ")
    assert f"correct the module {file.stem}, which adds 'chip'" in str(error.value)
