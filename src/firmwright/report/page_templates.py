"""Reads the templates, the style sheet and the script of pages, without the modules of a build."""

from __future__ import annotations

import re
from functools import cache

import jinja2
from markupsafe import Markup

from firmwright.codegen.templates import new_environment, read_template

FOLDER = "report"
BETWEEN_TAGS = re.compile(r">\n+<")
"""Line breaks that a browser would store as half of the nodes of a long table."""


@cache
def make_page_environment() -> jinja2.Environment:
    """Return the environment of pages, which escapes all text that is not marked as safe."""
    return new_environment(read_template, escapes=True)


def read_asset(name: str) -> Markup:
    """Return a style sheet or a script of firmwright, without escaping the text."""
    return Markup(read_template(f"{FOLDER}/{name}"))
