"""Jobs for workers elsewhere: what they take along, and what has to be the same there."""

from __future__ import annotations

import os

from firmwright.data.fetch import MIRROR_VARIABLE
from firmwright.shared_cache.settings import read_settings
from firmwright.toolchain.build import THREADS

from .code_digest import CODE_FOLDERS, code_digest
from .command_line import NO_USER_CODE_VARIABLE
from .task import find_deciding_packages

PASSED_ON = (MIRROR_VARIABLE, NO_USER_CODE_VARIABLE, THREADS)
"""Variables of the environment that workers elsewhere get too, beside those of the cache."""

CODE = "the code of firmwright"


def describe_worker() -> dict[str, str]:
    """Return all that decides about bundles here: versions, and the digest of our own code."""
    return {**find_deciding_packages(), CODE: code_digest(CODE_FOLDERS)[:12]}


def list_environment() -> dict[str, str]:
    """Return the variables that a worker takes for its own: there is one for each core.

    What the user's file says of the cache is among them: a worker may have another home.
    """
    own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {THREADS: "1"} | own | read_settings()
