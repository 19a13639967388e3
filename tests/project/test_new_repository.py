"""The first files of a user's repository."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firmwright import __version__
from firmwright.project.new_repository import list_debian_packages, name_requirement
from firmwright.toolchain import load_platform

COMMIT = "5c7b67fa0123456789abcdef0123456789abcdef"
GIT = f'{{"url": "https://a.b/c", "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}'


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, f"firmwright=={__version__}"),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', f"firmwright=={__version__}"),
        (GIT, f'"firmwright @ git+https://a.b/c@{COMMIT}"'),
    ],
)
def test_a_workflow_installs_this_firmwright(origin: str | None, requirement: str) -> None:
    assert name_requirement(origin) == requirement


@pytest.mark.parametrize(
    ("platform", "packages"),
    [
        ("rv32-bare", []),  # zig and unicorn are Python packages
        ("cortex-m55-bare", ["qemu-system-arm"]),
        ("avr-atmega2560", ["gcc-avr", "avr-libc"]),
    ],
)
def test_a_workflow_installs_the_programs_of_a_platform(platform: str, packages: list[str]) -> None:
    assert list_debian_packages(load_platform(platform)) == packages


def test_a_platform_without_emulators_needs_no_emulator() -> None:
    assert list_debian_packages(replace(load_platform("cortex-m55-bare"), emulators=())) == []
