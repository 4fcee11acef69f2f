"""Hashes Python modules by what they compute: comments, docstrings and layout do not count."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_MEANING = ("kind", "type_comment")
"""Fields of a syntax tree that do not change what the code computes."""
_CONFIGURING = (".env_cfg", ".recipe")
"""Modules of LedgerLab's tasks that only make configurations, which are hashed themselves."""
_INSTALLED = ("site-packages", "dist-packages")
"""Folders in which modules of unrelated projects are side by side."""


def source_sha256(source: bytes) -> str:
    """Return the hash of Python source; of a compiled file or a file with a syntax error, the hash of its bytes.

    Args:
        source: Content of a file.
    """
    tree = _parsed(source)
    return hashlib.sha256(source).hexdigest() if tree is None else _hash([tree])


def modules_sha256(names: Iterable[str]) -> dict[str, str]:
    """Return the hashes of modules, and of all modules that they import from their own packages.

    The package of a module is its top-level package; of a single file, everything in its folder; of the tasks of
    LedgerLab, the folder of the task. Imports are found by reading the source, also those inside of functions.

    Args:
        names: Full names of modules. Names of modules that have no file are left out.

    Returns:
        Hashes by the full names of the modules.
    """
    waiting = list(names)
    packages = {_package(name) for name in waiting}
    specs = {name: spec for name in waiting if (spec := _find(name)) is not None}
    folders = {
        Path(str(spec.origin)).parent
        for name, spec in specs.items()
        if "." not in name and spec.submodule_search_locations is None
    }
    folders = {folder for folder in folders if folder.name not in _INSTALLED}
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        if name in found or (spec := _find(name)) is None:
            continue
        is_package = spec.submodule_search_locations is not None
        if name.startswith("ledger_lab.") and (is_package or name.endswith(_CONFIGURING)):
            continue
        source = Path(str(spec.origin)).read_bytes()
        found[name] = source_sha256(source)
        package = name if is_package else name.rpartition(".")[0]
        waiting += [
            each for each in _imports(source, package) if _package(each) in packages or _folder(each) in folders
        ]
    return dict(sorted(found.items()))


def _package(name: str) -> str:
    """Return the package to which the imports of a module are followed."""
    return ".".join(name.split(".")[: 3 if name.startswith("ledger_lab.") else 1])


def _find(name: str) -> ModuleSpec | None:
    """Look for a module where Python would; ``None`` without a file. Packages around it are imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError):
        return None  # a name in a module, or a module of this process without a file
    return None if spec is None or spec.origin is None or not Path(spec.origin).is_file() else spec


def _folder(name: str) -> Path | None:
    """Return the folder that contains the top-level module or package of a module; ``None`` without a file."""
    spec = _find(name.partition(".")[0])
    return None if spec is None else Path(str(spec.origin)).parents[spec.submodule_search_locations is not None]


def _imports(source: bytes, package: str) -> Iterator[str]:
    """Yield the full names of everything that a module imports when it runs: modules, and names in modules.

    Args:
        source: Its source.
        package: The package that its relative imports start from.
    """
    waiting: list[ast.AST] = [tree] if (tree := _parsed(source)) is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse  # the rest is for annotations, and does not exist when the code runs
        elif isinstance(node, ast.Import):
            for parts in (alias.name.split(".") for alias in node.names):
                yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))
        else:
            waiting += ast.iter_child_nodes(node)


def _parsed(source: bytes) -> ast.Module | None:
    """Return a syntax tree; ``None`` if the source is compiled, or can't be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


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
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ledger_lab."):
                del fields["module"]  # so that moving a module of LedgerLab changes no hash of others
            if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                fields["body"] = node.body[1:]
            given = [(name, value) for name, value in fields.items() if value not in (None, [])]
            tokens.append(f"{type(node).__name__} {len(given)}")
            for name, value in given:
                waiting += [value, name]
        else:
            tokens.append(repr(node))
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()
