"""The names of a classifier's classes reach the program that calls the network."""

from __future__ import annotations

import json

from .conftest import DIGITS, Repository

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", 'the "ninth"']


def test_the_header_and_the_interface_have_the_names(repository: Repository) -> None:
    repository.write("digits.yaml", DIGITS + "postprocess: {classes: names.txt}\n")
    repository.write("names.txt", "\n".join(NAMES))
    repository.build("recipe=digits.yaml")
    network = repository.folder / "build/digits/rv32-bare/sources/network"
    header = (network / "network.h").read_text()
    assert "#define NETWORK_CLASSES 10\n" in header
    assert '        "the \\042ninth\\042" \\\n' in header
    assert json.loads((network / "network_interface.json").read_text())["class_names"] == NAMES

    repository.write("names.txt", "\n".join(NAMES[:9]))
    done = repository.doit("build", "recipe=digits.yaml")
    assert done.returncode == 1
    assert (
        "digits.yaml:4:24: postprocess.classes: `classes` has 9 names, but no output" in done.stderr
    )
