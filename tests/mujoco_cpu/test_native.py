"""MuJoCo's C code steps the worlds of a Newton scene as MuJoCo-Warp does, but for rounding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.stock_steps import STOCK, stock_config
from ledger_lab.errors import UserError
from ledger_lab.panels import load_panel
from tests.fakes.held_out import WARP, Trial, task_cfg

_CHOICE = "physics=newton_mujoco"
_RESULTS = ("qpos", "qvel", "qacc", "qacc_warmstart", "xpos", "xquat", "qfrc_actuator", "time")


def ants(count: int, *overrides: str) -> AbstractContextManager[Any]:
    """Open an environment with a few ants that have been shaken for a while."""
    return robots("LedgerLab-Ant", count, *overrides)


@contextmanager
def robots(task: str, count: int, *overrides: str) -> Iterator[Any]:
    """Open an environment with a few robots that have been shaken for a while."""
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import environment, simulation_app

    registered_tasks()
    cfg = task_cfg(task, *overrides)
    cfg.seed, cfg.scene.num_envs, cfg.scene.env_spacing = 5, count, 0.0
    cfg.sim.physics.use_cuda_graph = False
    with simulation_app(cfg, {"device": "cpu"}), environment(task, cfg) as env:
        env.reset()
        shake(env, 12)
        yield env.unwrapped


def shake(env: Any, steps: int) -> None:
    """Take steps with random actions."""
    generator = torch.Generator().manual_seed(steps)
    shape = (env.unwrapped.num_envs, env.unwrapped.action_manager.total_action_dim)
    for _ in range(steps):
        env.step(2 * torch.rand(shape, generator=generator) - 1)


def solver_of(env: Any) -> Any:
    from isaaclab_newton.physics import NewtonManager

    return NewtonManager._solver


def taken(data: Any) -> dict[str, np.ndarray]:
    """Copy what a step reads and writes."""
    contacts = int(data.nacon.numpy()[0])
    found = {name: getattr(data.contact, name).numpy()[:contacts].copy() for name in ("dist", "geom", "worldid")}
    return {name: getattr(data, name).numpy().copy() for name in _RESULTS} | found


def put(data: Any, values: dict[str, np.ndarray]) -> None:
    """Put back what a step reads."""
    for name in ("qpos", "qvel", "qacc_warmstart", "time"):
        getattr(data, name).assign(values[name])


@pytest.mark.parametrize("task", ["LedgerLab-Ant", "LedgerLab-Reach-Franka"])
def test_a_step_is_that_of_mujoco_warp_but_for_rounding(task: str) -> None:
    import mujoco_warp

    from ledger_lab.mujoco_cpu.step import Stepper

    differences, same_contacts, touching, steps = [], [], 0, 0
    with robots(task, 16, WARP) as env:
        solver = solver_of(env)
        data = solver.mjw_data
        steppers = [Stepper(solver.mj_model, solver.mjw_model, data, threads) for threads in (1, 2)]

        def both() -> None:
            nonlocal touching, steps
            before, native = taken(data), []
            for stepper in steppers:
                stepper.timestep = float(solver.mjw_model.opt.timestep.numpy()[0])
                stepper.step()
                native.append(taken(data))
                put(data, before)
            for name, values in native[0].items():
                assert np.array_equal(values, native[1][name]), f"{name} depends on the number of threads"
            mujoco_warp.step(solver.mjw_model, data)
            warp = taken(data)
            differences.append(np.abs(native[0]["qvel"] - warp["qvel"]).max(axis=1))
            counts = [np.bincount(each["worldid"][each["dist"] < 0], minlength=16) for each in (native[0], warp)]
            same_contacts.append(counts[0] == counts[1])
            touching += counts[0].sum()
            steps += 1

        solver._mujoco_warp_step = both
        shake(env, 10)
        assert all((stepper.status.numpy() == 0).all() for stepper in steppers)
        assert steps == 10 * env.cfg.decimation * env.cfg.sim.physics.num_substeps
    # A contact that just begins or ends to the last bit of a distance makes a difference that is no rounding.
    median, most = np.quantile(np.concatenate(differences), (0.5, 0.9))
    assert median < 3e-5 and most < 1e-4
    assert np.mean(same_contacts) > 0.9
    assert touching or task == "LedgerLab-Reach-Franka"


def test_the_settings_of_the_task_reach_the_solver() -> None:
    settings = {"impratio": 7, "iterations": 37, "ls_iterations": 11, "tolerance": 1e-5, "njmax": 61}
    with ants(1, _CHOICE, *(f"env.sim.physics.solver_cfg.{name}={value}" for name, value in settings.items())) as env:
        solver = solver_of(env)
        options = solver.mj_model.opt
        found = {name: getattr(options, name) for name in settings if name != "njmax"} | {
            "njmax": solver.mjw_data.njmax
        }
        threads_options = [each.opt.impratio for each in solver.stepper._models]
    assert found == pytest.approx(settings)
    assert threads_options == pytest.approx([settings["impratio"]] * len(threads_options))


def test_the_forces_between_bodies_are_those_of_mujoco_warp() -> None:
    import mujoco_warp

    from ledger_lab.mujoco_cpu.step import Stepper

    with ants(8, WARP) as env:
        solver = solver_of(env)
        data = solver.mjw_data
        assert solver.mjw_model.sensor_rne_postconstraint, "the wrench sensor asks for them"
        stepper = Stepper(solver.mj_model, solver.mjw_model, data, 1)
        stepper.timestep = float(solver.mjw_model.opt.timestep.numpy()[0])
        before = taken(data)
        mujoco_warp.step(solver.mjw_model, data)
        warp = data.cfrc_int.numpy().copy()
        put(data, before)
        stepper.want_post_constraint()
        stepper.step()
        native = data.cfrc_int.numpy()
    assert np.abs(warp).max() > 10.0
    off = np.abs(native - warp).reshape(8, -1).max(axis=1) / np.abs(warp).reshape(8, -1).max(axis=1)
    assert np.median(off) < 1e-3


@pytest.fixture(scope="class")
def env() -> Iterator[Any]:
    """Six ants."""
    with ants(6, _CHOICE) as opened:
        yield opened


class TestSixAnts:
    """One simulation for what single worlds do."""

    def test_an_error_of_mujoco_ends_the_episode_and_nothing_else(self, env: Any) -> None:
        stepper = solver_of(env).stepper
        places = env.scene["robot"].data.root_pos_w.torch.clone()
        integrators = [model.opt.integrator for model in stepper._models]
        for model in stepper._models:
            model.opt.integrator = 99  # mj_step gives up
        _, _, terminated, *_ = env.step(torch.zeros(6, 8))
        assert terminated.all()
        for model, integrator in zip(stepper._models, integrators, strict=True):
            model.opt.integrator = integrator
        _, _, terminated, *_ = env.step(torch.zeros(6, 8))
        assert not terminated.any()
        assert not torch.equal(env.scene["robot"].data.root_pos_w.torch, places)

    def test_a_world_that_becomes_unstable_ends_its_episode_and_no_other(self, env: Any) -> None:
        robot = env.scene["robot"]
        speeds = robot.data.joint_vel.torch.clone()
        speeds[2] = 1e30
        speeds[4] = float("nan")
        robot.write_joint_velocity_to_sim_index(velocity=speeds)
        observations, rewards, terminated, *_ = env.step(torch.zeros(6, 8))
        assert terminated.tolist() == [False, False, True, False, True, False]
        assert torch.isfinite(observations["policy"]).all()
        assert torch.isfinite(rewards[[0, 1, 3, 5]]).all()
        _, _, terminated, *_ = env.step(torch.zeros(6, 8))
        assert not terminated.any()

    def test_worlds_have_masses_of_their_own(self, env: Any) -> None:
        robot = env.scene["robot"]
        masses = robot.data.body_mass.torch.clone()
        masses[1] *= 3.0
        robot.set_masses_index(masses=masses)
        env.step(torch.zeros(6, 8))
        solver = solver_of(env)
        assert "body_mass" in solver.stepper.copied
        data = solver.mjw_data
        for name in ("qpos", "qvel", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied"):
            rows = getattr(data, name).numpy()
            rows[:] = rows[0]
        data.qfrc_applied.numpy()[:, 6:] = 5.0
        solver.stepper.step()
        moved = data.qvel.numpy()
        assert np.array_equal(moved[0], moved[2])
        assert not np.allclose(moved[0], moved[1], rtol=1e-3)

    def test_shapes_of_single_worlds_cannot_be_changed(self, env: Any) -> None:
        solver = solver_of(env)
        sizes = solver.mjw_model.geom_size.numpy()
        sizes[1] *= 1.5
        with pytest.raises(UserError, match=r"cannot change shapes in single environments"):
            solver.stepper.refresh()


def stepped(env: Any, before: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Take a step of the physics from given joints; return what Newton knows of it."""
    from isaaclab_newton.physics import NewtonManager

    state, data = NewtonManager.backend.state_0, solver_of(env).mjw_data
    for name in ("joint_q", "joint_qd"):
        getattr(state, name).assign(before[name])
    data.qacc_warmstart.assign(before["qacc_warmstart"])
    env.sim.step(render=False)
    names = ("joint_q", "joint_qd", "body_q", "body_qd", "body_qdd", "body_parent_f")
    found = {name: getattr(state, name).numpy().copy() for name in names if getattr(state, name) is not None}
    if (contacts := NewtonManager._contacts) is not None and NewtonManager._report_contacts:
        found["force"] = contacts.force.numpy()[: int(contacts.rigid_contact_count.numpy()[0])].copy()
    return found


