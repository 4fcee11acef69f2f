"""Definitions of the page's figures and phases."""

from __future__ import annotations

from ledger_lab.meters import Phase

WORDS = {
    "screening, confirmation": "A checkpoint is screened on the panel of its run, whose seeds stay the same. If it "
    "passes, it is confirmed on fresh seeds. Only the confirmation proves that it reaches the target.",
    "missing run": "A run that was declared with its cohort and never started.",
    "training return": "Mean return of recently ended training episodes, with exploration, noise and curriculum. It "
    "does not prove success.",
    "median [lowest, highest]": "Over the runs of a side, if it has several.",
}
"""Meanings of words that are not titles of columns; a column's meaning is in its declaration."""

PHASE_WORDS = {
    Phase.STARTUP: "imports, app launch, scene creation, first reset",
    Phase.COMPILE: "building and loading kernels, capturing graphs",
    Phase.SIMULATE: "the physics engine inside the environment's step",
    Phase.MANAGE: "the rest of the step: actions, observations, rewards, terminations, resets, commands",
    Phase.INFER: "forward passes of policy and value function in the rollout",
    Phase.RETURNS: "returns and advantages",
    Phase.LEARN: "minibatches: forward, backward, optimizer",
    Phase.SYNCHRONIZE: "collectives between processes",
    Phase.TRANSFER: "copies between host and device, where they can be measured",
    Phase.EVALUATE: "scoring policies on held-out episodes",
    Phase.LOG: "statistics, progress and the ledger itself",
    Phase.CHECKPOINT: "saving and hashing policies",
    Phase.RESTART: "starting again after an interruption, and training lost work again",
    Phase.SHUTDOWN: "from the row that records the end of an attempt until its processes have exited",
    Phase.UNATTRIBUTED: "time that no other phase covers",
}
