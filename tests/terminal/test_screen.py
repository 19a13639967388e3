"""The lines of a build at every width: complete on a terminal, plain in a file."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from firmwright.pipeline.recipe_lock import TASK_DOCS
from firmwright.progress import Progress
from firmwright.report.rows import Part, make_row
from firmwright.tasks.pipeline import PIPELINE
from firmwright.terminal.live_screen import LiveScreen
from firmwright.terminal.open_screen import open_screen
from firmwright.terminal.screen import DONE, FAILED, Running, Screen, format_time

SENTENCE = "run the firmware and compare it with the reference"
NOTE = "1 of 12 quantized operators run in float32: mean ('pool')"
WIDTHS = (40, 80, 120)


def make_screen(width: int, events: tuple[Progress, ...] = ()) -> tuple[LiveScreen, io.StringIO]:
    """Return a terminal's screen and its output; its clock advances half a second per look."""
    written = io.StringIO()
    screen = LiveScreen(written, lambda: events, str, width=width, color_system="standard")
    times: Iterator[float] = iter(range(1000))
    screen.clock = lambda: next(times) / 2
    screen.live.auto_refresh = False
    return screen, written


def join(line: list[Part]) -> str:
    return "".join(text for text, _ in line)


def show_stage(screen: Screen, mark: tuple[str, str] = DONE) -> None:
    screen.start("run:digits", "run", SENTENCE)
    screen.finish("run:digits", mark)
    screen.print_hanging("  ", NOTE)


def plain(written: io.StringIO) -> list[str]:
    from rich.text import Text

    return Text.from_ansi(written.getvalue()).plain.splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_lines_fit_the_terminal(width: int) -> None:
    screen, _ = make_screen(width)
    line = join(screen.make_line(screen.find_mark(0), "comparison", SENTENCE, 605.0))
    assert cell_len(line) == min(width, 80)
    assert line.endswith(" 10 min 05 s")
    assert line.startswith("⠋ comparison   run ")
    assert (SENTENCE in line) == (width >= 80)
    assert ("…" in line) == (width < 80)


def test_every_stage_has_room_for_its_name_and_sentence() -> None:
    screen, _ = make_screen(80)
    named = [(stage.name, stage.sentence) for stage in PIPELINE] + [*TASK_DOCS.items()]
    for name, sentence in named:
        line = join(screen.make_line(screen.find_mark(0), name, sentence, 5.0))
        assert cell_len(line) == 80
        assert f" {sentence} " in line, f"{name}: a sentence of more than 53 characters is cut"


@pytest.mark.parametrize("width", WIDTHS)
def test_notes_are_wrapped_below_themselves(width: int) -> None:
    screen, written = make_screen(width)
    screen.print_hanging("  outputs  ", NOTE)
    lines = plain(written)
    assert all(cell_len(line) <= width for line in lines)
    assert lines[0].startswith("  outputs  1 of 12")
    assert all(line.startswith(" " * 11) for line in lines[1:])
    assert " ".join(line[11:] for line in lines) == NOTE


def test_a_file_gets_plain_lines_that_are_not_wrapped() -> None:
    written = io.StringIO()
    screen = open_screen(written)
    show_stage(screen)
    screen.start("a", "stage", "long" * 20)
    screen.finish("a", FAILED)
    screen.print_hanging("head ", "text\n\x1b[31m" + "long" * 99)
    screen.print_rows([make_row("a", "1", ("2", "dim")), make_row("label", "")])
    assert written.getvalue().splitlines() == [
        f"✓ run          {SENTENCE:53}       0.0 s",
        f"  {NOTE}",
        f"✗ stage        {'long' * 13}…       0.0 s",
        "head text",
        "     \\u001b[31m" + "long" * 99,
        "  a      12",
        "  label",
    ]


def test_a_file_is_shown_as_a_terminal_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert open_screen(io.StringIO()).is_live
    monkeypatch.setenv("FORCE_COLOR", "")
    assert not open_screen(io.StringIO()).is_live


def test_a_build_ends_where_nobody_reads_its_lines() -> None:
    program = (
        "import sys; from firmwright.terminal.open_screen import open_screen\n"
        "screen = open_screen(sys.stdout)\n"
        "while True: screen.print_head('line')"
    )
    command = f"{shlex.join([sys.executable, '-c', program])} | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "line\n", "")


def test_no_color_leaves_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    colored, written = make_screen(80)
    show_stage(colored, FAILED)
    assert "\x1b[31m✗" in written.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    gray, written = make_screen(80)
    show_stage(gray, FAILED)
    assert "\x1b[31m" not in written.getvalue()
    assert any(line.startswith("✗ run ") for line in plain(written))


def test_marks_are_ascii_where_the_stream_is() -> None:
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    show_stage(open_screen(written))
    written.seek(0)
    assert written.readline().startswith("+ run ")


def test_progress_is_shown_after_two_seconds_with_the_time_left() -> None:
    running = Running("objects", "compile the C project", started=0.0)
    assert running.describe(9.0) == "compile the C project"
    running.progress, running.since = Progress("objects:x", "files", 10, 40), 1.0
    assert running.describe(1.9) == "compile the C project"
    assert running.describe(11.0) == "10 of 40 files, 30.0 s left"
    running.progress = Progress("objects:x", "bytes", 1, 3)
    assert running.describe(11.0) == "33 %, 20.0 s left"
    running.progress = Progress("run:x", "instructions", 1_000_000, 2_000_000)
    assert running.describe(11.0) == "1,000,000 of 2,000,000 instructions, 10.0 s left"
    running.progress = Progress("objects:x", "files", 40, 40)
    assert running.describe(11.0) == "40 of 40 files"


def test_each_running_task_gets_its_own_progress() -> None:
    events = (Progress("a:x", "files", 1, 4), Progress("b:x", "samples", 2, 4))
    screen, _ = make_screen(80, events)
    screen.running = {
        "a:x": Running("a", "first", started=-10.0),
        "b:x": Running("b", "second", started=-10.0),
    }
    screen.render()
    shown = [task.describe(5.0) for task in screen.running.values()]
    assert shown == ["1 of 4 files, 15.0 s left", "2 of 4 samples, 5.0 s left"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (59.96, "1 min 00 s"), (125, "2 min 05 s")],
)
def test_times(seconds: float, shown: str) -> None:
    assert format_time(seconds) == shown
