"""The figure in the documentation is the one that the code draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tools.figures import recorded_drawing

GENERATED = Path(__file__).parents[2] / "docs" / "generated"


def words_and_marks(svg: bytes) -> list[str]:
    """Return the texts and marks of a picture, which don't depend on the version of Matplotlib."""
    found = []
    for each in ElementTree.fromstring(svg).iter():
        found += [each.get("id", "")] if each.get("id", "").startswith("run-") else []
        found += ["".join(each.itertext())] if each.tag.endswith("}text") else []
    return found


def test_the_figure_in_the_documentation_is_current() -> None:
    drawing = recorded_drawing()
    written = (GENERATED / f"{drawing.name}.svg").read_bytes()
    assert words_and_marks(written) == words_and_marks(drawing.render("svg")), "python -m tools.figures docs/generated"
