"""Defines doit's commands for every folder of a repository. Failures are reported in one line.

The entry points ``doit.COMMAND`` replace doit's commands, also for other task files. These commands
differ from doit's commands only in failures, and in the output of `doit clean` and `doit info`.
"""

from __future__ import annotations

import dbm
import gc
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from doit import (
    cmd_clean,
    cmd_dumpdb,
    cmd_forget,
    cmd_help,
    cmd_info,
    cmd_list,
    cmd_run,
    get_var,
    loader,
    plugin,
)
from doit.cmd_base import DoitCmdBase, tasks_and_deps_iter
from doit.cmdparse import CmdParseError
from doit.control import TaskControl
from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask
from doit.task import Task

from firmwright.errors import UserError, did_you_mean
from firmwright.folders import PREFIXES
from firmwright.pipeline import snapshot
from firmwright.pipeline.freshness import UpToDateCheck
from firmwright.pipeline.profile import DRY_RUN, is_asked
from firmwright.pipeline.recipe_arguments import TASKS, begin_log
from firmwright.plugins import find_plugins
from firmwright.process import open_streams, tell_end
from firmwright.report.outcomes import TaskInfo
from firmwright.terminal import answers
from firmwright.terminal.guard import GuardedStream, end_with_reader

if TYPE_CHECKING:
    from firmwright.report.outcomes import TaskList

plugin.entry_points_impl = lambda: find_plugins
"""doit calls this function for each kind of plug-ins."""

BESIDE_A_BUILD = "task_further_builds"
"""The function that creates tasks that no build needs."""

OUR_REMOVAL = " - executing 'Python: function remove_results'\n"
"""The line that doit prints before a clean. The action itself prints the removed files."""

NO_TASK_FILE = """\
no dodo.py in this folder or above
A dodo.py is one line, `from firmwright.tasks.dodo import *`; `firmwright init` writes it, and \
`firmwright build my.yaml` does not need it."""


OPTIONS_FIRST = """\
; doit's options come first, as in `doit -n 2 build`; `doit help build` lists the arguments"""


class FromAnyFolder(DoitCmdBase):  # type: ignore[misc]
    """A command that searches the parent folders for its task file, like doit's ``-k``.

    If the task file is firmwright's, an unhandled error ends the command in one line.
    """

    def execute(self, params: Any, args: list[str]) -> Any:
        params.update_defaults({"seek_file": True})
        open_streams()
        self.outstream = sys.stdout  # doit still refers to the earlier stream
        if not isinstance(params.get("outfile", ""), str):
            params["outfile"] = sys.stdout
        try:
            code = super().execute(params, args)
            sys.stdout.flush()
            return code
        except InvalidDodoFile as error:
            if params.get("dodoFile") == "dodo.py" and "Could not find" in str(error):
                raise InvalidDodoFile(NO_TASK_FILE) from None
            raise
        except (CmdParseError, InvalidCommand, InvalidTask):
            raise
        except Exception as error:
            if TASKS not in sys.modules and not isinstance(error, OSError):
                raise
            sys.exit(tell_end(error))
        finally:
            lock = getattr(getattr(self.dep_manager, "backend", None), "lock", None)
            if lock is not None:
                lock.close()


class Run(FromAnyFolder, cmd_run.Run):  # type: ignore[misc]
    def execute(self, params: Any, args: list[str]) -> Any:
        if params["num_process"] < 0:  # without this check, doit runs no task and reports success
            message = f"-n {params['num_process']}: expected a whole number from 0 on"
            raise InvalidCommand(message)
        try:
            begin_log()
        except UserError as error:
            raise InvalidCommand(str(error)) from None
        if any(name.partition(":")[0] in ("search", "tune") for name in args):
            self.loader.load_tasks = partial(load_search, params, self.loader.load_tasks)
        altered = params._non_default_keys or params["always"] or params["single"]
        if args in ([], ["build"]) and not altered:
            self.loader.load_tasks = partial(load_tasks, self.loader, self.loader.load_tasks)
        if is_asked(DRY_RUN):
            gc.disable()  # a dry run needs nearly all of its objects until its end
            self._execute = self.print_plan
        try:
            return super().execute(params, args)
        except CmdParseError as error:
            raise InvalidCommand(f"{error.__context__}{OPTIONS_FIRST}") from None
        except InvalidCommand as error:
            if error.not_found is None:
                raise
            known = {*self.loader.cmd_names, *(task.name for task in self.task_list)}
            name = f"'{error.not_found}'{did_you_mean(error.not_found, known)}"
            raise InvalidCommand(f"no command, task or file of a task is named {name}") from None
        finally:
            gc.enable()

    def print_plan(self, outfile: Any) -> int:
        # Imported late, because an up-to-date build needs no plan.
        from firmwright.pipeline.reasons import format_plan, plan_build

        planned = plan_build(self.task_list, self.sel_tasks, self.dep_manager)
        print(format_plan([*planned]), file=outfile)
        return 0


