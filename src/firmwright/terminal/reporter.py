"""Reports the tasks of firmwright in doit: a line per stage, and the results at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from multiprocessing import SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from doit.exceptions import TaskFailed
from doit.globals import Globals
from doit.reporter import ConsoleReporter

from firmwright import progress, run_log
from firmwright.created_folders import ORIGINS_FILE
from firmwright.documents.whole_file import write_whole
from firmwright.errors import UserError
from firmwright.pipeline import artifacts
from firmwright.pipeline.build_root import find_build_root
from firmwright.pipeline.profile import VERBOSE, WHY, Times, is_asked
from firmwright.pipeline.snapshot import UpToDate, list_finished
from firmwright.recipe.recipe import lock_path
from firmwright.report.outcomes import CheckedLock
from firmwright.report.rows import Row, make_row, read_rows

from . import answers
from .guard import LIBRARY_LOG, guard, keep_library_output

if TYPE_CHECKING:
    from firmwright.pipeline.job import Job
    from firmwright.pipeline.task import Title

    from .screen import Screen

HERE = "this build folder"
"""The origin of a result that was built, not restored."""


class StageReporter(ConsoleReporter):  # type: ignore[misc]
    """Shows the running stages. A failed stage prints its message once, on stderr.

    Stages may run in separate processes. The results contain the notes, and a queue transfers the
    progress.
    """

    desc = "one line for each stage, and a table of the results"

    def __init__(self, outstream: Any, options: Any) -> None:
        super().__init__(guard(outstream), options)
        self.tasks: Mapping[str, Any] = {}
        self.selected: Collection[str] = ()
        self.skipped: list[Any] = []
        self.succeeded: list[Any] = []
        self.fresh: list[Title] = []
        self.up_to_date: list[UpToDate] = []
        self.shown = ""
        self.results: dict[str, tuple[Job, str]] = {}
        self.messages: dict[str, str] = {}
        self.times: dict[str, dict[str, Times]] = {}
        self.queue: SimpleQueue[progress.Progress] = SimpleQueue()
        self.opened = ExitStack()
        self.library_log = find_build_root() / LIBRARY_LOG

    @cached_property
    def screen(self) -> Screen:
        if is_asked(VERBOSE):  # the command lines of programs would break a live screen
            from .screen import Screen

            return Screen(self.outstream)
        # Imported late, because a process that only runs stages has no output.
        from .open_screen import open_screen

        return open_screen(self.outstream, self.read_events)

    def read_events(self) -> Iterator[progress.Progress]:
        while not self.queue.empty():
            yield self.queue.get()

    def initialize(self, tasks: Mapping[str, Any], selected: Collection[str]) -> None:
        """Prepare the data for the processes that doit starts after this call."""
        self.tasks, self.selected = tasks, selected
        self.opened.enter_context(keep_library_output(self.library_log))
        if self.screen.is_live:
            progress.listen(self.queue.put)

    def execute_task(self, task: Any) -> None:
        title = task.custom_title
        if title:
            self.show_fresh()
            self.screen.start(task.name, title.stage, task.doc)
            if is_asked(WHY) or is_asked(VERBOSE) or run_log.is_open():
                self.tell_reason(task, title)

    def tell_reason(self, task: Any, title: Title) -> None:
        """Print or log why a stage runs."""
        # imported late, because few users ask for the reasons
        from firmwright.pipeline.reasons import explain_run

        if is_asked(WHY) or is_asked(VERBOSE):
            self.show_head(title.job.title)
            self.screen.print_hanging("  ", f"{title.stage}: {explain_run(task)}", "dim")
        else:
            run_log.note(f"{task.name}: {explain_run(task)}")

    def add_success(self, task: Any) -> None:
        title = task.custom_title
        if title:
            self.succeeded.append(task)
            if origin := task.values.get("taken"):
                # Imported late, because an up-to-date build does not use the shared cache.
                from firmwright.pipeline.stage_cache import OTHER_JOB

                source = origin if origin == OTHER_JOB else "the shared cache"
                self.screen.running[task.name].sentence = f"copied from {source}"
            if "times" in task.values:
                self.times.setdefault(title.job.title, {})[title.stage] = Times(
                    **task.values["times"]
                )
            self.finish(task, title, True, task.values.get("notes", ()))

    def add_failure(self, task: Any, fail: Any) -> None:
        title = task.custom_title
        if title and task.name in self.screen.running:
            self.finish(task, title, False, getattr(fail, "notes", ()))
        if title:
            self.messages.setdefault(title.job.title, fail.get_msg().rstrip())
        if isinstance(fail, TaskFailed):
            self.outstream.flush()
            run_log.note(fail.get_msg().rstrip())
            print(fail.get_msg().rstrip(), file=sys.stderr)
        else:
            super().add_failure(task, fail)
            print(self.library_log.read_text(errors="replace"), end="", file=sys.stderr)

    def finish(self, task: Any, title: Title, succeeded: bool, notes: Any) -> None:
        from .screen import DONE, FAILED

        job = title.job
        self.show_head(job.title)
        self.screen.finish(task.name, DONE if succeeded else FAILED)
        for note in notes:
            self.screen.print_hanging("  ", note, "dim")
        if succeeded and job.origin is None and title.stage in ("run", "bundle"):
            self.results[job.title] = (job, title.stage)

    def skip_uptodate(self, task: Any) -> None:
        title = task.custom_title
        if isinstance(title, UpToDate):
            self.up_to_date.append(title)
        elif title:
            self.fresh.append(title)
            self.skipped.append(task)

    def show_fresh(self) -> None:
        """Print the up-to-date stages in one line per recipe."""
        stages: dict[str, tuple[Job, list[str]]] = {}
        for title in self.fresh:
            stages.setdefault(title.job.title, (title.job, []))[1].append(title.stage)
        self.fresh.clear()
        for job, names in stages.values():
            self.show_head(job.title)
            self.screen.print_hanging("  up to date  ", ", ".join(names), "dim")

    def show_head(self, title: str) -> None:
        """Print the recipe and platform of the next lines if the last lines had others."""
        if self.shown != title:
            self.screen.print_head(title)
        self.shown = title

    def complete_run(self) -> None:
        self.screen.close()
        self.opened.close()
        for job, stage in self.results.values():
            self.show_result(job, stage)
            if stage == "bundle":
                self.tell_origins(job)
        self.show_finished()
        self.show_times()
        self.show_overview()
        if answers.are_wanted():
            self.collect_answers()
        if "build" in self.tasks and (self.skipped or self.succeeded):
            # Imported late, because a run without a checked stage has no state to store.
            from firmwright.pipeline.snapshot_files import keep_snapshot

            with suppress(UserError, OSError):  # the file has just changed, or cannot be written
                keep_snapshot(self.tasks, self.skipped, self.succeeded)
        super().complete_run()

    def list_done(self) -> set[str]:
        return {task.name for task in (*self.skipped, *self.succeeded)}

    def show_result(self, job: Job, stage: str) -> None:
        """Show the table of a build, or the run of the firmware if no bundle was built."""
        if stage == "bundle":
            rows = [*read_rows(artifacts.SUMMARY.read(job))]
            if job.recipe.export:
                rows += describe_exports(artifacts.EXPORTS.path(job))
            rows.append(make_row(stage, describe_bundle(str(job.bundle))))
        else:
            from firmwright.pipeline.summary import (
                describe_run,  # imported late, because it reads records of arrays
            )

            rows = [*describe_run(job)]
        self.show_head(job.title)
        self.screen.print_rows(rows)

    def tell_origins(self, job: Job) -> None:
        """Write the origin of each result: this build, or an entry of the shared cache.

        The bytes of a bundle must not depend on the origins, so the bundle does not contain the
        file. Only the tasks that ran or were up to date have records in memory.
        """
        jobs, done = [*job.all_jobs, *job.members], self.list_done()
        names = dict.fromkeys(name for each in jobs for name in each.list_tasks() if name in done)
        taken = {name: Globals.dep_manager.get_values(name).get("taken") for name in names}
        origins = {"stages": {name: origin or HERE for name, origin in taken.items()}}
        try:
            text = json.dumps(origins, indent=1) + "\n"
            write_whole(job.folder("bundle") / ORIGINS_FILE, text.encode())
        except UserError as error:
            print(error, file=sys.stderr)

    def show_finished(self) -> None:
        """Print the results of recipes that are up to date, or else the names of their stages.

        One build prints its table again. Several builds print one row each.
        """
        self.up_to_date += list_finished(self.fresh)
        shown = {each.title for each in self.up_to_date}
        self.fresh = [t for t in self.fresh if t.job.origin is None and t.job.title not in shown]
        self.show_fresh()
        for each in self.up_to_date:
            self.show_head(each.title)
            rows = read_stored(each) if len(self.up_to_date) == 1 else []
            self.screen.print_rows([*rows, make_row("up to date", describe_bundle(each.bundle))])

    def show_times(self) -> None:
        """Show the times of the stages that ran, if the user requested them."""
        from .screen import format_times

        for title, stages in self.times.items():
            self.screen.print_head(title)
            for line in format_times(stages):
                self.screen.print_hanging("  ", line)

    def show_overview(self) -> None:
        """Show one row per build if there are several builds."""
        builds, finished = self.list_builds()
        if len(builds) > 1:
            # Imported late, because few runs read manifests.
            from .overview import format_overview

            for line in format_overview(builds, finished):
                self.screen.print_hanging("", line)

    def collect_answers(self) -> None:
        """Keep the outcome of each build or lock for ``--json``."""
        from .overview import collect_outcomes  # imported late, because it reads manifests

        builds, finished = self.list_builds()
        if "build" in self.selected:
            answers.add(*collect_outcomes(builds, finished, self.messages))
        for task in self.tasks.values():
            if getattr(task.custom_title, "stage", "") in self.selected and task.actions:
                answers.add(make_checked_lock(task.custom_title.job, self.messages))

    def list_builds(self) -> tuple[list[UpToDate], set[str]]:
        """Return the builds in the order of the command line, and the names of finished builds."""
        titles = [task.custom_title for task in self.tasks.values()]
        builds = [title for title in titles if isinstance(title, UpToDate)]
        builds += list_finished(title for title in titles if hasattr(title, "stage"))
        done = list_finished(task.custom_title for task in (*self.skipped, *self.succeeded))
        finished = {each.task for each in (*self.up_to_date, *done)}
        asked = "build" in self.selected
        return sorted(builds, key=self.get_position) if asked else [], finished

    def get_position(self, build: UpToDate) -> int:
        return [*self.tasks["build"].task_dep].index(build.task)


def make_checked_lock(job: Job, failures: Mapping[str, str]) -> CheckedLock:
    path = str(lock_path(job.recipe.path))
    failure = failures.get(job.title, "")
    return CheckedLock(str(job.recipe.layers), job.platform.name, path, failure)


def read_stored(build: UpToDate) -> list[Row]:
    """Return the rows of a finished build without its bundle."""
    manifest = Path(build.manifest)
    rows = read_rows(manifest.with_name(artifacts.SUMMARY.file))
    # The folder of the exports can be from an earlier build, so the manifest decides.
    stage = artifacts.EXPORTS.stage
    files = msgspec.json.decode(manifest.read_bytes())["files"]
    if any(file["path"].startswith(f"{stage}/") for file in files):
        rows += describe_exports(manifest.parent.with_name(stage))
    return rows


def describe_exports(folder: Path) -> Iterator[Row]:
    names = sorted(each.name for each in folder.iterdir() if each.is_dir())
    yield make_row("exports", f"{', '.join(names)} in {folder}")


def describe_bundle(path: str) -> str:
    return f"{path} ({Path(path).stat().st_size:,} bytes)"
