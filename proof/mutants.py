"""Small mistakes in a program: one is put into a copy of its syntax tree at a time.

A comparison off by one or the other way round, `and` for `or`, a condition negated, a number one
more, a constant the other way round, `+` for `-`, nothing returned, a statement left out.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

Apply: TypeAlias = Callable[[], None]
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
# What is never run says nothing about tests; nor do annotations, nor the options of a class.
SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_params"})


class Mutant(NamedTuple):
    """A mistake that can be made at a line."""

    line: int
    text: str
    apply: Apply


def mutants(tree: ast.Module) -> list[Mutant]:
    """List every mistake that can be made in a tree; the order depends on the source alone."""
    settings = _settings(tree)
    return [
        mutant
        for node in _nodes(tree)
        if node not in settings
        for mutant in (*_inside(node), *_left_out(node))
    ]


def mutated(source: str, number: int) -> ast.Module:
    """Return the tree of a source with the n-th mistake in it."""
    tree = ast.parse(source)
    mutants(tree)[number].apply()
    return ast.fix_missing_locations(tree)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    if _is_for_checkers(node):
        return
    yield node
    skipped = SKIPPED_FIELDS | ({"keywords"} if isinstance(node, ast.ClassDef) else set())
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def _settings(tree: ast.Module) -> set[ast.AST]:
    """Return the numbers that are settings: a limit that is one more is no mistake.

    They are what is assigned in a module or a class, and the defaults of parameters.
    """
    given: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            given += [one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign)]
        elif isinstance(node, ast.arguments):
            given += [*node.defaults, *node.kw_defaults]
    below = (child for one in given if one is not None for child in ast.walk(one))
    return {
        child
        for child in below
        if isinstance(child, ast.BinOp)
        or (isinstance(child, ast.Constant) and not isinstance(child.value, bool))
    }


def _is_for_checkers(node: ast.AST) -> bool:
    """Whether a part is there for checkers of types alone."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(ast.unparse(each) == "overload" for each in node.decorator_list)


def _set(holder: Any, name: str, value: Any) -> Apply:
    return lambda: setattr(holder, name, value)


def _inside(node: ast.AST) -> Iterator[Mutant]:
    match node:
        case ast.Compare(ops=[first, *_] as ops):
            other = COMPARISONS[type(first)]()
            text = f"{type(first).__name__} to {type(other).__name__}"
            yield Mutant(node.lineno, text, _set(node, "ops", [other, *ops[1:]]))
        case ast.BoolOp(op=op):
            swapped = ast.Or() if isinstance(op, ast.And) else ast.And()
            text = f"{type(op).__name__} to {type(swapped).__name__}"
            yield Mutant(node.lineno, text, _set(node, "op", swapped))
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            new = OPERATORS[type(operator)]()
            text = f"{type(operator).__name__} to {type(new).__name__}"
            yield Mutant(node.lineno, text, _set(node, "op", new))
        case ast.If() | ast.IfExp() | ast.While():
            negated = ast.UnaryOp(ast.Not(), node.test)
            yield Mutant(node.lineno, "condition negated", _set(node, "test", negated))
        case ast.Constant(value=bool(value)):
            yield Mutant(node.lineno, f"{value} to {not value}", _set(node, "value", not value))
        case ast.Constant(value=int(value) | float(value)):
            yield Mutant(node.lineno, f"{value} to {value + 1}", _set(node, "value", value + 1))
        case ast.Return(value=ast.expr() as value) if not _is_plain(value):
            yield Mutant(node.lineno, "returns None", _set(node, "value", ast.Constant(None)))
        case _:
            return


def _is_plain(value: ast.expr) -> bool:
    """Whether a value is as good as None, or has its own mistake."""
    return isinstance(value, ast.Constant) and value.value in (None, False, True)


def _left_out(node: ast.AST) -> Iterator[Mutant]:
    """Yield the statements of a block that can be left out, or put in each other's place."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        for at, statement in enumerate(block if isinstance(block, list) else []):
            if (other := _instead(statement)) is not None:
                text = f"{type(statement).__name__} to {type(other).__name__}"
                yield Mutant(statement.lineno, text, _put(block, at, other))


def _put(block: Any, at: int, statement: ast.stmt) -> Apply:
    return lambda: block.__setitem__(at, statement)


def _instead(statement: ast.stmt) -> ast.stmt | None:
    match statement:
        case ast.Continue():
            return ast.Break()
        case ast.Break():
            return ast.Continue()
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            return ast.Pass()
        case ast.Raise() | ast.AugAssign():
            return ast.Pass()
        case _:
            return None
