"""Finds sentences against docs/contributing/style.md: ``python -m tests.quality.style [PATH…]``.

It prints ``file:line: rule: the sentence``. ``--since main`` prints only the findings that the
revision does not have, ``--rates`` the findings per 1,000 words, and ``--refresh`` lowers the
limits in style_limits.yaml to the findings of today.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from tests.quality.test_repository import ROOT, tracked

HERE = Path(__file__).parent
LIMITS = HERE / "style_limits.yaml"
CHECKED = re.compile(
    r"(docs|examples|src|tasks|templates|toolchains|recipes)/.*\.(md|py|j2|json|yaml)$"
    r"|[A-Z]+\.md$|noxfile\.py$|\.github/.*\.(md|yml)$|llms\.txt$"
)
GENERATED = re.compile(
    r"docs/reference/(recipe|description-files|conformance|tflite-operators)\.md$"
)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z`])")
PROSE = re.compile(r"[A-Za-z][\w',;-]*(?: [\w'\"(`{-][\w'\"`(){},;:=.-]*){3,}")
TEMPLATE_TEXT = re.compile(r"/\*(.*?)\*/|\{#-?(.*?)-?#\}|//+ ([^\n]*)|>([^<>{}]+)<", re.DOTALL)
CODE = re.compile(r"``.*?``|:\w+:`.*?`|`[^`\n]*`|\{\{.*?\}\}|\{%.*?%\}|https?://\S+|<[^>\s][^>]*>")


@dataclass(frozen=True)
class Text:
    """A piece of prose: its kind, its first line in the file, and its words."""

    kind: str
    line: int
    words: str


@dataclass(frozen=True)
class Rule:
    name: str
    pattern: re.Pattern[str]
    write: str
    unless_after: frozenset[str]
    unless: re.Pattern[str] | None

    def matches(self, sentence: str) -> bool:
        if self.unless and self.unless.search(sentence):
            return False
        return any(
            (sentence[: m.start()].rstrip(" ,").rpartition(" ")[2].lower()) not in self.unless_after
            for m in self.pattern.finditer(sentence)
        )


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return the rules of style_rules.yaml."""
    data = yaml.safe_load((HERE / "style_rules.yaml").read_text(encoding="utf-8"))
    return tuple(
        Rule(
            name,
            re.compile(f"(?i:{rule['pattern']})"),
            rule["write"],
            frozenset(rule.get("unless_after", ())),
            re.compile(rule["unless"]) if "unless" in rule else None,
        )
        for name, rule in data.items()
    )


