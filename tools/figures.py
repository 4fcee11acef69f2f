"""The figures of published rates and of recorded runs in ``docs/generated``, as ``report.py scaling`` draws them.

``python -m tools.figures FOLDER`` writes them as SVG files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ledger_lab.ledger import read_ledger
from ledger_lab.reports import summarize_run
from ledger_lab.reports.figures import Drawing, save_drawings
from ledger_lab.studies.figures.scaling import draw_ledger, draw_published
from ledger_lab.studies.scaling.published import read_published

_RECORDS = Path(__file__).parents[1] / "records"
_FOLDER = "processes-cpu"
"""Records with the runs of :data:`_RECORDED`."""
_RECORDED = "ledgerlab-cartpole-rsl-rl-strong-time"
"""Name of the figure of recorded runs."""


def published_drawings() -> Iterator[Drawing]:
    """Return the figures of the published rates, one per task."""
    return (draw_published(study) for study in read_published().studies)


def recorded_drawing() -> Drawing:
    """Return the time to the target of the cart-pole with RSL-RL in one and in two processes."""
    runs = read_ledger(_RECORDS / _FOLDER).runs
    groups = draw_ledger(runs, [summarize_run(run) for run in runs])
    return next(drawing for group in groups for drawing in group.drawings if drawing.name == _RECORDED)


def main(argv: Sequence[str] | None = None) -> None:
    """Write the figures.

    Args:
        argv: Command line without the program's name.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the SVG files: docs/generated")
    for path in save_drawings(parser.parse_args(argv).folder, [*published_drawings(), recorded_drawing()], ["svg"]):
        print(path)


if __name__ == "__main__":
    main()
