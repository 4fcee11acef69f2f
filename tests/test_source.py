"""Source is hashed by what it computes, and references are followed within their own package."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

from ledger_lab.source import definitions_sha256, source_sha256

FILES = {
    "acme_code/__init__.py": "from acme_code.success import near\n",
    "acme_code/success.py": """
        from __future__ import annotations
        import math
        from typing import TYPE_CHECKING
        import acme_code.limits
        from . import shapes
        from .limits import *
        if TYPE_CHECKING:
            from .unused import Env

        def near(env: Env) -> bool:
            \"\"\"Tell.\"\"\"
            from .late import scale
            return abs(shapes.height(env)) < acme_code.limits.WIDE * scale(HALF) + math.pi

        def made():
            def inner(env):
                return env
            return inner

        class Ball(shapes.Round):
            def volume(self):
                return 4.2
        """,
    "acme_code/shapes.py": """
        STATE = {}
        STATE["a"] = 1
        def height(env):
            return _top(env)
        def _top(env):
            return env.top * STATE["a"]
        def unrelated():
            return 1
        class Round:
            pass
        """,
    "acme_code/limits.py": "WIDE = 3.0\ntry:\n    import missing_here\nexcept ImportError:\n    HALF = 0.5\n",
    "acme_code/late.py": "def scale(x):\n    return x\n",
    "acme_code/unused.py": "class Env:\n    pass\n",
    "acme_single.py": "import acme_helper\nimport json\ndef ok(env):\n    return acme_helper.f(json.dumps(env))\n",
    "acme_helper.py": "def f(x):\n    return x\n",
}
NEAR = {
    *("acme_code.success:near", "acme_code.shapes:height", "acme_code.shapes:_top", "acme_code.shapes:STATE"),
    *("acme_code.limits:WIDE", "acme_code.limits:HALF", "acme_code.late:scale"),
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


def test_references_are_followed_within_the_package(site: Path) -> None:
    assert set(definitions_sha256(["acme_code.success:near"])) == NEAR
    assert set(definitions_sha256(["acme_code:near"])) == NEAR, "a name that a package passes on"
    assert set(definitions_sha256(["acme_code.success:Ball"])) == {"acme_code.success:Ball", "acme_code.shapes:Round"}


def test_the_files_beside_a_single_module_are_its_package(site: Path) -> None:
    assert set(definitions_sha256(["acme_single:ok"])) == {"acme_single:ok", "acme_helper:f"}


def test_only_the_definition_that_changed_differs(site: Path) -> None:
    before = definitions_sha256(["acme_code.success:near"])
    edited(site / "acme_code" / "shapes.py", "return _top(env)", "return -_top(env)")
    edited(site / "acme_code" / "shapes.py", "return 1", "return 2")
    edited(site / "acme_code" / "limits.py", "3.0", "9.0")
    after = definitions_sha256(["acme_code.success:near"])
    assert {name for name in NEAR if before[name] != after[name]} == {
        "acme_code.shapes:height",
        "acme_code.limits:WIDE",
    }


def test_comments_docstrings_and_layout_do_not_count(site: Path) -> None:
    before = definitions_sha256(["acme_code.success:near"])
    file = site / "acme_code" / "success.py"
    edited(file, '    """Tell."""\n', '    """Tell, in more\n    words."""\n    # and why\n\n')
    edited(file, "abs(shapes.height(env)) < ", "abs(\n        shapes.height( env ),\n    ) < ")
    assert definitions_sha256(["acme_code.success:near"]) == before
    assert source_sha256(b"x = 1  # one\n") == source_sha256(b"'''Doc.'''\n\nx = (1)\n")
    assert len({source_sha256(text) for text in (b"x = 1", b"x = 1.0", b"x = True", b"x = '1'", b"x = (", b"")}) == 6


def test_a_name_that_is_not_at_the_top_level_stands_for_what_contains_it(site: Path) -> None:
    before = definitions_sha256(["acme_code.success:inner", "acme_code.success:volume", "acme_code.success:nowhere"])
    assert set(before) == {f"acme_code.success:{name}" for name in ("inner", "volume", "nowhere")} | {
        "acme_code.shapes:Round"
    }
    edited(site / "acme_code" / "success.py", "4.2", "4.3")
    after = definitions_sha256(before)
    assert {name for name in before if before[name] != after[name]} == {
        "acme_code.success:volume",
        "acme_code.success:nowhere",
    }
    assert definitions_sha256(["sha256:abc", "acme_code.absent:f", "no_such_package:f"]) == {}