def state_before(env: Any) -> dict[str, np.ndarray]:
    """Copy what a step of the physics starts from."""
    from isaaclab_newton.physics import NewtonManager

    state = NewtonManager.backend.state_0
    rows = {"joint_q": state.joint_q, "joint_qd": state.joint_qd}
    rows["qacc_warmstart"] = solver_of(env).mjw_data.qacc_warmstart
    return {name: each.numpy().copy() for name, each in rows.items()}


def test_kernels_that_threads_share_compute_what_one_thread_computes() -> None:
    from ledger_lab.mujoco_cpu.threads import pool

    with ants(140, _CHOICE) as env:
        before, workers = state_before(env), pool()
        found = []
        for threads in (1, 2, 3, 1):
            workers.threads, workers.timed, workers.tasks = threads, 1, 0
            found.append(stepped(env, before))
            assert workers.tasks >= 10
        workers.timed = 0
    assert {"body_q", "body_qd", "body_parent_f"} <= found[0].keys()
    for other in found[1:]:
        for name, values in found[0].items():
            assert np.array_equal(values, other[name]), name
    assert not np.array_equal(found[0]["joint_q"], before["joint_q"])


def test_what_nothing_reads_between_the_steps_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.mujoco_cpu.solver import NewtonNativeManager
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import environment, simulation_app

    registered_tasks()
    task = "LedgerLab-Velocity-Flat-AnymalC"
    cfg = task_cfg(task, _CHOICE)
    cfg.seed, cfg.scene.num_envs = 5, 4
    cfg.sim.physics.use_cuda_graph = False
    with simulation_app(cfg, {"device": "cpu"}), environment(task, cfg) as env:
        base = env.unwrapped
        env.reset()
        shake(env, 12)
        assert base.sim.physics_manager.handles_decimation(), "the physics takes all steps at once"
        before, unread = state_before(base), []
        expect = NewtonNativeManager._expect

        def noted(steps: int) -> None:
            expect(steps)
            unread.append(solver_of(base).stepper.unread)

        monkeypatch.setattr(NewtonNativeManager, "_expect", noted)
        sparing = stepped(base, before)
        monkeypatch.setattr(NewtonNativeManager, "_expect", lambda steps: None)
        full = stepped(base, before)
    assert unread == [cfg.decimation - 1] == [3]
    assert len(full["force"]) > 0
    for name, values in full.items():
        assert np.array_equal(values, sparing[name]), name


