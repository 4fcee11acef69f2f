"""A task from the package of a user is found through its entry point, trained and judged without other code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ledger_lab.errors import UserError
from ledger_lab.ledger import PanelResult, find_journals, read_journal, read_ledger
from ledger_lab.panels import load_panel
from ledger_lab.tasks.assets import CARTPOLE_USD
from tests.conftest import SHORT, script

TASK = "Acme-Park-v0"

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-tasks"
version = "1.0"

[project.entry-points."isaaclab.tasks"]
acme_tasks = "acme_tasks"
"""

REGISTRATION = """
import gymnasium as gym

gym.register(
    id="Acme-Park-v0",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.park:ParkEnvCfg",
        "rsl_rl_cfg_entry_point": f"{__name__}.park:ParkPPORunnerCfg",
    },
)
"""

CONFIGURATION = f"""
import functools

import isaaclab.envs.mdp as mdp
import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets import ArticulationCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import EventTermCfg as EventTerm
from isaaclab.managers import ObservationGroupCfg as ObsGroup
from isaaclab.managers import ObservationTermCfg as ObsTerm
from isaaclab.managers import RewardTermCfg as RewTerm
from isaaclab.managers import SceneEntityCfg
from isaaclab.managers import TerminationTermCfg as DoneTerm
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.utils import configclass
from isaaclab.utils.noise import UniformNoiseCfg as Unoise
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg
from isaaclab_rl.rsl_rl import RslRlMLPModelCfg, RslRlOnPolicyRunnerCfg, RslRlPpoAlgorithmCfg

CRANE = SceneEntityCfg("crane")
CART = SceneEntityCfg("crane", joint_names=["slider_to_cart"])


class Beyond:
    def __init__(self, limit: float) -> None:
        self.limit = limit

    def __call__(self, env, asset_cfg: SceneEntityCfg):
        return mdp.joint_pos_out_of_manual_limit(env, (-self.limit, self.limit), asset_cfg)


@configclass
class ParkSceneCfg(InteractiveSceneCfg):
    crane = ArticulationCfg(
        prim_path="{{ENV_REGEX_NS}}/Crane",
        spawn=sim_utils.UsdFileCfg(usd_path="{CARTPOLE_USD}"),
        init_state=ArticulationCfg.InitialStateCfg(joint_pos={{"cart_to_pole": 3.1}}),
        actuators={{"all": ImplicitActuatorCfg(joint_names_expr=[".*"], stiffness=0.0, damping=1.0)}},
    )


@configclass
class ActionsCfg:
    force = mdp.JointEffortActionCfg(asset_name="crane", joint_names=["slider_to_cart"], scale=50.0)


@configclass
class ObservationsCfg:
    @configclass
    class PolicyCfg(ObsGroup):
        positions = ObsTerm(
            func=mdp.joint_pos_rel, params={{"asset_cfg": CRANE}}, noise=Unoise(n_min=-0.01, n_max=0.01)
        )
        velocities = ObsTerm(
            func=mdp.joint_vel_rel, params={{"asset_cfg": CRANE}}, noise=Unoise(n_min=-0.1, n_max=0.1)
        )
        last_action = ObsTerm(func=functools.partial(mdp.last_action, action_name="force"))

        def __post_init__(self):
            self.enable_corruption = True

    policy: PolicyCfg = PolicyCfg()


@configclass
class EventCfg:
    load = EventTerm(
        func=mdp.randomize_rigid_body_mass,
        mode="startup",
        params={{
            "asset_cfg": SceneEntityCfg("crane", body_names="pole"),
            "mass_distribution_params": (0.8, 1.2),
            "operation": "scale",
        }},
    )
    start = EventTerm(
        func=functools.partial(mdp.reset_joints_by_offset, velocity_range=(0.0, 0.0)),
        mode="reset",
        params={{"asset_cfg": CART, "position_range": (-2.0, 2.0)}},
    )


@configclass
class RewardsCfg:
    alive = RewTerm(func=mdp.is_alive, weight=1.0)
    away = RewTerm(func=mdp.joint_pos_target_l2, weight=-1.0, params={{"asset_cfg": CART, "target": 0.0}})
    swinging = RewTerm(func=functools.partial(mdp.joint_vel_l1), weight=-0.05, params={{"asset_cfg": CRANE}})


@configclass
class TerminationsCfg:
    time_out = DoneTerm(func=mdp.time_out, time_out=True)
    off_the_rail = DoneTerm(func=Beyond(3.0), params={{"asset_cfg": CART}})


@configclass
class ParkEnvCfg(ManagerBasedRLEnvCfg):
    scene: ParkSceneCfg = ParkSceneCfg(num_envs=256, env_spacing=4.0)
    observations: ObservationsCfg = ObservationsCfg()
    actions: ActionsCfg = ActionsCfg()
    events: EventCfg = EventCfg()
    rewards: RewardsCfg = RewardsCfg()
    terminations: TerminationsCfg = TerminationsCfg()

    def __post_init__(self):
        self.decimation = 4
        self.episode_length_s = 1.0
        self.sim.dt = 0.005
        self.sim.physics = NewtonCfg(solver_cfg=MJWarpSolverCfg(njmax=20, nconmax=10))


@configclass
class ParkPPORunnerCfg(RslRlOnPolicyRunnerCfg):
    num_steps_per_env = 16
    max_iterations = 100
    save_interval = 50
    experiment_name = "acme_park"
    actor = RslRlMLPModelCfg(
        hidden_dims=[32, 32],
        activation="elu",
        distribution_cfg=RslRlMLPModelCfg.GaussianDistributionCfg(init_std=1.0),
    )
    critic = RslRlMLPModelCfg(hidden_dims=[32, 32], activation="elu")
    algorithm = RslRlPpoAlgorithmCfg(
        value_loss_coef=1.0,
        use_clipped_value_loss=True,
        clip_param=0.2,
        entropy_coef=0.005,
        num_learning_epochs=5,
        num_mini_batches=4,
        learning_rate=1.0e-3,
        schedule="adaptive",
        gamma=0.99,
        lam=0.95,
        desired_kl=0.01,
        max_grad_norm=1.0,
    )
"""

