"""Four-legged robots that walk as they are told: forwards, sideways and turning, on flat and on rough ground."""

from ledger_lab.tasks.registration import register

for _task, _name, _symmetric in (
    ("Flat-AnymalC", "flat_anymal_c", True),
    ("Rough-AnymalC", "rough_anymal_c", False),
    ("Flat-Go2", "flat_go2", False),
):
    register(
        f"LedgerLab-Velocity-{_task}",
        __name__,
        env_cfg=_name,
        panel=f"velocity_{_name}_v1",
        agents=_name,
        symmetric=_symmetric,
    )
