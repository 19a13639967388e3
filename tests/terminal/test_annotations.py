"""Workflows of GitHub mark the errors of a recipe in its file."""

from __future__ import annotations

import io
import sys

import pytest

from firmwright.terminal.annotations import AnnotatedStream, annotate_errors


def test_a_place_gets_an_annotation() -> None:
    stream = io.StringIO()
    guarded = AnnotatedStream(stream)
    print("a note: 1:2", file=guarded)
    print("plan:kws-host: a,b.yaml:3:7: run.samples: 50 % is not a number", file=guarded)
    assert stream.getvalue().splitlines() == [
        "a note: 1:2",
        "plan:kws-host: a,b.yaml:3:7: run.samples: 50 % is not a number",
        "::error file=a%2Cb.yaml,line=3,col=7::run.samples: 50 %25 is not a number",
    ]


def test_only_workflows_of_github_get_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, annotated in (("", False), ("true", True)):
        monkeypatch.setenv("GITHUB_ACTIONS", value)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        annotate_errors()
        assert isinstance(sys.stderr, AnnotatedStream) is annotated
