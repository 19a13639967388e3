"""Caches templates compiled to Python for all builds of a user, as Python caches its modules."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket

from firmwright.checked_file import read_checked, write_checked
from firmwright.user_folders import find_cache_folder

SETTINGS = ("trim_blocks", "lstrip_blocks", "keep_trailing_newline", "autoescape", "sandboxed")
"""The settings of an environment that change the compiled template."""

DIGEST = hashlib.sha256


class CompiledTemplates(jinja2.BytecodeCache):
    """The bytecode of each template, by the digest of all its inputs."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def load_bytecode(self, bucket: Bucket) -> None:
        code = read_checked(self._place(bucket))
        if code is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        write_checked(self._place(bucket), bucket.bytecode_to_string())

    def _place(self, bucket: Bucket) -> Path:
        decisive = f"{self._settings}\0{bucket.key}\0{bucket.checksum}"
        name = DIGEST(decisive.encode()).hexdigest()
        folder = find_cache_folder() or Path(os.devnull)  # no cache without a home folder
        return folder / "templates" / name

    @cached_property
    def _settings(self) -> str:
        """The data, in addition to the text, that determine an environment's compiled templates."""
        settings = [getattr(self._environment, name) for name in SETTINGS]
        filters = [DIGEST(path.read_bytes()).hexdigest() for path in self._list_filter_files()]
        return repr([jinja2.__version__, sys.implementation.cache_tag, settings, filters])

    def _list_filter_files(self) -> Iterator[Path]:
        """Yield the files of the filters, because compiled templates contain filtered constants."""
        names = {function.__module__ for function in self._environment.filters.values()}
        for name in sorted(names):
            if name.startswith("firmwright."):
                yield Path(sys.modules[name].__file__ or "")
