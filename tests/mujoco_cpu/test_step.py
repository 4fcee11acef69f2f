"""Each world of the stepper is stepped as MuJoCo steps it alone, whatever the model contains."""

from __future__ import annotations

import importlib
from typing import Any

import mujoco
import numpy as np
import pytest

WORLDS = 5
MODEL = """
<mujoco>
  <option timestep="0.004" density="1.2" viscosity="0.1" wind="1 0 0" {option}><flag {flag}/></option>
  <worldbody>
    <geom type="plane" size="5 5 .1" friction=".8"/>
    <body name="target" mocap="true" pos="0 0 1"/>
    <body name="held" pos="0 0 1"><freejoint/><geom type="box" size=".1 .15 .2" euler="10 20 30"/></body>
    <body name="ball" pos="1 0 .12"><freejoint/><geom type="sphere" size=".1" condim="6"/></body>
    <body name="upper" pos="-1 0 .8">
      <joint name="upper" axis="0 1 0" limited="true" range="-1 1" damping=".1" frictionloss=".05"/>
      <geom type="capsule" size=".04" fromto="0 0 0 0 0 -.3"/>
      <body pos="0 0 -.3">
        <joint name="lower" axis="0 1 0" armature=".01"/>
        <geom type="capsule" size=".04" fromto="0 0 0 0 0 -.25"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="both" stiffness="3"><joint joint="upper" coef="1"/><joint joint="lower" coef="-.5"/></fixed>
  </tendon>
  <equality><weld name="hold" body1="held" body2="target"/></equality>
  <actuator>
    <general joint="upper" dyntype="filter" dynprm=".05" gainprm="2"/>
    <general joint="lower" gainprm="2" {delay}/>
    <position tendon="both" kp="1"/>
  </actuator>
</mujoco>
"""
STATE = ("qpos", "qvel", "act", "history", "time", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied")
INPUTS = (*STATE, "mocap_pos", "mocap_quat", "eq_active")
RESULTS = ("qpos", "qvel", "act", "history", "qacc", "qacc_warmstart", "xpos", "xquat", "actuator_force")


def made(
    threads: int, option: str = "", delay: str = "", flag: str = "", nconmax: int = 30, njmax: int = 150
) -> tuple[Any, Any]:
    """Make a stepper of worlds with states of their own; return it, and MuJoCo-Warp's data."""
    import mujoco_warp

    from ledger_lab.mujoco_cpu.step import Stepper

    model = mujoco.MjModel.from_xml_string(MODEL.format(option=option, delay=delay, flag=flag))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    warp_data = mujoco_warp.put_data(model, data, nworld=WORLDS, nconmax=nconmax, njmax=njmax)
    stepper = Stepper(model, mujoco_warp.put_model(model), warp_data, threads)
    random = np.random.default_rng(1)
    for name, spread in (
        ("qvel", 1.0),
        ("ctrl", 1.0),
        ("qfrc_applied", 0.5),
        ("xfrc_applied", 0.5),
        ("mocap_pos", 0.2),
    ):
        rows = getattr(warp_data, name).numpy()
        rows += spread * random.standard_normal(rows.shape).astype(np.float32)
    warp_data.eq_active.numpy()[1::2] = False
    return stepper, warp_data


def stepped_alone(model: Any, warp_data: Any, world: int) -> dict[str, np.ndarray]:
    """Return what MuJoCo's own step makes of the present state of a world, in single precision."""
    data = mujoco.MjData(model)
    for name in INPUTS:
        rows = getattr(warp_data, name).numpy()
        if name == "time":
            data.time = float(rows[world])
        else:
            getattr(data, name)[...] = rows[world]
    mujoco.mj_step(model, data)
    return {name: np.asarray(getattr(data, name), np.float32) for name in RESULTS}


@pytest.mark.parametrize(
    ("option", "delay"),
    [
        ("", ""),
        ('integrator="RK4"', ""),
        ('integrator="implicit" cone="elliptic" impratio="10"', ""),
        ('integrator="implicitfast" solver="CG" iterations="20"', ""),
        ("", 'delay=".02" nsample="6"'),
    ],
)
def test_a_world_steps_as_it_would_alone(option: str, delay: str) -> None:
    stepper, warp_data = made(2, option, delay)
    for _ in range(25):
        expected = [stepped_alone(stepper._models[0], warp_data, world) for world in range(WORLDS)]
        stepper.step()
        for name in RESULTS:
            found = getattr(warp_data, name).numpy()
            for world in range(WORLDS):
                assert np.array_equal(found[world].reshape(-1), expected[world][name].reshape(-1)), (name, world)
    assert (stepper.status.numpy() == 0).all()
    assert int(warp_data.nacon.numpy()[0]) > 0


@pytest.mark.parametrize("options", [{"nconmax": 1}, {"njmax": 12}])
def test_what_finds_no_room_is_counted_and_simulated_all_the_same(options: Any) -> None:
    (small, small_data), (roomy, roomy_data) = made(2, **options), made(2)
    for stepper, data in ((small, small_data), (roomy, roomy_data)):
        data.qpos.numpy()[1, [2, 9]] = 0.1, 0.09  # box and ball of world 1 lie on the ground
        stepper.step()
    for name in ("qpos", "qvel", "nefc", "ncollision"):
        assert np.array_equal(getattr(small_data, name).numpy(), getattr(roomy_data, name).numpy()), name
    assert (roomy.status.numpy() == 0).all()
    assert [bool(bits & small.DROPPED) for bits in small.status.numpy()] == [False, True, False, False, False]
    assert small_data.nacon.numpy()[0] <= small_data.naconmax


def test_a_world_that_fails_leaves_nothing_behind() -> None:
    stepper, warp_data = made(1)
    warp_data.qvel.numpy()[0] = np.nan
    warp_data.qvel.numpy()[2] = 1e30
    warp_data.xfrc_applied.numpy()[3] = np.inf
    expected = {world: stepped_alone(stepper._models[0], warp_data, world) for world in (1, 4)}
    held = warp_data.qpos.numpy()[[0, 2, 3]].copy()
    stepper.step()
    assert [bool(bits & stepper.UNSTABLE) for bits in stepper.status.numpy()] == [True, False, True, True, False]
    assert np.array_equal(warp_data.qpos.numpy()[[0, 2, 3]], held)
    assert not warp_data.qvel.numpy()[[0, 2, 3]].any()
    for world, results in expected.items():
        for name in RESULTS:
            assert np.array_equal(getattr(warp_data, name).numpy()[world].reshape(-1), results[name].reshape(-1)), name


@pytest.mark.parametrize(("memory", "lost"), [("40K", "CONTACTFULL"), ("60K", "CNSTRFULL"), ("1M", None)])
def test_a_world_for_whose_contacts_there_is_no_memory_stays_where_it_was(memory: str, lost: str | None) -> None:
    import mujoco_warp

    from ledger_lab.mujoco_cpu.step import Stepper

    balls = "".join(
        f'<body pos="{0.3 * number} 0 .09"><freejoint/><geom type="sphere" size=".1"/></body>' for number in range(60)
    )
    ground = '<geom type="plane" size="50 50 .1"/>'
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><size memory="{memory}"/><worldbody>{ground}{balls}</worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    warp_data = mujoco_warp.put_data(model, data, nworld=2, nconmax=100, njmax=500)
    stepper = Stepper(model, mujoco_warp.put_model(model), warp_data, 1)
    places = warp_data.qpos.numpy()
    places[1, 2::7] = 1.0  # the balls of world 1 are in the air
    before = places.copy()
    stepper.step()
    status = stepper.status.numpy()
    assert [bool(bits & stepper.UNSTABLE) for bits in status] == [lost is not None, False]
    assert [bool(bits & stepper.DROPPED) for bits in status] == [lost is not None, False]
    assert [bool(bits & stepper.OUT_OF_MEMORY) for bits in status] == [lost is not None, False]
    if lost is not None:
        assert status[0] & 1 << int(getattr(mujoco.mjtWarning, f"mjWARN_{lost}"))
        assert np.array_equal(warp_data.qpos.numpy()[0], before[0]) and not warp_data.qvel.numpy()[0].any()
    assert not np.array_equal(warp_data.qpos.numpy()[1], before[1])


LONG = """
<mujoco>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <geom type="box" size=".2 .2 .2" pos="{at} 0 .2"/>
    <body pos="0 0 .3">
      <freejoint/>
      <inertial pos="{com}" {inertia} mass="4"/>
      <geom type="box" size=".5 .05 .05" pos="0 .3 0"/>
      <geom type="box" size=".5 .05 .05" pos="0 -.3 0"/>
      <geom type="capsule" size=".05" fromto="-.4 0 0 .4 0 0"/>
      <body pos=".6 0 0">
        <joint axis="0 1 0"/>
        <inertial pos=".1 0 -.2" mass=".5" diaginertia=".002 .003 .004"/>
        <geom type="box" size=".03 .04 .11" pos=".1 0 -.2"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
"""A body of several shapes, and one whose shape has the frame of its inertia, beside a block on the ground."""
FORMS = ('diaginertia=".1 .4 .5"', 'quat=".5 .5 .5 .5" diaginertia=".5 .1 .4"')
"""The same inertia in two forms."""


def contacts_found(warp_data: Any, world: int) -> list[tuple[Any, ...]]:
    """Return shapes and distance of each contact of a world, as sensors read them."""
    contact, count = warp_data.contact, int(warp_data.nacon.numpy()[0])
    rows = zip(contact.worldid.numpy()[:count], contact.geom.numpy(), contact.dist.numpy(), strict=False)
    return sorted((*geoms.tolist(), round(float(dist), 5)) for number, geoms, dist in rows if number == world)


def contacts_of(model: Any) -> list[tuple[Any, ...]]:
    """Return the same of a compiled model in its first state, as MuJoCo finds them."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return sorted((*each.geom.tolist(), round(float(each.dist), 5)) for each in data.contact)


def long_body(at: float, com: str = "0 .1 0", form: int = 0) -> Any:
    """Compile a model with the block somewhere."""
    return mujoco.MjModel.from_xml_string(LONG.format(at=at, com=com, inertia=FORMS[form]))


def stepped_with(model: Any, **values: np.ndarray) -> Any:
    """Step worlds whose models have values of their own; return MuJoCo-Warp's data."""
    import mujoco_warp
    import warp as wp

    from ledger_lab.mujoco_cpu.step import Stepper

    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    warp_data = mujoco_warp.put_data(model, data, nworld=WORLDS, nconmax=30, njmax=150)
    warp_model = mujoco_warp.put_model(model)
    at_first = {name: np.tile(getattr(model, name), (WORLDS, 1, 1)) for name in values}
    for name, rows in at_first.items():
        same_in_all = values[name].ndim == 2
        of_type = getattr(warp_model, name).dtype
        setattr(warp_model, name, wp.array(values[name][None] + 0 * rows if same_in_all else rows, dtype=of_type))
    stepper = Stepper(model, warp_model, warp_data, 1)
    for name, rows in values.items():
        getattr(warp_model, name).numpy()[...] = rows
    stepper.refresh()
    stepper.step()
    return warp_data


@pytest.mark.parametrize("at", [0.45, 0.6])
def test_contacts_are_found_whatever_the_form_of_an_inertia(at: float) -> None:
    model, other = long_body(at), long_body(at, form=1)
    warp_data = stepped_with(model, body_iquat=other.body_iquat, body_inertia=other.body_inertia)
    expected = contacts_of(model)
    assert contacts_of(other) == expected and expected
    for world in range(WORLDS):
        assert contacts_found(warp_data, world) == expected, world


@pytest.mark.parametrize("at", [0.45, 0.6])
def test_contacts_stay_where_they_are_when_a_world_has_other_centers_of_mass(at: float) -> None:
    model = long_body(at)
    places = np.tile(model.body_ipos, (WORLDS, 1, 1))
    places[1, 1] = places[2, 2] = 0.0, 1.5, 0.5
    warp_data = stepped_with(model, body_ipos=places)
    expected = contacts_of(model)
    assert contacts_of(long_body(at, com="0 1.5 .5")) == expected and expected
    for world in range(WORLDS):
        assert contacts_found(warp_data, world) == expected, world


def test_the_kernels_that_threads_share_exist_and_add_to_no_common_numbers() -> None:
    from ledger_lab.mujoco_cpu.threads import _INDEPENDENT

    for module, names in _INDEPENDENT.items():
        found = importlib.import_module(module)
        for name in names:
            maker, _, inner = name.partition("__locals__")
            kernel = getattr(found, maker)() if inner else getattr(found, name)
            assert kernel.key == name
            assert kernel.module.name == module
            assert "atomic" not in kernel.adj.source, name