def load_search(params: Any, load: Callable[..., Any], **given: Any) -> Any:
    """Return all tasks, including a search. `-n` sets the number of parallel trials.

    Searches run one after another. Raises InvalidCommand if a cluster runs the trials.
    """
    tasks = load(**given)
    if TASKS not in sys.modules:  # another task file has a task with this name
        return tasks
    # Imported late, because a build needs no search.
    from firmwright.pipeline.command_line import SCHEDULER
    from firmwright.tune import variant_trials

    if "num_process" in params._non_default_keys:
        asked, scheduler = params["num_process"], get_var(SCHEDULER)
        if scheduler:
            message = f"-n {asked}: {SCHEDULER}={scheduler} already has workers"
            raise InvalidCommand(f"{message}; remove one of them")
        variant_trials.side_by_side = max(asked, 1)
    params["num_process"] = 0
    return tasks


def load_tasks(loader: Any, load: Callable[..., Any], **given: Any) -> Any:
    """Return the tasks of all recipes. An up-to-date build is one task without stages."""
    if not is_ours(loader.namespace):
        return load(**given)
    loader.namespace = {n: v for n, v in loader.namespace.items() if n != BESIDE_A_BUILD}
    known = snapshot.read_current()
    if known.changed:
        # Imported late, because an up-to-date build reads no recipe.
        from firmwright.pipeline.changed_recipes import load_changed

        tasks = load_changed(known, sys.modules[TASKS], partial(load, **given))
    else:
        tasks = snapshot.make_tasks(known.list_builds())
    return tasks or load(**given)


def is_ours(task_file: Mapping[str, Any]) -> bool:
    """Return whether a task file only imports firmwright's tasks."""
    ours = vars(sys.modules[TASKS]) if TASKS in sys.modules else {}
    given, known = ({n: v for n, v in names.items() if n[0] != "_"} for names in (task_file, ours))
    return given == known


class Printing(FromAnyFolder):
    """A command that only prints, and that ends when its output is closed."""

    def execute(self, params: Any, args: list[str]) -> Any:
        end_with_reader()
        return super().execute(params, args)


class Help(Printing, cmd_help.Help):  # type: ignore[misc]
    """`doit help`."""


class List(Printing, cmd_list.List):  # type: ignore[misc]
    """`doit list` without the tasks that can only fail."""

    def _list_all(self, include_subtasks: bool) -> list[Any]:
        return [task for task in super()._list_all(include_subtasks) if can_run(task)]


def can_run(task: Task) -> bool:
    return not (task.meta or {}).get("refused")


def list_all(task_file: ModuleType) -> TaskList:
    # Imported late, because other commands do not need the records.
    from firmwright.report.outcomes import ListedTask, TaskList

    tasks = sorted(filter(can_run, loader.load_tasks(vars(task_file))))
    return TaskList(tuple(ListedTask(task.name, task.doc or "") for task in tasks))


class InfoStream(GuardedStream):
    """The stream of `doit info`.

    A line with the number of firmwright's files replaces these files.
    """

    file_count = 0

    def write(self, text: str) -> int:
        if text.removeprefix(" - ").startswith(PREFIXES):
            self.file_count += 1
            return len(text)
        self.write_count()
        return super().write(text)

    def write_count(self) -> None:
        """Print the number of firmwright's files since the last line that was passed on."""
        if self.file_count:
            super().write(f" - {self.file_count} files of firmwright itself\n")
            self.file_count = 0