def act(observations: Any) -> torch.Tensor:
    """Move by what is seen."""
    return torch.tanh(observations["policy"][:, :8])


def rest(observations: Any) -> torch.Tensor:
    return torch.zeros(len(observations["policy"]), 8)


def fidget(observations: Any) -> torch.Tensor:
    return torch.tanh(observations["policy"][:, :12])


def settle(observations: Any) -> torch.Tensor:
    return torch.zeros(len(observations["policy"]), 12)


@pytest.mark.parametrize(
    ("panel", "policies", "seeds", "length_s"),
    [
        pytest.param("ant_v1", (act, rest), 8, 0.5, id="plane"),
        pytest.param(
            "velocity_rough_anymal_c_v1", (fidget, settle), 4, 0.3, id="height field", marks=pytest.mark.thorough
        ),
    ],
)
def test_an_episode_depends_on_its_seed_alone(panel: str, policies: Any, seeds: int, length_s: float) -> None:
    from ledger_lab.panels.physics import exactness
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import simulation_app

    registered_tasks()
    small = replace(load_panel(panel), seeds=tuple(range(seeds)), episode_length_s=length_s)

    def cfg(threads: int) -> Any:
        made = task_cfg(small.task, _CHOICE)
        made.sim.physics.solver_cfg.cpu_threads = threads
        return made

    assert exactness(cfg(1)) == "bitwise"
    with simulation_app(cfg(1), {"device": "cpu"}):
        alone = Trial(small, *policies, lambda: cfg(1)).alone()
        assert len(set(alone.fingerprint)) == seeds
        assert Trial(small, *policies, lambda: cfg(2)).in_company(7) == alone


