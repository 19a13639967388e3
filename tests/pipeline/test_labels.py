"""Labels as they are read from files."""

from __future__ import annotations

import pytest

from firmwright.errors import UserError
from firmwright.pipeline.label_files import refuse_equal


def test_labels_cannot_name_one_of_two_equal_classes() -> None:
    refuse_equal(["crane", "maillot"])
    with pytest.raises(
        UserError, match=r"^the classes 0 and 2 are both named 'crane'; rename one$"
    ):
        refuse_equal(["crane", "maillot", "crane"])
