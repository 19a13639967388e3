"""Reads commands of tvmc, onnx2c and Deeploy in shell scripts, notes and Makefiles."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from firmwright.migration.documents import read_options
from firmwright.migration.source import MODEL_SUFFIXES, Computed, Setting, Source, read_source

END = re.compile(r"[|;&>]+|\d>.*|>.*")
"""Matches a word that ends a command."""

ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*[:?]?=\s*(\S*|'.*'|\".*\")\s*")
VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\}|\((\w+)\))")
"""A variable of a shell or of a Makefile: its value, and its use."""

Command = tuple[list[tuple[str, int]], int]
"""The words after a tool's name with their lines, and the line of the tool's name."""

MARKS = "`\"'"
"""The marks around a command in a Markdown text, or in another command."""


@dataclass(frozen=True)
class KnownCommand:
    """A command; ``pattern`` finds it in a line, ``flags`` are the options without a value.

    Only the options in ``valued`` have a value if ``flags`` is None.
    """

    pattern: re.Pattern[str]
    flags: frozenset[str] | None = None
    valued: frozenset[str] = frozenset()

    def has_value(self, option: str) -> bool:
        return option in self.valued if self.flags is None else option not in self.flags


TVMC = KnownCommand(
    re.compile(r"(?:^|[\s/.'\"`])(?:-m)?(?:tvm\.driver\.)?tvmc\s+compile(?=\s|$)", re.M),
    flags=frozenset({"-v", "--verbose", "-h", "--help"}),
)
ONNX2C = KnownCommand(
    re.compile(r"(?:^|[\s/'\"`])onnx2c(?=\s|$)", re.M),
    valued=frozenset(
        {"-l", "--log", "-d", "--define", "-f", "--func-name", "-p", "--optimizations", "-o"}
    ),
)
DEEPLOY = KnownCommand(
    re.compile(r"(?:^|[\s/])(?:deeployRunner|testRunner)_?\w*\.py(?=\s|$)", re.M),
    valued=frozenset({"-t", "-d", "-p", "--cores", "--l1", "--l2", "--defaultMemLevel"}),
)


def read_tvmc(source: Source) -> list[Setting]:
    """Return the settings of ``tvmc compile``, and the settings in its ``--tidl-config`` file."""
    settings: list[Setting] = []
    for each in read_command(source, TVMC):
        settings += split_tvmc(source, each)
    return settings


def split_tvmc(source: Source, setting: Setting) -> Iterator[Setting]:
    """Yield the parts of a setting that contains several settings."""
    name, value = setting.name, str(setting.value)
    if not isinstance(setting.value, str):
        yield setting
    elif name == "--target":
        yield from split_target(setting)
    elif name == "--pass-config":
        key, _, text = value.partition("=")
        yield Setting(f"--pass-config {key}", text, setting.file, setting.line)
    elif name == "--input-shapes":
        shapes = re.findall(r"([^\s,:\[\]]+)\s*:\s*\[([^\]]*)\]", value)
        for tensor, shape in shapes:
            parts = [part.strip() for part in shape.split(",")]
            fixed = all(re.fullmatch(r"[0-9]{1,9}", part) for part in parts)
            lengths = [*map(int, parts)] if fixed else Computed(f"[{shape}]")
            yield Setting(f"--input-shapes {tensor}", lengths, setting.file, setting.line)
        if not shapes:
            yield setting
    elif name == "--tidl-config" and (source.folder / value).is_file():
        yield from read_options(read_source(str(source.folder / value)))
    else:
        yield setting


def split_target(setting: Setting) -> Iterator[Setting]:
    """Yield the devices of a target of TVM, and the options of each device."""
    for part in setting.value.split(","):
        device, *options = part.split() or [""]
        yield Setting(f"device {device}", device, setting.file, setting.line)
        for option in options:
            key, _, text = option.lstrip("-").partition("=")
            yield Setting(f"--target-{device}-{key}", text, setting.file, setting.line)


def read_command(source: Source, tool: KnownCommand) -> Iterator[Setting]:
    """Yield the options and arguments of a tool's only command in a text.

    Raises DiagnosticError if quotes have no end, or if there are several commands.
    """
    commands = choose([*find_commands(source, tool)])
    if len(commands) > 1:
        first, second = (line for _, line in commands[:2])
        raise source.make_error(
            second, f"line {first} also has a command of this tool; keep one of the commands"
        )
    arguments = [*commands[0][0]] if commands else []
    while arguments:
        argument, line = arguments.pop(0)
        name, equals, value = argument.partition("=")
        if not argument.startswith("-") or argument == "-":
            yield Setting("ARGUMENT", to_value(argument), source.shown, line)
        elif equals:
            yield Setting(name, to_value(value), source.shown, line)
        elif tool.has_value(argument) and arguments and not arguments[0][0].startswith("-"):
            yield Setting(argument, to_value(arguments.pop(0)[0]), source.shown, line)
        else:
            yield Setting(argument, True, source.shown, line)


def choose(commands: list[Command]) -> list[Command]:
    """Return the commands that name a model, or else the commands with an option."""
    for pattern in (rf"\$|(?:{'|'.join(map(re.escape, MODEL_SUFFIXES))})$", r"^--?\w"):
        kept = [
            each
            for each in commands
            if any(re.search(pattern, argument) for argument, _ in each[0])
        ]
        if kept:
            return kept
    return []


def find_commands(source: Source, tool: KnownCommand) -> Iterator[Command]:
    """Yield the commands of a tool.

    The values of earlier lines replace variables. A command may be in quotes.
    """
    variables: dict[str, str] = {}
    lines = source.text.split("\n")
    start = 0
    while start < len(lines):
        end = start
        while lines[end].rstrip().endswith("\\") and end + 1 < len(lines):
            end += 1
        block = [line.rstrip().rstrip("\\") for line in lines[start : end + 1]]
        block[0] = re.sub(r"^\s*\$ ", "", block[0])  # a shell prompt
        names = ((n, tool.pattern.search(line)) for n, line in enumerate(block))
        skipped, match = next((pair for pair in names if pair[1]), (0, None))
        stated = ASSIGNMENT.fullmatch(block[0])
        if stated:
            variables[stated[1]] = stated[2].strip("'\"")
        elif match and not match.string.lstrip().startswith("#"):
            before, rest = match.string[: match.end()], match.string[match.end() :]
            block = [rest, *block[skipped + 1 :]]
            for mark in MARKS:
                block = cut(block, mark) if before.count(mark) % 2 else block
            line = start + skipped
            yield [*split_arguments(source, block, line, variables)], line + 1
        start = end + 1


def cut(block: list[str], mark: str) -> list[str]:
    text, *_ = re.split(rf"(?<!\\){mark}", "\n".join(block), maxsplit=1)
    return text.replace(f"\\{mark}", mark).split("\n")


def split_arguments(
    source: Source, block: list[str], start: int, variables: dict[str, str]
) -> Iterator[tuple[str, int]]:
    for number, text in enumerate(block, start + 1):
        try:
            arguments = shlex.split(text, comments=True)
        except ValueError as error:
            raise source.make_error(
                number, f"not a command: {error}; check its quotes".lower()
            ) from None
        for argument in arguments:
            argument, semicolon, _ = argument.partition(";")
            if END.fullmatch(argument):
                return
            if argument or not semicolon:
                yield (
                    VARIABLE.sub(lambda m: variables.get(m[m.lastindex or 0], m[0]), argument),
                    number,
                )
            if semicolon:
                return


def to_value(text: str) -> str | Computed:
    """Return a word, or Computed if the word contains a shell variable."""
    return Computed(text) if "$" in text or "`" in text else text