def test_threads_change_no_identity_and_the_engine_does() -> None:
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.description import describe_simulation

    registered_tasks()
    described = []
    for threads in (1, 2):
        cfg = task_cfg("LedgerLab-Cartpole", _CHOICE)
        cfg.sim.physics.solver_cfg.cpu_threads = threads
        described.append(describe_simulation(cfg))
    assert described[0] == described[1]
    assert described[0]["physics"]["engine"] == "newton/mujoco"
    assert describe_simulation(task_cfg("LedgerLab-Cartpole", WARP)) != described[0]


def test_isaac_labs_own_tasks_are_simulated() -> None:
    from ledger_lab.mujoco_cpu.solver import NativeSolver
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import environment, simulation_app

    registered_tasks()
    task = "LedgerLab-Ant"
    cfg = stock_config(task)  # with our robot, because Isaac Lab's would have to be downloaded
    cfg.sim.physics = task_cfg(STOCK[task], _CHOICE).sim.physics
    cfg.sim.device, cfg.seed, cfg.scene.num_envs = "cpu", 5, 4
    with simulation_app(cfg, {"device": "cpu"}), environment(STOCK[task], cfg) as env:
        began = env.reset()[0]["policy"].clone()
        for _ in range(8):
            seen, rewards, *_ = env.step(torch.ones(4, env.unwrapped.action_manager.total_action_dim))
        assert isinstance(solver_of(env), NativeSolver)
        assert torch.isfinite(seen["policy"]).all() and torch.isfinite(rewards).all()
        assert not torch.equal(began, seen["policy"])


