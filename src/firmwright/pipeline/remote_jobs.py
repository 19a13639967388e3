"""Describes the environment and the required versions of jobs on other machines."""

from __future__ import annotations

import os

from firmwright.data.fetch import MIRROR_VARIABLE
from firmwright.shared_cache.settings import read_settings
from firmwright.toolchain.build import THREADS

from .code_digest import CODE_FOLDERS, code_digest
from .command_line import NO_USER_CODE_VARIABLE
from .task import find_deciding_packages

PASSED_ON = (MIRROR_VARIABLE, NO_USER_CODE_VARIABLE, THREADS)
"""Environment variables that remote workers receive, in addition to cache variables."""

CODE = "the code of firmwright"


def describe_worker() -> dict[str, str]:
    """Return all values that determine bundles: versions, and the digest of firmwright's code."""
    return {**find_deciding_packages(), CODE: code_digest(CODE_FOLDERS)[:12]}


def list_environment() -> dict[str, str]:
    """Return a worker's environment, in which each worker uses one thread.

    The variables include the cache settings of the user's file, because a worker may have another
    home folder.
    """
    variables = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {THREADS: "1"} | variables | read_settings()
