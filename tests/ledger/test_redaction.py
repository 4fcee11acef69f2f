"""Secrets don't reach the ledger."""

from __future__ import annotations

import pytest

from ledger_lab.ledger.redaction import REDACTED, Redactor

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
        "max_tokens=512",
        "LedgerLab-Cartpole",
        "agent.seed=3",
        "a" * 40,
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor({}).text(text) == text
