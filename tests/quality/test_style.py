"""Texts for readers follow docs/contributing/style.md."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from .style import HERE, LIMITS, Rule, count_findings, list_files, load_rules
from .test_repository import ROOT

EXAMPLES = yaml.safe_load((HERE / "style_rules.yaml").read_text(encoding="utf-8"))
SPELLINGS = {
    "afe": "a Python package of SiMa",
    "catalogue": "variables of recipe/ and pipeline/",
    "centre": "values of a detector's `box.encoding`, and fields of the C",
    "centres": "the same",
    "colour": "a key of pictures in a recipe",
    "grey": "a value of `colour`",
    "intoto": "a name of in-toto",
    "labelled": "a key of the manifest",
    "modelled": "a key of the statistics and the manifest",
    "staps": "a variable of a template",
    "te": "a module of TVM",
    "uptodate": "a key of doit",
    "winn": "an author",
    "writeable": "a flag of NumPy",
}
"""Words that are not American spelling, or look misspelled, with the reason to keep them."""


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.name)
def test_rule_finds_its_example(rule: Rule) -> None:
    assert rule.matches(EXAMPLES[rule.name]["wrong"])
    assert not rule.matches(EXAMPLES[rule.name]["right"])


def test_no_folder_has_more_findings_than_its_limit() -> None:
    """A finding is a sentence to rewrite, or a new exception in style_rules.yaml."""
    limits = yaml.safe_load(LIMITS.read_text(encoding="utf-8"))
    above = {
        folder: f"{count} findings, at most {limits.get(folder, 0)}"
        for folder, count in count_findings().items()
        if count > limits.get(folder, 0)
    }
    assert not above, "python -m tests.quality.style --since main shows the new ones"


def test_spelling_is_american() -> None:
    pytest.importorskip("codespell_lib")
    words = ("--builtin", "clear,rare,en-GB_to_en-US", "--ignore-words-list", ",".join(SPELLINGS))
    command = [sys.executable, "-m", "codespell_lib", *words, *list_files([])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_page_of_messages_quotes_messages() -> None:
    """Each message of docs/reference/messages.md is in the code or in an expected message."""
    page = (ROOT / "docs/reference/messages.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests/failing").glob("*/expected.txt")]
    texts = [path.read_text(encoding="utf-8") for path in files]
    code = re.sub(r'"\n\s*f?"', "", "\n".join(texts))
    missing = [
        m for m in quoted if not re.search(".{1,40}".join(map(re.escape, m.split("…"))), code)
    ]
    assert len(quoted) > 30
    assert not missing