class Info(Printing, cmd_info.Info):  # type: ignore[misc]
    """`doit info`. The command suggests the nearest task if the task is unknown."""

    outstream: Any

    def _execute(self, pos_args: list[str], hide_status: bool = False) -> Any:
        known = [task.name for task in self.task_list]
        for name in pos_args:
            if name not in known:
                raise InvalidCommand(f"info: no task '{name}'{did_you_mean(name, known)}")
        for task in self.task_list:
            in_order = sorted(task.file_dep, key=lambda path: (path.startswith(PREFIXES), path))
            task.file_dep = dict.fromkeys(in_order).keys()  # a dict is a set with an order
        if answers.are_wanted():
            return self.collect(pos_args[0])
        self.outstream = InfoStream(self.outstream)
        code = super()._execute(pos_args, hide_status)
        self.outstream.write_count()
        return code

    def collect(self, name: str) -> int:
        """Keep the record of a task for ``--json``. Return 1 if the task would run."""
        tasks = {task.name: task for task in self.task_list}
        task = tasks[name]
        status = self.dep_manager.get_status(task, tasks, get_log=True)
        text = "" if status.status == "up-to-date" else self.get_reasons(status.reasons)
        reasons = tuple(line.strip(" *-") for line in text.splitlines())
        lists = (tuple(map(str, each)) for each in (task.task_dep, task.file_dep, task.targets))
        answers.add(TaskInfo(name, task.doc or "", reasons, *lists))
        return int(status.status != "up-to-date")

    @staticmethod
    def get_reasons(reasons: Any) -> str:
        """Return the reasons why the task would run: first firmwright's reasons, then doit's."""
        checks = reasons["uptodate_false"]
        ours = [f" * {check}" for check, *_ in checks if isinstance(check, UpToDateCheck)]
        reasons["uptodate_false"] = [c for c in checks if not isinstance(c[0], UpToDateCheck)]
        return "\n".join([*ours, *filter(None, [cmd_info.Info.get_reasons(reasons)])])


class Forget(FromAnyFolder, cmd_forget.Forget):  # type: ignore[misc]
    """`doit forget`. For a build, the command forgets the stages of the build."""

    sel_tasks: list[str]

    def _execute(
        self, forget_sub: bool, forget_disable_default: bool, forget_all: bool
    ) -> int | None:
        if not (forget_all or (self.sel_default_tasks and forget_disable_default)):
            self.sel_tasks = [*self.sel_tasks, *list_stages(self.task_list, self.sel_tasks)]
        code: int | None = super()._execute(forget_sub, forget_disable_default, forget_all)
        return code


def list_stages(tasks: list[Task], selected: list[str]) -> list[str]:
    """Return the names of the stages of the selected builds, including comparisons.

    ``tasks`` are all existing tasks.
    """
    # TaskControl adds to each task the names of the tasks whose results it reads.
    known = TaskControl(tasks).tasks
    builds = [name for name in selected if name.partition(":")[0] == "build" and name in known]
    needed = tasks_and_deps_iter(known, builds)
    return [task.name for task in needed if hasattr(task.custom_title, "stage")]


class Removals(GuardedStream):
    """The stream of `doit clean` without the lines that announce firmwright's removals."""

    def write(self, text: str) -> int:
        return len(text) if text.endswith(OUR_REMOVAL) else super().write(text)


class Clean(FromAnyFolder, cmd_clean.Clean):  # type: ignore[misc]
    """`doit clean`."""

    outstream: Any

    def clean_tasks(self, tasks: Any, dryrun: bool, cleanforget: bool) -> None:
        self.outstream = Removals(self.outstream)
        super().clean_tasks(tasks, dryrun, cleanforget)


class DumpDB(cmd_dumpdb.DumpDB):  # type: ignore[misc]
    """`doit dumpdb`. If doit has no database, the command names its replacement."""

    def execute(self, opt_values: Any, pos_args: list[str]) -> Any:
        file = opt_values["dep_file"]
        if not dbm.whichdb(file):
            message = (
                f"dumpdb: {file} is not a DBM file; `doit info TASK` shows the recorded values"
            )
            raise InvalidCommand(message)
        return super().execute(opt_values, pos_args)
