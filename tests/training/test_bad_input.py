"""Bad input is refused in one line with the way out and exit status 2, and leaves no run behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledger_lab.ledger import find_journals
from ledger_lab.ledger.control_groups import usable_bytes
from ledger_lab.tasks.pretrained import shipped_checkpoint
from tests.conftest import script
from tests.fakes.plans import planned

POLICY = str(shipped_checkpoint("LedgerLab-Cartpole"))
GO2, LIDAR = "LedgerLab-Velocity-Flat-Go2", "LedgerLab-Navigation-Flat-AnymalC"
TRAIN_MISTAKES = [
    (["--checkpoint", "absent"], r"no checkpoint, run directory or run id 'absent'"),
    (
        ["--rl_library", "skrl", "--checkpoint", POLICY],
        r"was trained by rsl_rl \(ppo\), and skrl \(ppo\) cannot use its networks: use --rl_library rsl_rl",
    ),
    (["--algorithm", "sac", "--checkpoint", POLICY], r"skrl \(sac\) .*: use --rl_library rsl_rl --algorithm ppo"),
    (
        ["--algorithm", "sac", "--rl_library", "rl_games", "agent.params.config.target_entropy_coef=-0.7"],
        r"target_entropy_coef -0.7: with the opposite sign, it must be below ln 2",
    ),
    (["--algorithm", "sac", "agent.entropy_target=0.7"], r"agent.entropy_target 0.7: must be below ln 2"),
    (["--algorithm", "sac", "agent.action_bound=0"], r"agent.action_bound 0: must be positive"),
    (
        ["--task", "LedgerLab-Ant", "--checkpoint", POLICY],
        r"it was trained with policy.joint_pos where the task has 'base_height': its observations must come first",
    ),
    (
        ["--checkpoint", POLICY, "env.observations.policy.joint_pos.scale=2"],
        r"it was trained with policy.joint_pos where the task has another one: its observations must come first",
    ),
    (
        ["--checkpoint", POLICY, "env.observations.policy.history_length=2"],
        r"group policy is combined differently: .* in its training, .*'history_length': 2.* now",
    ),
    (
        ["--checkpoint", POLICY, "env.actions.cart_force.scale=50"],
        r"its actions would mean something else: cart_force.scale: 50.* != 100.*now != then",
    ),
    (
        ["--task", GO2, "--checkpoint", "LedgerLab-Velocity-Flat-AnymalC", "env.actions.joint_pos.scale=0.5"],
        r"its actions would mean something else: joint_pos.default_joint_pos",
    ),
    (
        ["--checkpoint", POLICY, "physics=ovphysx"],
        r"its actions would mean something else: cart_force.joint_ordering: 'physx' != 'newton'",
    ),
    (
        ["--task", LIDAR, "--checkpoint", LIDAR, "env.scene.lidar.pattern_cfg.horizontal_res=22.5"],
        r"it was trained with policy.nearness where the task has another one",
    ),
    (
        [
            "--task",
            "LedgerLab-Velocity-Rough-AnymalC",
            "--checkpoint",
            "LedgerLab-Velocity-Flat-AnymalC",
            'agent.obs_groups={"actor": ["policy", "more"], "critic": ["policy"]}',
        ],
        r"policy has grown, and more follows it: only the last group can grow",
    ),
    (["--checkpoint", "Isaac-Cartpole"], r"has no pretrained policy of Isaac-Cartpole"),
    (["--checkpoint", POLICY, 'agent.obs_groups={"actor": [], "critic": ["policy"]}'], r"agent.obs_groups was .* now"),
    (["--checkpoint", POLICY, "agent.actor.activation=relu"], r"agent.actor.activation was elu when .*, and is relu"),
    (["--checkpoint", POLICY, "agent.actor.hidden_dims=[64, 32]"], r"agent.actor.hidden_dims was .*32, 32.* when it"),
    (["--task", "LedgerLab-Cartpol"], r"unknown task 'LedgerLab-Cartpol': did you mean 'LedgerLab-Cartpole'"),
    (["--rl_library", "rsl"], r"unknown library 'rsl': did you mean 'rsl_rl'"),
    (
        ["--agent", "skrl_cfg_entry_point"],
        r"no configuration of LedgerLab-Cartpole for rsl_rl: did you mean",
    ),
    (["--rl_library", "skrl", "agent.agent.class=SAC"], r"agent.agent.class 'SAC': LedgerLab supports only PPO"),
    (["--rl_library", "skrl", "agent.agent.experiment.directory=../out"], r"'../out': must be a name of letters"),
    (["--rl_library", "skrl", "agent.models.policy.initial_log_std=3"], r"initial_log_std 3: .* where SKRL cuts it"),
    (
        ["--rl_library", "skrl", "agent.agent.experiment.checkpoint_interval=null"],
        r"agent.agent.experiment.checkpoint_interval None: must be 'auto' or a whole number",
    ),
    (["--panel", "cartpole_v2"], r"unknown panel 'cartpole_v2': did you mean 'cartpole_v1'"),
    (["--instance", "aws-p5.48xlarg"], r"unknown instance 'aws-p5.48xlarg'; did you mean 'aws-p5.48xlarge'"),
    (["--usd_per_hour", "-1"], r"--usd_per_hour must be a finite number of at least 0"),
    (
        ["--timing", "events", "--device", "cpu"],
        r"--timing events: only a GPU has events, and this training uses the CPU",
    ),
    (["--device", "tpu"], r"no device 'tpu' on this machine: --device can be cpu"),
    (["--seed", "-5"], r"--seed -5: training seeds lie between"),
    (
        ["--num_envs", "3", "agent.algorithm.num_mini_batches=64"],
        r"--num_envs 3: a batch of 3 × 32 = 96 steps does not split into 64 .* use 2 or 4 environments",
    ),
    (["env.decimatoin=4"], r"'env.decimatoin=4' matches nothing: env has no 'decimatoin': did you mean 'decimation'"),
    (
        ["--rl_library", "rl_games", "agent.params.config.gama=0.9"],
        r"params.config has no 'gama': did you mean 'gamma'",
    ),
    (["env.decimation=fast"], r"env.decimation is of type int \(2\), and 'fast' is not"),
    (["physics=newton_mujocco"], r"has no physics 'newton_mujocco': did you mean 'newton_mujoco'"),
    (["--cpu_threads", "4096"], r"--cpu_threads 4096: must be between 1 and"),
    (["physics=newton_mjwarp", "--cpu_threads", "1"], r"--cpu_threads belongs to physics=newton_mujoco"),
    (["physics=newton_mujoco", "physics=ovphysx"], r"cannot be configured with physics=newton_m\w+ physics=ovphysx"),
    (["env.sim.physics.deterministic=true"], r"MuJoCo finds its contacts itself, .* Or choose physics=newton_mjwarp"),
    (
        ["--task", "LedgerLab-Velocity-Rough-AnymalC", "env.sim.physics.collision_cfg.max_triangle_pairs=9"],
        r"max_triangle_pairs=9' belongs to physics=newton_mjwarp, and the physics is physics=newton_mujoco",
    ),
    (
        ["physics=newton_mujoco", "--num_envs", str(2**26)],
        r"physics=newton_mujoco: 67109184 environments need about [\d.]+ GB of memory, and [\d.]+ GB are free: "
        r"there is room for \d+, held-out slots included",
    ),
    (["physics=isaacsim_physx"], r"needs Isaac Sim, which is not installed here"),
    (["presets=fast"], r"has no preset 'fast': known: isaacsim_physx"),
    (["env.scene.num_envs=0"], r"env.scene.num_envs 0: must be at least 1"),
    (["env.scene.num_envs=null"], r"'env.scene.num_envs=null': env.scene.num_envs is of type int .*'null' is not"),
    (["env.decimation=0"], r"env.decimation 0: must be at least 1"),
    (["env.sim.dt=0"], r"env.sim.dt=0: must be positive, and finite"),
    (
        ["agent.algorithm.num_mini_batches=0"],
        r"agent.algorithm.num_mini_batches 0: must be a whole number of at least 1",
    ),
    (["agent.algorithm.learning_rate=-1"], r"agent.algorithm.learning_rate -1.*: must be positive"),
    (["agent.algorithm.schedule=adaptiv"], r"agent.algorithm.schedule 'adaptiv': did you mean 'adaptive'"),
    (
        ["--rl_library", "rl_games", "--scale_lr", "sqrt", "agent.params.config.lr_schedule=adaptiv"],
        r"agent.params.config.lr_schedule 'adaptiv': did you mean 'adaptive'",
    ),
    (
        [
            *("--rl_library", "skrl"),
            "agent.models.value.network=[{'name': 'n', 'input': 'STATES', 'layers': [8], 'activations': 'foo'}]",
        ],
        r"agent.models.value.network.0.activations 'foo': known: elu, leaky_relu",
    ),
    (["agent.actor.activation=foo"], r"agent.actor.activation 'foo': .*'elu', .*"),
    (["--rl_library", "rl_games", "agent.params.config.gamma=99"], r"config.gamma 99: must lie between 0 and 1"),
    (["agent.algorithm=3"], r"agent.algorithm is a group: name one of its settings class_name"),
    (["agent.actor=null"], r"'agent.actor=null': agent.actor is a group: name one of its settings class_name, "),
    (
        ["--rl_library", "skrl", "agent.agent.experiment=null"],
        r"agent.agent.experiment is a group: name one of its settings ",
    ),
    (["agent.actor.hidden_dims=[]"], r"agent.actor.hidden_dims is a list like \[32, 32\], and '\[\]' is not"),
    (
        ["env.events.reset_pole.params.position_range=[-1,1,2]"],
        r"params.position_range is a list of 2 values like \[-?\d.*\], and '\[-1,1,2\]' is not",
    ),
    (
        ["env.rewards.pole_pos.params.asset_cfg.joint_ids=slice(None)"],
        r"asset_cfg.joint_ids is a list of indices like \[0, 1\], and 'slice\(None\)' is not",
    ),
    (["env.scene.robot.init_state.joint_pos={'cart_to_pole': [1]}"], r"init_state.joint_pos is of type dict .*not"),
    (["--target", "1"], r"256 episodes are too few to prove a success of 1"),
    (["env.episode_length_s=4"], r"episode_length_s 5.0 is longer than the task's own episodes of 4 s"),
    (["--stop_on", "kl_out_of_rang"], r"no such event: did you mean 'kl_out_of_range'"),
    (["--distributed"], r"--distributed: RANK, WORLD_SIZE, .* are not set: start with torchrun, .* or use --nproc N"),
    (
        ["--task", "LedgerLab-Navigation-Flat-AnymalC", "env.actions.velocity.policy_path=/absent.pt"],
        r"the walking policy is missing: /absent.pt .* scripts/export_policy.py RUN --to DIR",
    ),
    (["--prices", "absent.toml"], r"absent.toml: cannot read the price file: No such file"),
]


@pytest.mark.parametrize(("arguments", "complaint"), TRAIN_MISTAKES, ids=lambda value: str(value)[:40])
def test_a_request_that_cannot_be_trained_is_refused_before_anything_is_written(
    arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.training.plan import plan_training
    from ledger_lab.training.request import TrainRequest

    with pytest.raises(UserError, match=complaint) as raised:
        plan_training(TrainRequest.parse([*arguments, "--log_root", str(tmp_path / "logs")]))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "logs").exists()


def test_a_policy_that_cannot_be_judged_is_refused_unless_no_eval_is_given(tmp_path: Path) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.panels import find_panels

    own = tmp_path / "own.toml"
    text = find_panels()["cartpole_v1"].read_text().replace("ledger_lab.tasks.cartpole.success:", "not_written_yet:")
    own.write_text(text)
    asked = ("--device", "cpu", "--panel", str(own))
    with pytest.raises(UserError, match="not_written_yet"):
        planned(*asked, log_root=tmp_path / "logs")
    assert planned(*asked, "--no_eval", log_root=tmp_path / "logs").declared.held_out_slots == 0


def test_a_training_without_scores_has_the_ground_of_a_scored_training(tmp_path: Path) -> None:
    from ledger_lab.training.runners.session import held_out_config

    rough = ["--task", "LedgerLab-Velocity-Rough-AnymalC", "--device", "cpu", "--num_envs", "32"]
    plan = planned(*rough, "--no_eval", "--seed", "7", log_root=tmp_path / "logs")
    assert plan.slots_cfg.scene.num_envs == 32
    ground = plan.slots_cfg.scene.terrain.terrain_generator
    scored = held_out_config(plan.env_cfg, 1, 32, "trained").scene.terrain.terrain_generator
    assert (ground.class_type, ground.seed) == (scored.class_type, scored.seed)
    assert ground.class_type.endswith(":SeededTerrainGenerator")
    assert plan.env_cfg.scene.terrain.terrain_generator.class_type != ground.class_type, "declared as configured"


def test_the_program_refuses_in_one_line_with_status_2(tmp_path: Path) -> None:
    finished = script("train", "--task", "LedgerLab-Cartpol", "--log_root", tmp_path / "logs")
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert re.fullmatch(r"error: unknown task .*\n", finished.stderr), finished.stderr
    assert not (tmp_path / "logs").exists()


def test_the_program_refuses_a_replay_memory_that_does_not_fit(tmp_path: Path) -> None:
    steps = usable_bytes() // 110  # 4 × 29 bytes per step do not fit; the least, 4 × 14, would
    arguments = ("--algorithm", "sac", f"agent.memory.memory_size={steps}", "--num_envs", "4", "--device", "cpu")
    finished = script("train", *arguments, "--no_eval", "--log_root", tmp_path / "logs")
    assert finished.returncode == 2
    *_, last = finished.stdout.splitlines()
    said = rf"error: agent.memory.memory_size {steps}: .* bytes needs \d\S+ GB, .*: there is room for \d+ steps"
    assert re.fullmatch(said, last), last
    assert "Traceback" not in finished.stdout + finished.stderr
    assert not find_journals(tmp_path)


def test_an_unwritable_log_root_is_refused(tmp_path: Path) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.training.plan import plan_training
    from ledger_lab.training.request import TrainRequest
    from ledger_lab.training.run import make_run_dir

    (tmp_path / "file").write_text("")
    plan = plan_training(TrainRequest.parse(["--log_root", str(tmp_path / "file" / "logs")]))
    with pytest.raises(UserError, match="cannot write to --log_root .*: Not a directory"):
        make_run_dir(plan)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("report", ["--log_root", "nowhere"], "no ledger at nowhere: train first"),
        ("verify_ledger", ["--log_root", "nowhere"], "no journals under nowhere"),
        ("evaluate", ["model.pt", "--log_root", "nowhere"], "no checkpoint, run directory or run id 'model.pt'"),
        ("play", ["model.pt", "--video", "--log_root", "nowhere"], "no checkpoint, run directory or run id 'model.pt'"),
    ],
)
def test_other_programs_refuse_missing_files_and_runs(name: str, arguments: list[str], complaint: str) -> None:
    finished = script(name, *arguments)
    assert finished.returncode == 2
    assert complaint in finished.stderr
    assert len(finished.stderr.strip().splitlines()) == 1, finished.stderr


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("env.scene.num_envs=32", "env_cfg.scene.num_envs", 32),
        ("agent.algorithm.learning_rate=3e-4", "agent_cfg.algorithm.learning_rate", 3e-4),
        ("agent.algorithm.desired_kl=None", "agent_cfg.algorithm.desired_kl", None),
        ("env.sim.physics.solver_cfg.njmax=10", "env_cfg.sim.physics.solver_cfg.njmax", 10),
        ("env.episode_length_s=8.5", "env_cfg.episode_length_s", 8.5),  # declared as a float, and set to 5
    ],
)
def test_overrides_of_isaac_lab_are_accepted(override: str, path: str, value: object, tmp_path: Path) -> None:
    import functools

    plan = planned(override, log_root=tmp_path)
    assert functools.reduce(getattr, path.split("."), plan) == value


@pytest.mark.parametrize("choice", ["physics=ovphysx", "env.sim.physics=ovphysx", "physics=newton_kamino"])
def test_physics_engines_are_chosen_by_either_kind_of_override(choice: str, tmp_path: Path) -> None:
    plan = planned(choice, log_root=tmp_path)
    engine = plan.declared.panel_fields["physics"]["engine"]
    assert engine == ("ovphysx" if "ovphysx" in choice else "newton/kaminopadmm")


def test_the_panel_id_depends_only_on_what_changes_an_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    same = [(), ("--seed", "7"), ("--num_envs", "32"), ("env.rewards.pole_pos.weight=-2",), ("physics=newton_mujoco",)]
    others = [
        ("env.events.reset_pole.params.position_range=[-0.1,0.1]",),
        ("physics=ovphysx",),
        ("env.decimation=4",),
        ("physics=newton_mjwarp",),
        ("physics=newton_mjwarp", "env.sim.physics.deterministic=true"),
        ("env.sim.physics_material.static_friction=0.1",),
        ("env.actions.cart_force.scale=50.0",),
        ("env.scene.env_spacing=3.0",),
    ]
    ids = {planned(*arguments, log_root=tmp_path).declared.panel_id for arguments in same}
    (tmp_path / "slider_to_cart").write_text("a file with the name of a joint")
    monkeypatch.chdir(tmp_path)
    ids.add(planned(log_root=tmp_path).declared.panel_id)
    assert len(ids) == 1
    assert len(ids | {planned(*arguments, log_root=tmp_path).declared.panel_id for arguments in others}) == 1 + len(
        others
    )


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            "tolerance_rad = 0.2",
            "tolerance = 0.2",
            "unexpected keyword argument 'tolerance'|missing a required argument",
        ),
        ("success:pole_upright", "success:pole_up", "has no attribute 'pole_up'"),
        ("tasks.cartpole.success", "tasks.cartpol.success", "No module named 'ledger_lab.tasks.cartpol'"),
        ("LedgerLab-Cartpole", "Isaac-Cartpole", "panel mine is for task Isaac-Cartpole, not LedgerLab-Cartpole"),
        (
            "[seeds]",
            '[[cells]]\nname = "heavy"\nmass = { asset = "crane", bodies = "pole", scale = [1.0, 1.5] }\n\n[seeds]',
            "panel mine: cell 'heavy' perturbs 'crane', which the scene does not have: known: .*robot",
        ),
        ("episode_length_s = 5.0", "episode_length_s = 0.001", "hold_s must lie|shorter than one step"),
    ],
)
def test_a_panel_that_could_not_be_scored_is_refused_before_training(
    old: str, new: str, complaint: str, tmp_path: Path
) -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.panels import find_panels

    text = find_panels()["cartpole_v1"].read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises(UserError, match=complaint):
        planned("--panel", str(tmp_path / "mine.toml"), log_root=tmp_path / "logs")


def test_tasks_with_episodes_that_a_seed_does_not_determine_are_refused() -> None:
    from ledger_lab.errors import UserError
    from ledger_lab.panels.checks import require_seedable
    from ledger_lab.training.runners.configs import resolve_configs

    env_cfg, _ = resolve_configs("Isaac-Cartpole", "rsl_rl", [])
    require_seedable(env_cfg)
    env_cfg.events.reset_cart_position.mode = "prestartup"
    with pytest.raises(UserError, match="prestartup event 'reset_cart_position'"):
        require_seedable(env_cfg)


@pytest.mark.parametrize("kind", ["MultiAssetSpawnerCfg", "MultiUsdFileCfg", "clone_combinations"])
def test_scenes_whose_slots_differ_are_refused_by_name(kind: str) -> None:
    """In 128 slots, half of them held out, all training slots would have the first variant, and no held-out slot."""
    import isaaclab.sim as sim_utils
    from isaaclab.assets import RigidObjectCfg
    from isaaclab.cloner import InclusionSet
    from isaaclab.cloner.cloner_strategies import sequential

    from ledger_lab.errors import UserError
    from ledger_lab.panels.checks import require_seedable
    from ledger_lab.training.runners.configs import resolve_configs

    layout = sequential(np.ones(2), 128)
    assert set(layout[:64]) == {0} and set(layout[64:]) == {1}

    def scene(variants: int) -> Any:
        env_cfg, _ = resolve_configs("Isaac-Cartpole", "rsl_rl", [])
        cubes = [sim_utils.CuboidCfg(size=(0.1, 0.1, 0.1)) for _ in range(variants)]
        if kind == "clone_combinations":
            env_cfg.scene.clone_cfg.clone_combinations = [InclusionSet(assets=["robot"])] * variants
        else:
            spawn: Any = sim_utils.MultiAssetSpawnerCfg(assets_cfg=cubes)
            if kind == "MultiUsdFileCfg":
                spawn = sim_utils.MultiUsdFileCfg(usd_path=["a.usd", "b.usd"][:variants])
            env_cfg.scene.cube = RigidObjectCfg(prim_path="{ENV_REGEX_NS}/Cube", spawn=spawn)
        return env_cfg

    require_seedable(scene(variants=1))
    named = "env.scene.clone_cfg.clone_combinations" if kind == "clone_combinations" else f"'cube' .{kind}."
    with pytest.raises(UserError, match=f"its choice among .*{named}.* would not depend on the seed alone"):
        require_seedable(scene(variants=2))
