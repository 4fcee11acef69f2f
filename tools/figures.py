"""The figure of recorded runs in ``docs/generated``, as ``report.py scaling`` draws it.

``python -m tools.figures FOLDER`` writes it as an SVG file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.ledger import read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.studies.scaling.drawing import Drawing, save_drawings
from ledger_lab.studies.scaling.figures import draw_ledger

_RECORDS = Path(__file__).parents[1] / "records"
_FOLDER = "processes-cpu"
"""Records with the runs of :data:`_RECORDED`."""
_RECORDED = "ledgerlab-cartpole-rsl-rl-strong"
"""Name of the figure of recorded runs."""


def recorded_drawing() -> Drawing:
    """Return rate and time to the target of the cart-pole with RSL-RL in one and in two processes."""
    runs = read_ledger(_RECORDS / _FOLDER).runs
    drawings = draw_ledger(runs, [summarize_run(run) for run in runs])
    return next(drawing for drawing in drawings if drawing.name == _RECORDED)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the figure.

    Args:
        argv: Command line without the program's name.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the SVG file: docs/generated")
    for path in save_drawings(parser.parse_args(argv).folder, [recorded_drawing()], ["svg"]):
        print(path)


if __name__ == "__main__":
    main()
