"""A package whose modules are gone is one error with a remedy, not a fault."""

from importlib.metadata import EntryPoint

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
