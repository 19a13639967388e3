"""Reads Python scripts as syntax trees. The scripts do not run."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from firmwright.migration.source import Computed, Setting, Source

Calls = Mapping[str, Sequence[str]]
"""The functions whose calls are read, with the names of their parameters in order."""

ARGUMENTS = ("args", "opts", "options", "opt", "FLAGS")
"""The usual names of variables that contain the result of argparse."""


def read_script(source: Source, calls: Calls, mappings: Sequence[str]) -> list[Setting]:
    """Return the arguments of calls, and the values of ``mappings``, which are names of dicts.

    An argument is named ``function.parameter``, a value ``options.KEY``. A value that is not
    constant is Computed. Raises DiagnosticError if the script has a syntax error.
    """
    try:
        tree = ast.parse(source.text)
    except SyntaxError as error:
        message = f"not Python: {error.msg}"
        raise source.make_error(error.lineno or 1, message) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise source.make_error(1, f"not Python: {error}") from None
    script = Script(source, calls, mappings, find_names(tree))
    settings: list[Setting] = []
    for node in ast.walk(tree):
        settings += script.read_node(node)
    return sorted(settings, key=lambda setting: setting.line)


def find_names(tree: ast.AST) -> dict[str, ast.expr | None]:
    """Return the expressions of names and argparse defaults, or None for ambiguous names."""
    values: dict[str, list[ast.expr]] = defaultdict(list)
    stores: dict[str, int] = defaultdict(int)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for name in (each.id for each in targets if isinstance(each, ast.Name)):
                    values[name].append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                values[name].append(value)
            case ast.arg(arg=name):
                stores[name] += 2  # a parameter has a different value in each call
            case ast.Name(id=name, ctx=ast.Store()):
                stores[name] += 1
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=args, keywords=keywords):
                given = {each.arg: each.value for each in keywords}
                flags = [a.value for a in args if isinstance(a, ast.Constant)]
                named = given.get("dest") or next(
                    (ast.Constant(f) for f in flags if str(f).startswith("--")), None
                )
                if isinstance(named, ast.Constant) and "default" in given:
                    name = str(named.value).lstrip("-").replace("-", "_")
                    values[f"args.{name}"].append(given["default"])
    return {
        name: values[name][0] if len(values[name]) == 1 and stores[name] < 2 else None
        for name in {**values, **stores}
    }


@dataclass
class Script:
    """The constants of a script, and the calls that were read as arguments of other calls."""

    source: Source
    calls: Calls
    mappings: Sequence[str]
    names: Mapping[str, ast.expr | None]
    seen: set[int] = field(default_factory=set)

    def read_node(self, node: ast.AST) -> Iterator[Setting]:
        """Yield the settings of a call, of a dict, or of an assignment to a dict's key."""
        match node:
            case ast.Call() if id(node) not in self.seen and self.name_call(node):
                yield from self.read_call(node, "")
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self.mappings:
                yield from self.read_mapping(value)
            case ast.Assign(targets=[ast.Subscript(value=holder, slice=key)], value=value):
                text = ast.unparse(holder)
                if text in (*self.mappings, "os.environ"):
                    prefix = "environ" if text == "os.environ" else "options"
                    name = self.evaluate(key)
                    yield self.make_setting(f"{prefix}.{name}", self.evaluate(value), node)

    def name_call(self, node: ast.Call) -> str:
        """Return the name of a call, or '' if the call is not read."""
        match node.func:
            case ast.Name(id=name):
                return name if name in self.calls else ""
            case ast.Attribute(value=ast.Name(id="re" | "np" | "torch")):
                return ""
            case ast.Attribute(attr=name):
                return name if name in self.calls else ""
        return ""

    def read_call(self, node: ast.Call, prefix: str) -> Iterator[Setting]:
        self.seen.add(id(node))
        name = prefix + self.name_call(node)
        parameters = self.calls[self.name_call(node)]
        if not node.args and not node.keywords:
            yield self.make_setting(name, True, node)
        positional = takewhile(lambda value: not isinstance(value, ast.Starred), node.args)
        arguments = [*zip(parameters, positional, strict=False)]
        arguments += [(each.arg, each.value) for each in node.keywords if each.arg]
        for parameter, value in arguments:
            if parameter in self.mappings:
                yield from self.read_mapping(value)
            elif isinstance(value, ast.Call) and self.name_call(value):
                yield from self.read_call(value, f"{name}.")
            else:
                yield self.make_setting(f"{name}.{parameter}", self.evaluate(value), value)

    def read_mapping(self, node: ast.expr) -> Iterator[Setting]:
        """Yield the values of a dict. The settings have the names of the keys."""
        pairs: list[tuple[ast.expr | None, ast.expr]] = []
        if isinstance(node, ast.Dict):
            pairs = [*zip(node.keys, node.values, strict=True)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
            pairs = [(ast.Constant(each.arg), each.value) for each in node.keywords if each.arg]
        for key, value in pairs:
            if key is not None and id(value) not in self.seen:
                self.seen.add(id(value))
                name = self.evaluate(key)
                yield self.make_setting(f"options.{name}", self.evaluate(value), value)

    def make_setting(self, name: str, value: Any, node: ast.AST) -> Setting:
        return Setting(name, value, self.source.shown, getattr(node, "lineno", 1))

    def evaluate(self, node: ast.expr, depth: int = 0) -> Any:
        """Return a constant, the last name of an attribute, or Computed for other cases."""
        match node:
            case ast.Constant(value=value) if not isinstance(value, bytes | complex):
                return None if value is ... else value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                values = [self.evaluate(part, depth) for part in parts]
                computed = any(isinstance(value, Computed) for value in values)
                return Computed(ast.unparse(node)) if computed else values
            case ast.Dict(keys=keys, values=parts) if all(
                isinstance(key, ast.Constant) for key in keys
            ):
                names = [key.value for key in keys if isinstance(key, ast.Constant)]
                values = [self.evaluate(part, depth) for part in parts]
                if not any(isinstance(value, Computed) for value in values):
                    return dict(zip(map(str, names), values, strict=True))
            case ast.Name(id=name):
                return self.follow(name, node, depth)
            case ast.Attribute(value=ast.Name(id=holder), attr=name) if holder in ARGUMENTS:
                return self.follow(f"args.{name}", node, depth)
            case ast.Attribute(attr=name):
                return name
        return Computed(ast.unparse(node))

    def follow(self, name: str, node: ast.expr, depth: int) -> Any:
        """Return the value of a name. The value of an imported name is the name."""
        if name not in self.names:
            return name if isinstance(node, ast.Name) else Computed(ast.unparse(node))
        value = self.names[name]
        known = value is not None and depth < 8
        return self.evaluate(value, depth + 1) if known and value else Computed(ast.unparse(node))
