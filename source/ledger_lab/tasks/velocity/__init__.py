"""Four-legged robots that follow velocity commands on flat and on rough ground."""

from ledger_lab.tasks.registration import register

for _task, _name in (
    ("Flat-AnymalC", "flat_anymal_c"),
    ("Rough-AnymalC", "rough_anymal_c"),
    ("Flat-Go2", "flat_go2"),
):
    register(
        f"LedgerLab-Velocity-{_task}",
        __name__,
        env_cfg=_name,
        panel=f"velocity_{_name}_v1",
        symmetric=f"rsl_rl_{_name}_with_symmetry",
    )
