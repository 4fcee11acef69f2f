"""The figures of the published rates in ``docs/generated``, made by the code that draws the figures of a ledger.

``python -m tools.figures FOLDER`` writes them as SVG files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ledger_lab.reports.figures import Drawing, draw_published, save_drawings
from ledger_lab.scaling.published import read_published


def published_drawings() -> Iterator[Drawing]:
    """Return the figures of the published rates, one per task."""
    return (draw_published(study) for study in read_published().studies)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the figures.

    Args:
        argv: Command line without the program's name.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the SVG files: docs/generated")
    for path in save_drawings(parser.parse_args(argv).folder, published_drawings(), ["svg"]):
        print(path)


if __name__ == "__main__":
    main()
