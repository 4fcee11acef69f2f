"""Configurations are equal as plain values if they do the same, and the code that a score depends on counts."""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import torch
import warp as wp

from ledger_lab.panels import Panel, PanelIdentity, find_panels, load_panel
from ledger_lab.tasks.registry import registered_tasks
from ledger_lab.training.runners.configs import resolve_configs
from ledger_lab.training.runners.description import (
    code_sha256,
    config_sha256,
    plain_config,
    policy_code,
    scoring_code,
)

TASK = "Acme-Parking"
FILES = {
    "acme_park/__init__.py": "",
    "acme_park/success.py": "from .limits import LIMIT\ndef parked(env, scale):\n    return env.x < LIMIT * scale\n",
    "acme_park/limits.py": "LIMIT = 0.2\n",
    "acme_park/terms.py": "def height(env):\n    return env.height\n",
    "acme_park/rewards.py": "def fast(env):\n    return env.speed\n",
    "acme_actor/__init__.py": "from acme_actor.networks import Actor\n",
    "acme_actor/networks.py": "from .layers import SIZE\nclass Actor:\n    pass\n",
    "acme_actor/layers.py": "SIZE = 32\n",
    "beside.py": "import beside_limits\ndef parked(env):\n    return env.x < beside_limits.LIMIT\n",
    "beside_limits.py": "LIMIT = 0.2\n",
    "unrelated.py": "LIMIT = 0.2\n",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a task's package, a package with an actor, and a success function beside the panel file."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    registered_tasks()
    ours = gym.spec("LedgerLab-Cartpole")
    gym.register(id=TASK, entry_point=ours.entry_point, kwargs=dict(ours.kwargs))
    yield tmp_path
    gym.registry.pop(TASK)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("acme_park", "acme_actor", "beside")]:
        sys.modules.pop(name)


def edit(file: Path, old: str, new: str) -> None:
    """Replace a part of a file."""
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def panel_of(function: str, **params: Any) -> Panel:
    """Return a panel of the task."""
    return replace(load_panel("cartpole_v1"), task=TASK, success_function=function, success_params=params)


def configs() -> tuple[Any, Any]:
    """Return the configurations of the task, with terms of the package."""
    env_cfg, agent_cfg = resolve_configs(TASK, "rsl_rl", [])
    terms, rewards = (importlib.import_module(f"acme_park.{name}") for name in ("terms", "rewards"))
    env_cfg.terminations.low = type(env_cfg.terminations.time_out)(func=terms.height)
    reward = next(iter(vars(env_cfg.rewards).values()))
    env_cfg.rewards.fast = type(reward)(func=rewards.fast, weight=1.0)
    return env_cfg, agent_cfg


def identity(panel: Panel) -> str:
    """Return the id of a panel, in no particular simulation."""
    return PanelIdentity.of(panel, {"code": scoring_code(panel, configs()[0])}).id


@pytest.mark.parametrize(
    ("file", "old", "new", "same"),
    [
        ("success.py", "env.x <", "env.x <=", False),
        ("limits.py", "0.2", "1.2", False),
        ("terms.py", "env.height", "-env.height", False),
        ("rewards.py", "env.speed", "-env.speed", True),
        ("limits.py", "0.2", "0.2  # rad", True),
    ],
)
def test_a_panel_has_another_identity_if_the_code_that_scores_differs(
    site: Path, file: str, old: str, new: str, same: bool
) -> None:
    panel = panel_of("acme_park.success:parked", scale=1.0)
    before = identity(panel)
    edit(site / "acme_park" / file, old, new)
    assert (identity(panel) == before) == same


def test_modules_beside_the_panel_file_count(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(site)])
    path = site / "park.toml"
    text = find_panels()["cartpole_v1"].read_text().replace("LedgerLab-Cartpole", TASK)
    path.write_text(text.replace("ledger_lab.tasks.cartpole.success:pole_upright", "beside:parked"))
    panel = replace(load_panel(str(path)), success_params={})
    env_cfg, _ = resolve_configs(TASK, "rsl_rl", [])
    before = scoring_code(panel, env_cfg)
    assert set(before) == {"beside", "beside_limits"}
    edit(site / "beside_limits.py", "0.2", "1.2")
    after = scoring_code(panel, env_cfg)
    assert [name for name in before if before[name] != after[name]] == ["beside_limits"]
    assert scoring_code(replace(panel, success_function="nowhere:parked"), env_cfg) == {}, "--no_eval needs none"


def test_what_a_lambda_calls_counts(site: Path) -> None:
    env_cfg, _ = configs()
    namespace: dict[str, Any] = {"__name__": "acme_park.terms"}
    exec("high = lambda env: height(env)", namespace)  # noqa: S102 - as in a module of the user
    env_cfg.terminations.low.func = namespace["high"]
    panel = panel_of("acme_park.success:parked", scale=1.0)
    before = scoring_code(panel, env_cfg)
    assert "acme_park.terms" in before
    edit(site / "acme_park" / "terms.py", "env.height", "-env.height")
    assert scoring_code(panel, env_cfg) != before


