"""Builds one model: `firmwright init`, then `firmwright build`, with limits of time and memory."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

SUFFIXES = (".tflite", ".lite", ".onnx", ".pt2")

OUTCOMES = ("exact", "near", "built", "differs", "rejected", "traceback", "time-out", "memory")
"""``built``: the platform has no emulator, so no run was possible."""


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes that one model may use, and the platform that it is built for."""

    seconds: float
    memory: int
    platform: str | None


@dataclass(frozen=True)
class Row:
    """The outcome of one model; ``file`` is relative to the folder."""

    file: str
    digest: str
    outcome: str
    seconds: float
    message: str


def find_models(folder: Path) -> list[Path]:
    """Return the models of a folder and its subfolders, sorted."""
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def digest_of(model: Path) -> str:
    return hashlib.sha256(model.read_bytes()).hexdigest()[:16]


def build_model(model: Path, folder: Path, limits: Limits) -> Row:
    """Return the outcome of one model, which is built in a temporary folder."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="corpus-") as place:
        copied = Path(place) / f"model{model.suffix.lower()}"
        shutil.copyfile(model, copied)
        words = ["--platform", limits.platform] if limits.platform else []
        code, text = call("init", copied.name, *words, place=place, began=began, limits=limits)
        if code == 0:
            code, text = call("build", "model.yaml", place=place, began=began, limits=limits)
    outcome, message = judge(code, text)
    seconds = round(time.monotonic() - began, 1)
    return Row(str(model.relative_to(folder)), digest_of(model), outcome, seconds, message)


def call(*words: str, place: str, began: float, limits: Limits) -> tuple[int | None, str]:
    """Return exit code and output of a command of firmwright; None after the time limit."""
    left = limits.seconds - (time.monotonic() - began)
    size = (limits.memory, limits.memory)
    with subprocess.Popen(
        [sys.executable, "-m", "firmwright", *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=partial(resource.setrlimit, resource.RLIMIT_AS, size),
    ) as process:
        try:
            text, _ = process.communicate(timeout=max(left, 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # and the processes that it started
            process.communicate()
            return None, f"stopped after {limits.seconds:g} s"
        return process.returncode, text


def judge(code: int | None, text: str) -> tuple[str, str]:
    """Return the outcome and its sentence, by exit code and output of the last command."""
    if code is None:
        return "time-out", text
    if "Traceback (most recent call last)" in text:
        return "traceback", text.strip().splitlines()[-1]
    if code == 0:
        found = re.search(r"^ *outputs +(.*)", text, re.MULTILINE)
        if found is None:
            return "built", ""
        whole = re.match(r"(\d+) of (\d+) samples exact", found[1])
        return "exact" if whole and whole[1] == whole[2] else "near", found[1]
    message = " / ".join(line.strip() for line in find_error(text).splitlines() if line.strip())
    if code < 0 or "MemoryError" in text or "not enough memory" in text:
        return "memory", message
    differs = "differ from the reference beyond" in text
    return "differs" if differs else "rejected", message


def find_error(text: str) -> str:
    """Return the output from the failed stage on, or all of it if no stage failed."""
    place = text.find("✗")
    return text if place < 0 else text[place:]
