"""The one-line notation of target mixes."""

from __future__ import annotations

import pytest

from firmwright.errors import UserError
from firmwright.recipe.target import parse_target
from firmwright.targets import DeviceSpec


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("c", [DeviceSpec("c")]),
        ("c -fast --small=0", [DeviceSpec("c", {"fast": "1", "small": "0"})]),
        ("soma_dory,c", [DeviceSpec("soma_dory"), DeviceSpec("c")]),
        (
            " soma_dory  -layout_transform=0 --a-b=x=y ,\n c ",
            [DeviceSpec("soma_dory", {"a-b": "x=y", "layout_transform": "0"}), DeviceSpec("c")],
        ),
    ],
)
def test_devices_in_order_of_preference(text: str, devices: list[DeviceSpec]) -> None:
    assert parse_target(text) == tuple(devices)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a device is missing"),
        ("c,", "a device is missing"),
        ("c, c", "the device 'c' is named twice; remove one entry"),
        ("c -fast=", "expected an option as -name or -name=value, found '-fast='"),
        ("c -=1", "expected an option as -name or -name=value"),
        ("c fast=1", "expected an option as -name or -name=value"),
        ("c fast", "expected an option as -name or -name=value, found 'fast'"),
        ("c -a=1 --a=2", "the option 'a' is set twice; remove one"),
        ("-a=1", "write an option after its device"),
        ("c;d", "expected the name of a device, found 'c;d'"),
    ],
)
def test_mistakes(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=r"^target: ") as raised:
        parse_target(text)
    assert expected in str(raised.value)


def test_all_mistakes_at_once() -> None:
    with pytest.raises(UserError) as raised:
        parse_target("c fast, , c")
    assert len(str(raised.value).splitlines()) == 3
