"""The made-up library's settings for the fields of a recipe."""

from ledger_lab.tasks.recipes.dialect import Dialect, Only, Setting

DIALECT = Dialect(
    library="made_up",
    title="Made-up",
    seed="agent.dice",
    settings={
        "experiment_name": Setting("agent.folder"),
        "max_iterations": Setting("agent.updates"),
        "save_interval": Setting("agent.save_every"),
        "horizon": Setting("agent.rollout.steps"),
        "epochs": Setting("agent.learner.passes"),
        "minibatches": Setting("agent.learner.parts"),
        "hidden_dims": Setting("agent.network.widths"),
        "activation": Setting("agent.network.activation"),
        "observation_normalization": Setting("agent.network.scaled"),
        "learning_rate": Setting("agent.learner.rate", "doubled", write=lambda recipe: 2 * recipe.learning_rate),
    },
    only={"timeout_bootstrap": Only(True, "it has no setting for it")},
    template=lambda recipe: {"dice": 1, "device": "cpu"},
)
