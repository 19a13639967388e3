"""Build systems that do not build for the core of a platform."""

from __future__ import annotations

import pytest

from firmwright.recipe.build_systems import find_unfit_exports
from firmwright.recipe.schema import load_schema
from firmwright.toolchain import load_platform


def test_a_component_of_esp_idf_has_no_arm_core() -> None:
    (message,) = find_unfit_exports(("cmake", "esp-idf"), load_platform("cortex-m4-bare"))
    assert message.startswith(
        "esp-idf does not build for cortex-m, the core of the platform 'cortex-m4-bare'; choose one"
    )
    assert message.endswith(": esp32c3, esp32c6, host, rv32-bare")


@pytest.mark.parametrize("platform", ["esp32c3", "rv32-bare", "host"])
def test_chips_of_espressif_have_other_cores(platform: str) -> None:
    assert list(find_unfit_exports(("esp-idf",), load_platform(platform))) == []


def test_several_networks_have_the_forms_of_a_recipe() -> None:
    one, several = load_schema(), load_schema("networks")
    assert several["$defs"]["build-system"] == one["$defs"]["build-system"]
    assert several["properties"]["export"]["oneOf"] == one["properties"]["export"]["oneOf"]
