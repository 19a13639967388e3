"""Files that are not Relax modules, each with a message that names the file."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from firmwright.errors import UserError
from firmwright.models.relax.importer import import_model


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe", "can't decode byte"),
        (b"3", "is not iterable"),
        (b'{"a": 1}', "expected `root_index`"),
        (str(tvm.ir.save_json(relax.const(1.0))).encode(), "it has a "),
    ],
)
def test_a_file_without_a_module(data: bytes, reason: str) -> None:
    with pytest.raises(UserError) as raised:
        import_model(data, "net.relax", {})
    assert str(raised.value).startswith("net.relax: this file is not a Relax module as JSON (")
    assert reason in str(raised.value)