SUCCESS = """
import torch
from isaaclab.envs import ManagerBasedRLEnv


def position(env: ManagerBasedRLEnv) -> torch.Tensor:
    crane = env.scene["crane"]
    return crane.data.joint_pos.torch[:, crane.joint_names.index("slider_to_cart")]


def parked(env: ManagerBasedRLEnv, limit: float) -> torch.Tensor:
    return position(env).abs() <= limit


def of_wrong_type(env: ManagerBasedRLEnv, limit: float) -> torch.Tensor:
    return parked(env, limit).float()


def better_than_most(env: ManagerBasedRLEnv, limit: float) -> torch.Tensor:
    return position(env).abs() <= limit * position(env).abs().mean()
"""


@pytest.fixture(scope="module", autouse=True)
def _acme_tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the installed package, which only the programs of these tests search."""
    tree, site = tmp_path_factory.mktemp("acme"), tmp_path_factory.mktemp("site")
    (tree / "acme_tasks").mkdir()
    for name, text in (
        ("pyproject.toml", PROJECT),
        ("acme_tasks/__init__.py", REGISTRATION),
        ("acme_tasks/park.py", CONFIGURATION),
        ("acme_tasks/success.py", SUCCESS),
    ):
        (tree / name).write_text(text.lstrip())
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(tree)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        yield site


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The panel file that the helper writes for the task, with the parameter of its success function set."""
    file = tmp_path_factory.mktemp("panel") / "park.toml"
    function = "acme_tasks.success:parked"
    arguments = ["--task", TASK, "--seeds", "16", "--target", "0.5", "--success", function, "--output", file]
    finished = script("new_panel", *arguments)
    assert finished.returncode == 0, finished.stderr
    file.write_text(file.read_text().replace("# limit = 0.1", "limit = 0.5"))
    return file


