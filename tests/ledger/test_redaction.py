"""Secrets don't reach the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger_lab.ledger.redaction import REDACTED, Redactor, redact_files

SECRET = "correct-horse-battery"


@pytest.mark.parametrize(
    "value",
    [
        f"--api_key={SECRET}",
        f"agent.wandb_token={SECRET}",
        f"agent.wandb_token=4{SECRET}",
        f"password=true-{SECRET}",
        ["train.py", "--hf-token", SECRET],
        {"reason": f"ConnectionError: https://user:{SECRET}@example.org refused"},
        f"MLFLOW_TRACKING_PASSWORD: {SECRET}",
        {"api_key": SECRET},
        f"Authorization: Bearer {SECRET}",
        f"authorization: Basic {SECRET}",
        f'{{"hf_token": "two words: {SECRET}", "seed": 3}}',
        f"{{'wandb_token': '{SECRET}'}}",
        f"db_pass={SECRET}",
        f"https://user:{SECRET}@tail@example.org/x",
        ["nested", {"deep": [f"X_SECRET={SECRET}"]}],
    ],
)
def test_named_secrets_are_replaced(value: object) -> None:
    redacted = Redactor({}).value(value)
    assert SECRET not in repr(redacted)
    assert REDACTED in repr(redacted)


@pytest.mark.parametrize(
    "token",
    ["ghp_" + "a1" * 18, "hf_" + "Ab3" * 10, "AKIA" + "ABCD1234" * 2, "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2Q"],
)
def test_tokens_are_known_by_their_shape(token: str) -> None:
    assert Redactor({}).text(f"seen {token} here") == f"seen {REDACTED} here"


def test_what_the_environment_keeps_secret_is_found_anywhere() -> None:
    redactor = Redactor({"WANDB_API_KEY": SECRET, "HOME": "/home/somebody", "SHORT_TOKEN": "cart"})
    text = f"/home/somebody/{SECRET}/cartpole"
    assert redactor.text(text) == f"/home/somebody/{REDACTED}/cartpole"


@pytest.mark.parametrize(
    "text",
    [
        "env.observations.token_dim=5",
        "agent.actor.use_cls_token=True",
        "agent.actor.num_token=4",
        "agent.logger.api_key=null",
        "agent.logger.api_key: ''",
        "max_tokens=512",
        "LedgerLab-Cartpole",
        "agent.seed=3",
        "a" * 40,
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor({}).text(text) == text


def test_words_of_any_length_are_looked_at_in_passing() -> None:
    for word in ("a" * 1_000_000, "a.b-" * 250_000, "token" * 200_000):
        assert Redactor({}).text(word) == word, "a search that begins at every letter would take hours"


def test_words_are_no_secrets_even_where_one_is_expected() -> None:
    assert Redactor({"WANDB_API_KEY": "disabled"}).text("mirrors are disabled") == "mirrors are disabled"


def test_files_that_others_wrote_are_cleaned_and_else_left_alone(tmp_path: Path) -> None:
    dumped, clean = tmp_path / "agent.yaml", tmp_path / "env.yaml"
    dumped.write_text(f"seed: 3\nwandb_api_key: {SECRET}\n")
    clean.write_bytes(b"seed: 3\r\nname: caf\xe9\n")
    redact_files([dumped, clean])
    assert dumped.read_text() == f"seed: 3\nwandb_api_key: {REDACTED}\n"
    assert clean.read_bytes() == b"seed: 3\r\nname: caf\xe9\n"
    assert {path.name for path in tmp_path.iterdir()} == {"agent.yaml", "env.yaml"}


def test_a_log_keeps_its_line_ends_and_its_mode(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_bytes(f"10 %\r20 %\r\ntoken={SECRET}\ncaf\xe9 ".encode("latin-1"))
    log.chmod(0o600)
    redact_files([log])
    assert log.read_bytes() == f"10 %\r20 %\r\ntoken={REDACTED}\ncaf\xe9 ".encode("latin-1")
    assert log.stat().st_mode & 0o777 == 0o600