def test_processes_on_a_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.ledger.cores import own_cores
    from ledger_lab.mujoco_cpu.choose import require_fit
    from ledger_lab.tasks.registry import registered_tasks

    registered_tasks()
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    found = []
    for processes in (1, 2, 3, 16):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
        found.append(own_cores())
    assert found == [8, 4, 2, 1]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    cfg = task_cfg("LedgerLab-Cartpole", _CHOICE)
    require_fit(cfg, 4)
    with pytest.raises(UserError, match=r"--cpu_threads 5: must be between 1 and 4, the cores that this process"):
        require_fit(cfg, 5)


def test_more_environments_than_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ledger_lab.mujoco_cpu import choose
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners import physics_engine

    registered_tasks()
    monkeypatch.setattr(choose, "usable_bytes", lambda: 8_000_000_000)
    task = "LedgerLab-Velocity-Flat-AnymalC"
    cfg = task_cfg(task, _CHOICE)
    cfg.scene.num_envs = 4096
    choose.require_memory(task, cfg, processes=2)
    with pytest.raises(UserError, match=r": 4096 environments in each of 8 processes need about 1\d\.\d GB of memory"):
        choose.require_memory(task, cfg, processes=8)
    cfg.scene.num_envs = 10**6
    with pytest.raises(UserError, match=r"1000000 environments need about 1\d\d\.\d GB .* and 8\.0 GB are free: there"):
        choose.require_memory(task, cfg)
    with pytest.raises(UserError, match=r"1000000 environments need at least "):
        choose.require_memory("Own-Task", cfg)
    physics_engine.require_memory(task, task_cfg(task, WARP))  # of MuJoCo-Warp, nothing is known
    own, cautious = (choose.fitting_environments("Own-Task", cfg, cautious=each) for each in (False, True))
    assert cautious < own / 10 and cautious == physics_engine.fitting_environments("Own-Task", cfg)
    assert choose.fitting_environments(task, cfg, cautious=True) == choose.fitting_environments(task, cfg)


def test_what_the_engine_cannot_do_is_refused_by_name() -> None:
    from isaaclab.assets import CableObjectCfg, DeformableObjectCfg

    from ledger_lab.mujoco_cpu.choose import native_physics, require_fit, require_warp_settings
    from ledger_lab.tasks.registry import registered_tasks
    from ledger_lab.training.runners.session import require_runtime

    registered_tasks()
    cfg = task_cfg("LedgerLab-Cartpole", _CHOICE)
    with pytest.raises(UserError, match=r"--cpu_threads 999: must be between 1 and"):
        require_fit(cfg, 999)
    with pytest.raises(UserError, match=r"--cpu_threads belongs to physics=newton_mujoco"):
        require_runtime(task_cfg("LedgerLab-Cartpole", WARP), {"device": "cpu"}, 1)
    for soft, kind in ((DeformableObjectCfg(), "DeformableObject"), (CableObjectCfg(), "CableObject")):
        cfg.scene.cloth = soft
        with pytest.raises(UserError, match=rf"simulates rigid bodies, and env.scene.cloth is a {kind}: choose"):
            require_fit(cfg, None)
    del cfg.scene.cloth
    cfg.sim.device = "cuda:0"
    with pytest.raises(UserError, match=r"runs on the CPU, and the device is cuda:0"):
        require_fit(cfg, None)
    rough, newtons = "LedgerLab-Velocity-Rough-AnymalC", "env.sim.physics"
    for override in (
        f"{newtons}.collision_cfg.max_triangle_pairs=9",
        f"{newtons}.solver_cfg.use_mujoco_contacts=false",
    ):
        with pytest.raises(UserError, match=rf"override '{override}' belongs to physics=newton_mjwarp"):
            task_cfg(rough, _CHOICE, override)
    kamino = task_cfg("LedgerLab-Cartpole", "physics=newton_kamino").sim.physics
    with pytest.raises(UserError, match=r"has settings of another solver, KaminoPADMMSolverCfg"):
        native_physics(kamino)
    with pytest.raises(UserError, match=r"has no physics=newton_mjwarp"):
        require_warp_settings("LedgerLab-No-Such-Task", ())
