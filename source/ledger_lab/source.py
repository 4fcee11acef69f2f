"""Hashes Python source by what it computes: comments, docstrings and layout do not count."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_MEANING = ("kind", "type_comment")
"""Fields of a syntax tree that do not change what the code computes."""
_INSTALLED = ("site-packages", "dist-packages")
"""Folders in which modules of unrelated projects are side by side."""


def source_sha256(source: bytes) -> str:
    """Return the hash of Python source; of a file with a syntax error, the hash of its bytes.

    Args:
        source: Content of a file.
    """
    try:
        return _hash([ast.parse(source)])
    except (SyntaxError, ValueError):
        return hashlib.sha256(source).hexdigest()


def definitions_sha256(names: Iterable[str]) -> dict[str, str]:
    """Return the hashes of functions and classes, and of all definitions that they refer to in their own package.

    A definition is a statement at the top level of a module that binds a name: a function, a class, a constant. Its
    hash does not cover the definitions that it refers to, which have hashes of their own, so that a comparison names
    what differs. References are found by reading the source. The package of a module is its top-level package; of a
    single file, all modules in its folder; of the tasks of LedgerLab, ``ledger_lab.tasks``.

    Args:
        names: ``module:name``, in modules that can be imported.

    Returns:
        Hashes by ``module:name``. Names in modules that have no file are left out. For a compiled module, and for a
        name that is bound in another way, the hash of the file stands for the name.
    """
    modules = _Modules()
    found: dict[str, str] = {}
    waiting = [(each.partition(":")[0], each.partition(":")[2], True) for each in names]
    while waiting:
        where, name, asked = waiting.pop()
        module = modules.find(where)
        if module is None or f"{where}:{name}" in found:
            continue
        statements = module.bindings.get(name, [])
        shared = [star for star in module.stars if not statements and modules.share_package(module, star)]
        elsewhere = any(other and name in other.bindings for other in map(modules.find, shared))
        if not statements and asked and not elsewhere:
            statements = module.around(name)
        defining = [each for each in statements if not isinstance(each, ast.Import | ast.ImportFrom)]
        if defining:
            found[f"{where}:{name}"] = _hash(defining)
        elif asked and not statements and not elsewhere:
            found[f"{where}:{name}"] = source_sha256(module.path.read_bytes())
        waiting += [(*to, False) for each in statements for to in _targets(module, each, name, modules)]
        waiting += [(star, name, False) for star in shared]
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class _Module:
    """A module, which need not have been imported."""

    name: str
    path: Path
    is_package: bool

    @cached_property
    def tree(self) -> ast.Module | None:
        """Its syntax tree; ``None`` if it is compiled, or can't be parsed."""
        if self.path.suffix != ".py":
            return None
        try:
            return ast.parse(self.path.read_bytes())
        except (SyntaxError, ValueError):
            return None

    @cached_property
    def bindings(self) -> dict[str, list[ast.stmt]]:
        """The statements at its top level that bind each name, also within ``if``, ``try`` and ``with``."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in _top_level(self.tree.body if self.tree is not None else []):
            for name in _bound(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def stars(self) -> list[str]:
        """Modules from which it imports all names."""
        return [
            self.absolute(statement)
            for statement in _top_level(self.tree.body if self.tree is not None else [])
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*"
        ]

    def around(self, name: str) -> list[ast.stmt]:
        """Return the statements at its top level with a function or a class of that name inside."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return [
            statement
            for statement in _top_level(self.tree.body if self.tree is not None else [])
            if any(isinstance(node, kinds) and node.name == name for node in ast.walk(statement))
        ]

    def absolute(self, statement: ast.ImportFrom) -> str:
        """Return the full name of the module that a statement imports from."""
        if not statement.level:
            return statement.module or ""
        parts = self.name.split(".")
        kept = parts[: len(parts) - statement.level + self.is_package]
        return ".".join([*kept, *([statement.module] if statement.module else [])])


