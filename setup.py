"""Isaac Lab's tools look for this file; everything is in pyproject.toml."""

from setuptools import setup

setup()
