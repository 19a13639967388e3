"""Names of layers in readable form."""

import pytest

from firmwright.report.advice import shorten_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("conv", "conv"),
        ("a/Relu;a/BiasAdd;a/Conv2D", "a/Relu +2"),
        ("model/block/conv2d_17", "…/conv2d_17"),
        ("model/block/conv_17", "…/conv_17"),
        ("a_name_without_parts", "…hout_parts"),
        ("model/block/conv2d_17;other", "…/conv2d_17 +1"),
        ("", ""),
    ],
)
def test_a_long_name_has_its_end_and_the_number_of_the_others(name: str, shown: str) -> None:
    assert shorten_name(name, 11) == shown