class _Modules:
    """Finds modules by their names, each once."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: dict[str, _Module | None] = {}

    def find(self, name: str) -> _Module | None:
        """Return a module; ``None`` if there is none, or it has no file. Packages around it are imported."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    @staticmethod
    def _find(name: str) -> _Module | None:
        """Look for a module where Python would."""
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, AttributeError, ValueError):
            return None  # a name in a module, or a module of this process without a file
        if spec is None or spec.origin is None or not Path(spec.origin).is_file():
            return None
        return _Module(name, Path(spec.origin), spec.submodule_search_locations is not None)

    def share_package(self, module: _Module, name: str) -> bool:
        """Tell whether a module belongs to the package of another one; see :func:`definitions_sha256`.

        Args:
            module: The other one.
            name: Full name of the module, or of something in it.
        """
        depth = 2 if module.name.startswith("ledger_lab.") else 1
        if module.name.split(".")[:depth] == name.split(".")[:depth]:
            return True
        if "." in module.name or module.is_package or module.path.parent.name in _INSTALLED:
            return False
        top = self.find(name.partition(".")[0])
        return top is not None and module.path.parent == top.path.parents[1 if top.is_package else 0]


def _targets(module: _Module, definition: ast.stmt, own: str, modules: _Modules) -> Iterator[tuple[str, str]]:
    """Yield the modules and names in its own package that a statement refers to.

    Args:
        module: The module of the statement.
        definition: The statement.
        own: The name that it binds.
        modules: Known modules.
    """
    if isinstance(definition, ast.Import | ast.ImportFrom):
        yield from _imported(module, definition, own, [], modules)
        return
    local: dict[str, list[ast.stmt]] = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in _bound(node):
                local.setdefault(name, []).append(node)
    for name, attributes in _references(definition):
        for statement in [*local.get(name, []), *module.bindings.get(name, [])]:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                yield from _imported(module, statement, name, attributes, modules)
            elif statement is not definition:
                yield module.name, name
        if name not in module.bindings and name not in local:
            yield from ((star, name) for star in module.stars if modules.share_package(module, star))


def _imported(
    module: _Module, statement: ast.Import | ast.ImportFrom, name: str, attributes: list[str], modules: _Modules
) -> Iterator[tuple[str, str]]:
    """Yield the module and the name that an imported name and its attributes stand for.

    Args:
        module: The module of the statement.
        statement: The statement that imports the name.
        name: The name.
        attributes: Attributes of it that are read, outermost last.
        modules: Known modules.
    """
    for alias in statement.names:
        bound = alias.asname or (alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name)
        if bound != name:
            continue
        if isinstance(statement, ast.ImportFrom):
            path = [*module.absolute(statement).split("."), alias.name, *attributes]
        else:
            path = [*(alias.name if alias.asname else bound).split("."), *attributes]
        if not modules.share_package(module, ".".join(path)):
            continue
        for length in range(len(path) - 1, 0, -1):
            if modules.find(".".join(path[:length])) is not None:
                yield ".".join(path[:length]), path[length]
                break


def _references(definition: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Yield the names that a statement reads, each with the attributes that are read of it."""
    inner: set[int] = set()
    for node in ast.walk(definition):  # an attribute comes before what it is an attribute of
        if id(node) in inner:
            continue
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
            inner.add(id(node))
        if isinstance(node, ast.Name):
            yield node.id, attributes


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, with those within conditions and other blocks, but not within functions and classes.

    What is imported for annotations only does not exist when the code runs, and is left out.
    """
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test).endswith("TYPE_CHECKING"):
            yield from _top_level(statement.orelse)
        elif isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.TryStar):
            blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            blocks += [handler.body for handler in getattr(statement, "handlers", [])]
            for block in blocks:
                yield from _top_level(block)
        else:
            yield statement


def _bound(statement: ast.stmt) -> list[str]:
    """Return the names that a statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [alias.asname or alias.name for alias in statement.names if alias.name != "*"]
    if isinstance(statement, ast.TypeAlias):
        return [statement.name.id]
    # An assignment; one to an attribute or an item changes the object of that name.
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [
        node.id for target in targets if target is not None for node in ast.walk(target) if isinstance(node, ast.Name)
    ]


def _hash(nodes: list[Any]) -> str:
    """Return the hash of syntax trees without docstrings and places; all versions of Python give the same."""
    tokens: list[str] = []
    waiting: list[Any] = [nodes]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            tokens.append(f"list {len(node)}")
            waiting += reversed(node)
        elif isinstance(node, ast.AST):
            fields = {name: value for name, value in ast.iter_fields(node) if name not in _WITHOUT_MEANING}
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                fields["body"] = node.body[1:]
            given = [(name, value) for name, value in fields.items() if value not in (None, [])]
            tokens.append(f"{type(node).__name__} {len(given)}")
            for name, value in given:
                waiting += [value, name]
        else:
            tokens.append(repr(node))
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()
