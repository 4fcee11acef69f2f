"""Modules are hashed by what they compute, with the modules that they import from their own packages."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

from ledger_lab.ledger.source import modules_sha256, source_sha256

FILES = {
    "acme_code/__init__.py": "from acme_code.success import near\n",
    "acme_code/success.py": """
        from __future__ import annotations
        import math
        from typing import TYPE_CHECKING
        import acme_code.deep.limits
        from . import shapes
        from .deep.wide import *
        if TYPE_CHECKING:
            from .unused import Env

        def near(env: Env) -> bool:
            \"\"\"Tell.\"\"\"
            from .late import scale
            return abs(shapes.height(env)) < acme_code.deep.limits.WIDE * scale(HALF) + math.pi
        """,
    "acme_code/shapes.py": "def height(env):\n    return env.top\n",
    "acme_code/deep/__init__.py": "",
    "acme_code/deep/limits.py": "WIDE = 3.0\ntry:\n    import missing_here\nexcept ImportError:\n    pass\n",
    "acme_code/deep/wide.py": "from ..numbers import HALF\n",
    "acme_code/numbers.py": "HALF = 0.5\n",
    "acme_code/late.py": "def scale(x):\n    return x\n",
    "acme_code/unused.py": "class Env:\n    pass\n",
    "acme_code/rewards.py": "from . import success\ndef fast(env):\n    return env.speed\n",
    "acme_single.py": "import acme_helper\nimport acme_code.late\nimport json\n",
    "acme_helper.py": "def f(x):\n    return x\n",
}
NEAR = {
    *("acme_code", "acme_code.success", "acme_code.shapes", "acme_code.deep", "acme_code.deep.limits"),
    *("acme_code.deep.wide", "acme_code.numbers", "acme_code.late"),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to import from, with a package and with single modules."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        monkeypatch.delitem(sys.modules, name)  # of an earlier test, in another folder
    return tmp_path


def edited(file: Path, old: str, new: str) -> None:
    """Replace a part of a file."""
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_imports_are_followed_within_the_package(site: Path) -> None:
    assert set(modules_sha256(["acme_code.success"])) == NEAR, "neither types nor rewards"
    assert set(modules_sha256(["acme_code.rewards"])) == {*NEAR, "acme_code.rewards"}
    assert set(modules_sha256(["acme_code.late"])) == {"acme_code.late"}


def test_everything_beside_a_single_module_is_its_package(site: Path) -> None:
    assert set(modules_sha256(["acme_single"])) == {"acme_single", "acme_helper", *NEAR}
    assert set(modules_sha256(["acme_helper"])) == {"acme_helper"}


def test_only_the_module_that_changed_differs(site: Path) -> None:
    before = modules_sha256(["acme_code.success"])
    edited(site / "acme_code" / "numbers.py", "0.5", "0.75")
    edited(site / "acme_code" / "rewards.py", "env.speed", "-env.speed")
    after = modules_sha256(["acme_code.success"])
    assert [name for name in NEAR if before[name] != after[name]] == ["acme_code.numbers"]


def test_comments_docstrings_and_layout_do_not_count(site: Path) -> None:
    before = modules_sha256(["acme_code.success"])
    file = site / "acme_code" / "success.py"
    edited(file, '    """Tell."""\n', '    """Tell, in more\n    words."""\n    # and why\n\n')
    edited(file, "abs(shapes.height(env)) < ", "abs(\n        shapes.height( env ),\n    ) < ")
    assert modules_sha256(["acme_code.success"]) == before
    assert source_sha256(b"x = 1  # one\n") == source_sha256(b"'''Doc.'''\n\nx = (1)\n")
    assert len({source_sha256(text) for text in (b"x = 1", b"x = 1.0", b"x = True", b"x = '1'", b"x = (", b"")}) == 6


def test_modules_without_a_file_are_left_out(site: Path) -> None:
    assert modules_sha256(["sha256", "acme_code.absent", "no_such_package", "builtins"]) == {}