def read_markdown(text: str) -> Iterator[Text]:
    """Yield paragraphs, list items and cells of tables, without code."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", blank, text, flags=re.DOTALL | re.MULTILINE)
    block, start = "", 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_new = not line.strip() or re.match(r"\s*(?:[-*|#]|\d+\.) ?|    ", line)
        if is_new and block:
            yield Text("docs", start, block)
            block = ""
        if line.startswith("|"):
            yield from (Text("docs", number, cell) for cell in line.strip("|").split("|"))
        elif line.strip() and not line.startswith("    "):
            start = start if block else number
            block = f"{block} {line.strip().lstrip('#*- ')}".strip()


def blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def read_python(text: str) -> Iterator[Text]:
    """Yield docstrings, comments, and literals that are prose."""
    tree = ast.parse(text)
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    alone = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
    }  # docstrings, also of attributes
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = "".join(
                str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values
            )
            yield Text("messages", node.lineno, words)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in alone:
                yield from split_paragraphs("docstrings", node.lineno, node.value)
            elif id(node) not in parts:
                yield from split_paragraphs("messages", node.lineno, node.value)
    yield from join_comments(
        (token.start[0], token.string.lstrip("#: "))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    )


def split_paragraphs(kind: str, line: int, text: str) -> Iterator[Text]:
    for part in re.split(r"\n\s*\n|\n\s*- ", text):
        yield Text(kind, line, " ".join(part.split()))


def join_comments(comments: Iterator[tuple[int, str]]) -> Iterator[Text]:
    """Yield comments of adjacent lines as one text."""
    words, start, last = "", 0, 0
    for line, text in comments:
        if words and line == last + 1:
            words = f"{words} {text}"
        else:
            if words:
                yield Text("comments", start, words)
            words, start = text, line
        last = line
    if words:
        yield Text("comments", start, words)


def read_json(text: str) -> Iterator[Text]:
    """Yield the strings of a schema that are prose."""
    for number, line in enumerate(text.splitlines(), 1):
        for literal in re.findall(r'"(?:[^"\\]|\\.)*"', line):
            yield Text("schemas", number, json.loads(literal))


def read_yaml(text: str) -> Iterator[Text]:
    """Yield scalars and comments."""
    try:
        events = list(yaml.parse(text))
    except yaml.YAMLError:
        events = []  # a template of YAML
    for event in events:
        if isinstance(event, yaml.ScalarEvent) and event.start_mark:
            yield Text("data", event.start_mark.line + 1, " ".join(event.value.split()))
    lines = enumerate(text.splitlines(), 1)
    yield from join_comments(
        (number, match[1])
        for number, line in lines
        if (match := re.search(r"(?:^|\s)#+ (.*)", line))
    )


def read_template(text: str) -> Iterator[Text]:
    """Yield the comments of C and of Jinja2, and the prose between tags."""
    for match in TEMPLATE_TEXT.finditer(text):
        words = re.sub(r"\s*\n\s*\* ?", " ", next(filter(None, match.groups()), ""))
        yield Text("templates", text.count("\n", 0, match.start()) + 1, " ".join(words.split()))


READERS = {
    ".md": read_markdown, ".txt": read_markdown, ".py": read_python, ".json": read_json,
    ".yaml": read_yaml, ".yml": read_yaml, ".j2": read_template,
}  # fmt: skip


def read_texts(name: str, text: str) -> Iterator[Text]:
    """Yield the sentences of a file, with ``X`` in place of code."""
    if name.endswith(".md.j2"):
        name = name.removesuffix(".j2")
    for found in READERS[Path(name).suffix](text):
        words = CODE.sub("X", re.sub(r"\]\([^)]*\)", "]", found.words))
        if found.kind == "docs" or PROSE.search(words):
            for sentence in SENTENCE_END.split(words):
                yield Text(found.kind, found.line, sentence.strip())


def find(name: str, text: str) -> Iterator[tuple[int, Rule, str]]:
    """Yield the line, the rule and the sentence of each finding in a file."""
    for each in read_texts(name, text):
        for rule in load_rules():
            if rule.matches(each.words):
                yield each.line, rule, each.words


def list_files(paths: list[str]) -> Iterator[str]:
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        is_asked = not paths or any(f"{name}/".startswith(f"{p.rstrip('/')}/") for p in paths)
        if is_asked and CHECKED.match(name) and not GENERATED.match(name):
            yield name


def name_folder(name: str) -> str:
    """Return the folder that counts the findings: a package, or a folder of pages."""
    parts = Path(name).parent.parts
    return "/".join(parts[: 3 if parts[:1] == ("src",) else 2]) or "."


def count_findings() -> Counter[str]:
    """Return the number of findings in each folder."""
    counts: Counter[str] = Counter()
    for name in list_files([]):
        findings = find(name, (ROOT / name).read_text(encoding="utf-8"))
        counts[name_folder(name)] += sum(1 for _ in findings)
    return counts


def print_rates(paths: list[str]) -> None:
    """Print the findings per 1,000 words, by rule and kind of text."""
    words: Counter[str] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for name in list_files(paths):
        for each in read_texts(name, (ROOT / name).read_text(encoding="utf-8")):
            words[each.kind] += len(each.words.split())
            found.update((r.name, each.kind) for r in load_rules() if r.matches(each.words))
    print("words", dict(words))
    for rule in load_rules():
        rates = {kind: round(1000 * found[rule.name, kind] / words[kind], 1) for kind in words}
        print(f"{rule.name:15}", *(f"{kind} {rate:5}" for kind, rate in rates.items()), sep="  ")


def print_findings(paths: list[str], revision: str) -> None:
    for name in list_files(paths):
        old: Counter[tuple[str, str]] = Counter()
        if revision:
            command = ["git", "show", f"{revision}:{name}"]
            shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            if shown.returncode == 0:
                old.update((rule.name, words) for _, rule, words in find(name, shown.stdout))
        for line, rule, words in find(name, (ROOT / name).read_text(encoding="utf-8")):
            if old[rule.name, words] > 0:
                old[rule.name, words] -= 1
            else:
                print(f"{name}:{line}: {rule.name} (write: {rule.write}): {words}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--since", default="", metavar="REVISION")
    parser.add_argument("--rates", action="store_true")
    parser.add_argument("--refresh", action="store_true")
    options = parser.parse_args(arguments)
    if options.refresh:
        counts = {folder: n for folder, n in sorted(count_findings().items()) if n}
        LIMITS.write_text(yaml.safe_dump(counts, sort_keys=True), encoding="utf-8")
    elif options.rates:
        print_rates(options.paths)
    else:
        print_findings(options.paths, options.since)


if __name__ == "__main__":
    main(sys.argv[1:])
