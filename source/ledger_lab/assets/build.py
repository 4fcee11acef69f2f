"""Writes the USD files of this folder.

Run it after a change to one of the assets and commit what it writes::

    ./isaaclab.sh -p -m ledger_lab.assets.build
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ledger_lab.assets import ASSET_ROOT
from ledger_lab.assets.ant import write_ant
from ledger_lab.assets.cartpole import write_cartpole
from ledger_lab.assets.ground import write_ground, write_pillars
from ledger_lab.assets.robots import ROBOTS, write


def main() -> None:
    """Write every asset into a folder."""
    parser = argparse.ArgumentParser(description="Write the USD assets of LedgerLab.")
    parser.add_argument("--output", type=Path, default=ASSET_ROOT, help="Folder to write to (default: the package's).")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    write_ant(output / "ant.usda")
    write_cartpole(output / "cartpole.usda")
    write_ground(output / "ground.usda")
    write_pillars(output / "pillars.usda")
    for name in ROBOTS:
        write(name, output / f"{name}.usda")


if __name__ == "__main__":
    main()
