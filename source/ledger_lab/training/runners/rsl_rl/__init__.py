"""RSL-RL: its configuration dialect and its adapter."""

import os

# RSL-RL imports GitPython, which refuses to be imported on a machine without git. LedgerLab does not use it.
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