@pytest.fixture(scope="module")
def parking(panel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Root of a ledger that holds one short training of the task."""
    log_root = tmp_path_factory.mktemp("parking")
    finished = script("train", "--task", TASK, "--panel", panel, *SHORT, "--log_root", log_root)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return log_root


def results(log_root: Path) -> list[PanelResult]:
    """Return the results in all journals under a root."""
    return [row for path in find_journals(log_root) for row in read_journal(path).of(PanelResult)]


def changed(panel: Path, folder: Path, old: str, new: str) -> Path:
    """Write a panel file that differs in one place."""
    assert old in panel.read_text()
    (folder / "changed.toml").write_text(panel.read_text().replace(old, new))
    return folder / "changed.toml"


def test_the_task_is_trained_and_judged(parking: Path, panel: Path) -> None:
    (run,) = read_ledger(parking).runs
    assert (run.declared.task, run.declared.rl_library, run.declared.panel) == (TASK, "rsl_rl", str(panel))
    assert list(run.declared.code_sha256) == ["ledger_lab", "acme_tasks"]
    assert {(row.panel, row.exactness) for row in run.results} == {("park", "bitwise")}
    checks = [row for row in run.results if row.purpose == "check"]
    assert checks[-1].checkpoint == "model_2.pt", "the last policy is judged"
    for row in checks:
        assert row.outcomes.seed == list(range(16))
        assert set(row.outcomes.ended_by) <= {"horizon", "off_the_rail"}


def test_changed_code_is_refused_by_name_and_recorded_if_allowed(parking: Path, panel: Path, _acme_tasks: Path) -> None:
    (run,) = read_ledger(parking).runs
    asked = [run.directory / "model_2.pt", "--device", "cpu"]
    finished = script("evaluate", *asked)
    assert finished.returncode == 2, "its panel is a file, whose success function is somebody's Python"
    assert f"if you trust the file, use --panel {panel} or --trust_run" in finished.stderr
    file = _acme_tasks / "acme_tasks" / "success.py"
    names = {"acme_tasks.park", "acme_tasks.success"}
    assert names == set(run.declared.scoring_code or {}) == set(run.declared.panel_fields["code"])
    original = file.read_text()
    try:
        file.write_text(
            original.replace("    return position(env).abs() <= limit\n", "    return position(env) <= -limit\n")
        )
        finished = script("evaluate", *asked, "--panel", panel)
        assert finished.returncode == 2 and len(finished.stderr.splitlines()) == 1
        assert f"has changed since run {run.run_id} was declared: acme_tasks.success. Restore" in finished.stderr
        finished = script("evaluate", *asked, "--trust_run", "--allow_changed_code")
        assert finished.returncode == 0, finished.stdout + finished.stderr
        assert f"note: code has changed since run {run.run_id} was declared: acme_tasks.success" in finished.stdout
        (row,) = [row for row in results(parking) if row.changed_code]
        assert list(row.changed_code) == ["acme_tasks.success"]
        assert row.panel_id != run.declared.panel_id, "another function is another exam"
    finally:
        file.write_text(original)


def test_other_scripts_accept_the_task(parking: Path) -> None:
    listed = script("list_envs", "--long", "--keyword", "acme")
    assert listed.returncode == 0, listed.stderr
    assert [line.split() for line in listed.stdout.splitlines()[:2]] == [[TASK], ["libraries", "rsl_rl"]]
    reported = script("report", "--log_root", parking)
    assert reported.returncode == 0, reported.stderr
    assert f"task {TASK}" in reported.stdout
    assert script("verify_ledger", "--log_root", parking).returncode == 0


def refused(program: str, *arguments: str | Path) -> str:
    """Run a program that gets as far as the simulation, and return the one line that it ends with."""
    finished = script(program, *arguments)
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stdout + finished.stderr
    (line,) = [line for line in finished.stdout.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.parametrize(
    ("success", "complaint"),
    [
        ("x[:, 0].abs() <= 0.1", None),
        ("x.norm(dim=-1) < 1.0", None),
        ("(x > 0).any(dim=1)", None),
        ("torch.max(x[:, 0], x[:, 1]) < 1.0", None),
        ("(x @ torch.ones(3, 1))[:, 0] > 0.0", None),
        ("x.sort(dim=1).values[:, 0] > 0.0", None),
        ("x > 0.0", r"torch.bool of shape \(64, 3\)"),
        ("(x[:, 0] > 0.0).float()", r"torch.float32 of shape \(64,\)"),
        ("(x > 0.0).all()", r"torch.bool of shape \(\)"),
        ("(x[:, 0] > 0.0).tolist()", "returns a list: it must return a tensor"),
        ("x[:, 3] > 0.0", "fails in Acme-Park-v0: IndexError"),
    ],
)
def test_a_success_function_must_return_one_value_per_environment(
    success: str, complaint: str | None, panel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_lab.panels import predicate

    function = eval(f"lambda env, limit: {success}", {"torch": torch, "x": torch.rand(64, 3)})
    monkeypatch.setattr(predicate, "resolve_success", lambda panel: function)
    env = SimpleNamespace(num_envs=64)
    env.unwrapped = env
    if complaint is None:
        assert predicate.checked_success(load_panel(str(panel)), env) is function
    else:
        with pytest.raises(UserError, match=complaint) as raised:
            predicate.checked_success(load_panel(str(panel)), env)
        assert "\n" not in str(raised.value)
