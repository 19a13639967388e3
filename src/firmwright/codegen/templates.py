"""Sets up Jinja so that undefined names are errors and the output does not depend on the locale."""

from __future__ import annotations

import hashlib
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.bccache import Bucket
from jinja2.sandbox import ImmutableSandboxedEnvironment

from firmwright.checked_file import read_checked, write_checked
from firmwright.codegen.names import escape_comment
from firmwright.errors import to_printable
from firmwright.user_folders import find_cache_folder

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


SETTINGS = ("trim_blocks", "lstrip_blocks", "keep_trailing_newline", "autoescape", "sandboxed")

DIGEST = hashlib.sha256


class CompiledTemplates(jinja2.BytecodeCache):
    """Stores the bytecode of each template by the digest of all inputs."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def load_bytecode(self, bucket: Bucket) -> None:
        code = read_checked(self._find_file(bucket))
        if code is not None:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        write_checked(self._find_file(bucket), bucket.bytecode_to_string())

    def _find_file(self, bucket: Bucket) -> Path:
        decisive = f"{self._settings}\0{bucket.key}\0{bucket.checksum}"
        name = DIGEST(decisive.encode()).hexdigest()
        folder = find_cache_folder() or Path(os.devnull)  # no cache without a home folder
        return folder / "templates" / name

    @cached_property
    def _settings(self) -> str:
        """The data, except for the text, that change the compiled templates of an environment."""
        settings = [getattr(self._environment, name) for name in SETTINGS]
        filters = [DIGEST(path.read_bytes()).hexdigest() for path in self._list_filter_files()]
        return repr([jinja2.__version__, sys.implementation.cache_tag, settings, filters])

    def _list_filter_files(self) -> Iterator[Path]:
        """Yield the source files of the filters, because compiled templates contain filtered
        constants."""
        names = {function.__module__ for function in self._environment.filters.values()}
        for name in sorted(names):
            if name.startswith("firmwright."):
                yield Path(sys.modules[name].__file__ or "")


TEMPLATE_SUFFIX = ".j2"


def template_folder() -> Traversable:
    return files("firmwright.templates")


def find_templates(name: str, roots: Sequence[Path] = ()) -> list[Traversable]:
    """Return each template or folder of templates with this name, e.g. ``network``.

    ``roots`` lists further folders to search.
    """
    parts = name.split("/")
    paths = [root.joinpath(*parts) for root in (template_folder(), *roots)]
    return [path for path in paths if path.is_file() or path.is_dir()]


def read_template(name: str) -> str:
    return template_folder().joinpath(*name.split("/")).read_text(encoding="utf-8")


class PrintableTemplate(jinja2.Template):
    """A template whose text cannot control a terminal, even if names contain control characters."""

    def render(self, *args: Any, **kwargs: Any) -> str:
        return to_printable(super().render(*args, **kwargs))


class Confined(ImmutableSandboxedEnvironment):
    """An environment whose templates access only the passed values, and no other Python objects."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Reject Jinja's unsafe attributes, and methods that read or write files."""
        opens = attr in ("dump", "tofile") or (isinstance(obj, PurePath) and callable(value))
        return super().is_safe_attribute(obj, attr, value) and not opens


def new_environment(
    read: Callable[[str], str | None],
    escapes: bool = False,
    kind: type[jinja2.Environment] = jinja2.Environment,
) -> jinja2.Environment:
    """Return an environment that preserves lines. An undefined name is an error.

    ``read`` returns the text of a template, or None if it does not exist. ``escapes`` turns on HTML
    escapes.
    """
    env = kind(
        loader=jinja2.FunctionLoader(read),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=escapes,
    )
    env.template_class = PrintableTemplate
    env.bytecode_cache = CompiledTemplates(env)
    return env


@cache
def make_environment(roots: tuple[Path, ...] = ()) -> jinja2.Environment:
    """Return the environment of all templates, which parses each template once.

    An undefined name is an error.
    """
    # A late import, because the page of a fleet needs neither C nor numpy.
    import numpy as np

    from firmwright.codegen.c_literals import format_c_string, format_c_value, format_c_values

    def text(name: str) -> str | None:
        paths = find_templates(name, roots)
        return paths[0].read_text(encoding="utf-8") if paths else None

    env = new_environment(text)
    env.filters["shape"] = lambda shape: "x".join(str(d) for d in shape) or "scalar"
    env.filters["comment"] = escape_comment
    env.filters["values"] = format_c_values
    env.filters["c_float"] = lambda number: format_c_value(np.float32(number))
    env.filters["c_string"] = format_c_string
    env.filters["wrapped"] = wrap_comment
    return env


def confine(env: jinja2.Environment) -> jinja2.Environment:
    """Return an environment for a recipe's templates that can include the templates of ``env``."""
    confined = new_environment(lambda _: None, kind=Confined)
    confined.loader, confined.filters = env.loader, env.filters
    return confined


def render(env: jinja2.Environment, name: str, variables: Mapping[str, Any]) -> str:
    return env.get_template(name).render(**variables)


def wrap_comment(text: str, width: int = 80) -> str:
    """Wrap a long comment line. The next lines start with `` * ``."""
    lines = textwrap.wrap(escape_comment(text), width, break_long_words=False) or [""]
    return "\n * ".join(lines)
