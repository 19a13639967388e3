"""The first files of a user's repository."""

from __future__ import annotations

import pytest

from firmwright import __version__
from firmwright.project.new_repository import name_requirement

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
