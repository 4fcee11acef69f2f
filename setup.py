"""Installs LedgerLab; all metadata comes from extension.toml."""

import shutil
import tomllib
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PACKAGE = tomllib.loads((ROOT / "extension.toml").read_text(encoding="utf-8"))["package"]


class BuildWithConfig(build_py):
    """Ships ``config/`` inside the package; an editable install reads it where it lies."""

    def run(self) -> None:
        """Build the package, then add the data folder."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib, "ledger_lab", "config")
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / "config", target, ignore=shutil.ignore_patterns("extension.toml"))


setup(
    name="ledger_lab",
    version=PACKAGE["version"],
    description=PACKAGE["description"],
    author=PACKAGE["author"],
    maintainer=PACKAGE["maintainer"],
    keywords=PACKAGE["keywords"],
    license="BSD-3-Clause AND Apache-2.0 AND MPL-2.0",  # the robots keep their publishers'
    python_requires=">=3.12,<3.13",
    packages=find_packages("source"),
    package_dir={"": "source"},
    package_data={"ledger_lab": ["**/*"]},
    exclude_package_data={"ledger_lab": ["**/*.pyc"]},
    cmdclass={"build_py": BuildWithConfig},
    entry_points={"isaaclab.tasks": ["ledger_lab = ledger_lab.tasks.registered"]},
    # Ledger, costs and reports work where neither torch nor Isaac Lab is installed.
    install_requires=[
        "duckdb",
        "jinja2",
        "markupsafe",
        "msgspec",
        "numpy",
        "nvidia-ml-py",
        "orjson",
        "plotly",
        "psutil",
        "rich",
        "scipy",
    ],
    extras_require={
        "figures": ["matplotlib"],
        "mlflow": ["mlflow-skinny"],
        "ray": ["ray"],
        "search": ["optuna>=5,<6"],
        "serve": ["starlette", "uvicorn"],
        "sim": ["isaaclab[ovphysx,rsl-rl,skrl]==3.0.*", "rl-games==1.6.5", "gym==0.26.2", "moviepy<2"],
        "tensorboard": ["tensorboard"],
        "wandb": ["wandb"],
    },
)