@pytest.mark.parametrize("name", ["acme_actor.networks:Actor", "acme_actor.networks.Actor"])
def test_an_actor_of_the_user_is_code_of_the_policy(site: Path, name: str) -> None:
    env_cfg, agent_cfg = configs()
    assert policy_code(TASK, env_cfg, agent_cfg) == {}
    agent_cfg.actor.class_name = name
    before = policy_code(TASK, env_cfg, agent_cfg)
    assert set(before) == {"acme_actor.networks", "acme_actor.layers"}
    assert "acme_actor" in code_sha256(TASK, env_cfg, agent_cfg)
    edit(site / "acme_actor" / "layers.py", "32", "64")
    after = policy_code(TASK, env_cfg, agent_cfg)
    assert [each for each in before if before[each] != after[each]] == ["acme_actor.layers"]
    panel = panel_of("acme_park.success:parked", scale=1.0)
    assert "acme_actor.layers" not in scoring_code(panel, env_cfg), "a panel is the same for all policies"


def test_a_module_of_ledger_lab_that_moves_changes_no_hash_of_others() -> None:
    from ledger_lab.ledger.source import source_sha256
    from ledger_lab.training.runners.description import plain_sha256

    texts = (b"from ledger_lab.panels.a import f", b"from ledger_lab.panels.b import f", b"from acme.a import f")
    assert len({source_sha256(text) for text in texts}) == 2
    terms = ("ledger_lab.tasks.a:f", "ledger_lab.tasks.deep.b:f", "ledger_lab.tasks.a:g", "acme.a:f", "acme.b:f")
    assert len({plain_sha256({"func": term}) for term in terms}) == 4


def limit_of(env: float, limit: float) -> bool:
    """A term that can be found by its name."""
    return env < limit


def made(limit: float) -> Callable[[float], bool]:
    """Return a term that holds a value."""

    def within(env: float) -> bool:
        return limit_of(env, limit)

    return within


def recursive() -> Callable[[int], int]:
    """Return a term that holds itself."""

    def count(n: int) -> int:
        return 0 if n == 0 else 1 + count(n - 1)

    return count


class Term:
    """A term that is an object."""

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, env: float) -> bool:
        return env < self.limit

    def check(self, env: float) -> bool:
        """A term that is a method."""
        return env < self.limit


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("limit",)

    def __init__(self, limit: float) -> None:
        self.limit = limit


@dataclass
class Settings:
    """A configuration."""

    func: Any = limit_of
    params: dict[str, Any] = field(default_factory=dict)


LARGE = torch.zeros(4000)
OTHER = LARGE.clone()
OTHER[2000] = 1.0

PAIRS: dict[str, tuple[Any, Any, Any]] = {
    "closure": (made(0.2), made(0.2), made(1.2)),
    "lambda": (lambda env: limit_of(env, 0.2), lambda env: limit_of(env, 0.2), lambda env: limit_of(env, 1.2)),
    "lambda's default": (lambda env, x=1: x, lambda env, x=1: x, lambda env, x=2: x),
    "nested code": (
        lambda env: [x < 1 for x in env],
        lambda env: [x < 1 for x in env],
        lambda env: [x > 1 for x in env],
    ),
    "partial": (*(functools.partial(limit_of, limit=x) for x in (0.2, 0.2, 1.2)),),
    "object": (Term(0.2), Term(0.2), Term(1.2)),
    "method": (Term(0.2).check, Term(0.2).check, Term(1.2).check),
    "slots": (Slotted(0.2), Slotted(0.2), Slotted(1.2)),
    "large tensor": (LARGE, LARGE.clone(), OTHER),
    "type of a tensor": (torch.zeros(2), torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
    "shape of a tensor": (torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3, 2)),
    "half precision": (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16), torch.ones(2)),
    "scalar tensor": (torch.tensor(0.2), torch.tensor(0.2), torch.tensor(1.2)),
    "large array": (LARGE.numpy(), LARGE.numpy().copy(), OTHER.numpy()),
    "warp array": (*(wp.array(x, dtype=float, device="cpu") for x in ([0.2], [0.2], [1.2])),),
    "set": ({"a", "b", "c"}, {"c", "b", "a"}, {"a", "b"}),
    "frozen set": (frozenset({(1, 2), (3, 4)}), frozenset({(3, 4), (1, 2)}), frozenset({(1, 2)})),
    "functions in a list": ([made(0.2), limit_of], [made(0.2), limit_of], [made(1.2), limit_of]),
    "type": (Term, Term, Slotted),
    "slice": (slice(None), slice(None), slice(1)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_does_the_same_is_equal_and_what_does_not_differs(name: str) -> None:
    one, same, other = (config_sha256(Settings(params={"value": value}), without=()) for value in PAIRS[name])
    assert one == same
    assert one != other


def test_what_a_name_tells_wholly_stays_a_name() -> None:
    assert plain_config(Settings()) == {"func": f"{__name__}:limit_of", "params": {}}
    assert plain_config([Term, torch.nn.functional.elu, MISSING, types]) == [
        *(f"{__name__}:Term", "torch.nn.functional:elu", {}, "types")
    ]


SCRIPT = """
import torch
from ledger_lab.training.runners.description import config_sha256
class Local:
    pass
names = {"params": {"names": {"FL", "FR", "RL", "RR"}, "held": frozenset({("a", 1), ("b", 2)}), "other": Local(),
         "stream": torch.Generator(), "func": lambda env: env in {"x", "y", "z"}}}
found = config_sha256(names, without=())
print(found)
"""


def test_every_process_gives_the_same_hash() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(SCRIPT, namespace)  # noqa: S102 - the same program in this process
    environ = {**os.environ, "PYTHONHASHSEED": "1"}
    other = subprocess.run([sys.executable, "-c", SCRIPT], env=environ, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == namespace["found"]
