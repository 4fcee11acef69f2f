"""A recipe file says the same to all libraries, and is refused where a library would not follow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.errors import UserError
from ledger_lab.ledger.libraries import algorithms, dialect_of, dialects
from ledger_lab.tasks.recipes.recipe_file import read_recipe, recipe_fields


def written(folder: Path, text: str, version: str = "version = 1") -> Path:
    path = folder / "mine.toml"
    path.write_text(f"{version}\n{text}\n")
    return path


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        (
            "rsl_rl",
            {
                "agent.algorithm.learning_rate=1.0",
                "agent.algorithm.value_loss_coef=0.5",
                "agent.algorithm.use_clipped_value_loss=false",
                "agent.algorithm.clip_param=0.1",
            },
        ),
        (
            "rl_games",
            {
                "agent.params.config.learning_rate=1.0",
                "agent.params.config.critic_coef=1.0",
                "agent.params.config.clip_value=false",
                "agent.params.config.e_clip=0.1",
            },
        ),
        (
            "skrl",
            {
                "agent.agent.learning_rate=1.0",
                "agent.agent.value_loss_scale=0.5",
                "agent.agent.value_clip=0.0",
                "agent.agent.ratio_clip=0.1",
            },
        ),
    ],
)
def test_each_library_gets_the_changes_in_its_own_words(library: str, expected: set[str], tmp_path: Path) -> None:
    file = written(tmp_path, "[recipe]\nlearning_rate = 1\nvalue_coef = 0.5\nvalue_clip = false\nclip = 0.1")
    assert set(read_recipe(file).translate(dialect_of(library))) == expected


def test_overrides_of_the_task_follow(tmp_path: Path) -> None:
    file = read_recipe(written(tmp_path, 'about = "mine"\nnum_envs = 8\noverrides = ["env.episode_length_s=4"]'))
    assert file.num_envs == 8
    assert file.translate(dialect_of("rsl_rl")) == ("env.episode_length_s=4",)


@pytest.mark.parametrize(
    ("library", "text", "complaint"),
    [
        ("rl_games", "horizon = 8", r"rl_games writes horizon and minibatches into one setting: set minibatches"),
        ("skrl", "hidden_dims = [8]", r"SKRL keeps hidden_dims in a list, which no override can change"),
        ("skrl", "initial_noise_std = 9", r"SKRL limits the standard deviation"),
        ("rsl_rl", "reward_scale = 2", r"trains with reward_scale=1.0 only, not 2.0"),
    ],
)
def test_what_a_library_cannot_follow_is_refused(library: str, text: str, complaint: str, tmp_path: Path) -> None:
    file = read_recipe(written(tmp_path, f"[recipe]\n{text}"))
    with pytest.raises(UserError, match=complaint):
        file.translate(dialect_of(library))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[recipe]\nlearning_rat = 1", r"'learning_rat' is not a field of ppo: did you mean 'learning_rate'"),
        ("[recipe]\nlearning_rate = 0", r"learning_rate 0: must be positive"),
        ('[recipe]\nschedule = "adaptiv"', r"schedule 'adaptiv': did you mean 'adaptive'"),
        ("[recipe]\nvalue_clip = 1", r"value_clip 1: must be true or false"),
        ("recipe = 1", r"Expected `object`, got `int` - at `\$.recipe`"),
        ("num_env = 1", r"unknown field `num_env`"),
        ('overrides = "env.a=1"', r"Expected `array`, got `str` - at `\$.overrides`"),
        ('overrides = ["agent.seed=1"]', r"override 'agent.seed=1': write env.PATH=VALUE"),
        ('overrides = ["env.scene.num_envs=8"]', r"write num_envs = N instead"),
        ("[recipe", r"can't be read"),
    ],
)
def test_a_wrong_file_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        read_recipe(written(tmp_path, text))


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    for version in ("", "version = 2", "version = true"):
        with pytest.raises(UserError, match="version"):
            read_recipe(written(tmp_path, "", version))
    with pytest.raises(UserError, match="--recipe .*can't be read"):
        read_recipe(tmp_path / "absent.toml")


@pytest.mark.parametrize("algorithm", algorithms())
def test_every_field_of_the_table_is_written_by_every_library(algorithm: str) -> None:
    for dialect in dialects(algorithm):
        assert set(recipe_fields(dialect.recipe)) <= dialect.settings.keys() | dialect.only.keys()


@pytest.mark.parametrize(
    ("library", "algorithm", "text", "expected"),
    [
        (
            "skrl",
            "sac",
            "replay_steps = 64\naction_bound = 2\ninitial_entropy_coef = 0.1\nobservation_normalization = false",
            {
                "agent.memory.memory_size=64",
                "agent.action_bound=2.0",
                "agent.agent.initial_entropy_value=0.1",
                "agent.agent.observation_preprocessor=null",
            },
        ),
        (
            "rl_games",
            "sac",
            "replay_steps = 64\naction_bound = 2\nlearning_rate = 1e-4\nhidden_dims = [8, 8]\nhorizon = 8",
            {
                "agent.replay_steps=64",
                "agent.params.env.clip_actions=2.0",
                "agent.params.config.actor_lr=0.0001",
                "agent.params.config.critic_lr=0.0001",
                "agent.params.config.alpha_lr=0.0001",
                "agent.params.network.mlp.units=[8,8]",
                "agent.params.config.num_steps_per_episode=8",
            },
        ),
        (
            "skrl",
            "sac",
            "n_step = 1\nentropy_target = -0.5\nreplay_on_host = true",
            {"agent.replay_on_host=true", "agent.n_step=1", "agent.entropy_target=-0.5"},
        ),
        ("rl_games", "sac", "entropy_target = -0.5", {"agent.params.config.target_entropy_coef=0.5"}),
        (
            "skrl",
            "td3",
            "exploration_noise = [0.1, 0.4]\npolicy_delay = 3",
            {"agent.exploration_noise=[0.1,0.4]", "agent.agent.policy_delay=3"},
        ),
    ],
)
def test_a_file_changes_the_recipe_of_any_algorithm(
    library: str, algorithm: str, text: str, expected: set[str], tmp_path: Path
) -> None:
    dialect = dialect_of(library, algorithm)
    assert set(read_recipe(written(tmp_path, f"[recipe]\n{text}"), dialect.recipe).translate(dialect)) == expected
