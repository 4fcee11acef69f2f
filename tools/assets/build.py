"""Writes the USD files that the package ships.

After a change to an asset, run this module and commit the files that it writes::

    ./isaaclab.sh -p -m tools.assets.build
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ledger_lab.errors import UserError
from ledger_lab.tasks.assets import ASSET_ROOT
from tools.assets.ant import write_ant
from tools.assets.cartpole import write_cartpole
from tools.assets.ground import write_ground, write_pillars
from tools.assets.robots import ROBOTS, write


def main(argv: Sequence[str] | None = None) -> int:
    """Write every asset into a folder.

    Args:
        argv: Command line without the program's name; the process's own by default.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Write the USD assets of LedgerLab.")
    parser.add_argument("--output", type=Path, default=ASSET_ROOT, help="Folder to write to (default: the package's).")
    output = parser.parse_args(argv).output
    try:
        write_all(output)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def write_all(output: Path) -> None:
    """Write every asset.

    Args:
        output: Folder to write to.

    Raises:
        UserError: If a description can't be read.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_ant(folder / "ant.usda")
        write_cartpole(folder / "cartpole.usda")
        write_ground(folder / "ground.usda")
        write_pillars(folder / "pillars.usda")
        for name in ROBOTS:
            write(name, folder / f"{name}.usda")
        output.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():  # all of them, or none
            shutil.copyfile(path, output / path.name)


if __name__ == "__main__":
    sys.exit(main())
