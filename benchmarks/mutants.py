"""Mutants of source code: small changes that a test ought to notice, one at a time.

Sites are found in the syntax tree and changed in the text, so that all else stays byte for byte.
What no test can or need notice is left alone: annotations, docstrings, messages of errors, names.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

COMPARED: Mapping[type[ast.cmpop], str] = {
    **{ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"},
    **{ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is"},
    **{ast.In: "not in", ast.NotIn: "in"},
}
COMBINED: Mapping[type[ast.operator], str] = {
    **{ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"},
    **{ast.BitAnd: "|", ast.BitOr: "&", ast.FloorDiv: "/", ast.Mod: "+"},
}
SYMBOLS: Mapping[type[ast.AST], str] = {
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"},
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|"},
    **{ast.FloorDiv: "//", ast.Mod: "%", ast.And: "and", ast.Or: "or"},
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum"}
CALLED |= {"maximum": "minimum", "argmin": "argmax", "argmax": "argmin", "floor": "ceil"}
CALLED |= {"ceil": "floor", "isfinite": "isnan", "sin": "cos", "cos": "sin"}
UNSEEN = ("cast", "TypeVar", "Literal", "reveal_type", "Parameter", "Annotated")


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        path: Of the file, relative to the sources.
        line: Where the change begins.
        where: Function and class around it.
        begin, end: Of what is replaced, in bytes.
        before, after: Text that is replaced, and what takes its place.
        compiled: Whether it lies in a compiled kernel, whose lines no tracer sees.
    """

    path: str
    line: int
    where: str
    begin: int
    end: int
    before: str
    after: str
    compiled: bool

    @property
    def key(self) -> str:
        """A name that survives changes elsewhere in the file."""
        return f"{self.path}:{self.where}: {self.before} -> {self.after}"

    def of(self, source: bytes) -> bytes:
        """Return the changed file."""
        return source[: self.begin] + self.after.encode() + source[self.end :]


class _Sites(ast.NodeVisitor):
    """Collects the mutants of one file."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        self.offsets = [0]
        for line in source.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.found: list[Mutant] = []
        self.around: list[str] = []
        self.compiled = 0

    def at(self, line: int, column: int) -> int:
        return self.offsets[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = self.at(node.lineno, node.col_offset)
        return begin, self.at(node.end_lineno, node.end_col_offset)

    def add(self, line: int, begin: int, end: int, after: str) -> None:
        before = self.source[begin:end].decode()
        where = ".".join(self.around) or "module"
        self.found.append(
            Mutant(self.path, line, where, begin, end, before, after, self.compiled > 0)
        )

    def between(self, left: ast.expr, right: ast.expr, kind: type[ast.AST], after: str) -> None:
        """Replace the operator between two operands."""
        begin, end = self.span(left)[1], self.span(right)[0]
        text, symbol = self.source[begin:end].decode(), SYMBOLS[kind]
        place = text.find(symbol)
        if place >= 0 and text.count(symbol) == 1 and "#" not in text:
            first = begin + len(text[:place].encode())
            self.add(right.lineno, first, first + len(symbol), after)

    # --- what is left alone

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        marks = " ".join(ast.unparse(d) for d in node.decorator_list)
        own = any(k in marks for k in ("exact", "contracted", "reassociated", "kernel", "njit"))
        self.around.append(node.name)
        self.compiled += own
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.compiled -= own
        self.around.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.around.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.around.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    # --- what is changed

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        begin, end = self.span(node.test)
        text = self.source[begin:end].decode()
        self.add(node.test.lineno, begin, end, f"not ({text})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        lefts = [node.left, *node.comparators]
        for left, operator, right in zip(lefts, node.ops, node.comparators, strict=False):
            self.between(left, right, type(operator), COMPARED[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        after = COMBINED.get(type(node.op))
        texts = isinstance(node.left, ast.Constant | ast.JoinedStr) and not isinstance(
            getattr(node.left, "value", None), int | float
        )
        if after is not None and not texts:
            self.between(node.left, node.right, type(node.op), after)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        after = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, type(node.op), after)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub | ast.Not | ast.Invert):
            begin, _ = self.span(node)
            self.add(node.lineno, begin, self.span(node.operand)[0], "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        begin, end = self.span(node)
        if isinstance(node.value, bool):
            self.add(node.lineno, begin, end, str(not node.value))
        elif isinstance(node.value, int):
            self.add(node.lineno, begin, end, str(node.value + 1))
        elif isinstance(node.value, float):
            self.add(node.lineno, begin, end, repr(2.0 * node.value if node.value else 1.0))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name in UNSEEN:
            return
        if name in CALLED:
            _, end = self.span(node.func)
            self.add(node.lineno, end - len(name), end, CALLED[name])
        self.generic_visit(node)


def mutants(root: Path, path: Path) -> tuple[Mutant, ...]:
    """Return all mutants of a file; see `is_code`.

    Args:
        root: Folder of the sources.
        path: Of the file.
    """
    source = path.read_bytes()
    sites = _Sites(path.relative_to(root).as_posix(), source)
    sites.visit(ast.parse(source))
    return tuple(sites.found)


def is_code(mutant: Mutant, source: bytes) -> bool:
    """Return whether the changed file is still source code, and other than before."""
    try:
        changed = ast.parse(mutant.of(source))
    except SyntaxError:
        return False
    return ast.dump(changed) != ast.dump(ast.parse(source))
