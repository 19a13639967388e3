"""How Sphinx builds the pages: ``python -m nox -s docs`` writes them to build/docs.

Its source is the whole repository, so that links between docs/ and examples/ are pages.
"""

import os
from pathlib import Path

from firmwright import __version__

project = "firmwright"
release = __version__
copyright = "the firmwright authors"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "examples/**.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
]
exclude_patterns = ["build", ".*", "src", "tests"]
nitpicky = True
# Signatures name types of TVM, NumPy and inner modules, which have no page here.
nitpick_ignore_regex = [("py:.*", ".*")]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"firmwright {release}"
html_copy_source = False
html_static_path = ["site"]
html_css_files = ["tables.css"]
html_extra_path = ["start"]  # the page that a host shows first
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
if "GITHUB_REPOSITORY" in os.environ:  # a workflow of GitHub knows the address of the sources
    address = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/%s/{GITHUB_REF_NAME}".format_map(os.environ)
    html_theme_options = {
        f"source_{name}_link": f"{address % folder}/{{filename}}"
        for name, folder in (("edit", "edit"), ("view", "blob"))
    }
