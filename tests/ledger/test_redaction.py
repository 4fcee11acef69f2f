"""Secrets don't reach the ledger."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from ledger_lab.ledger.redaction import REDACTED, RedactedStream, Redactor, redact_files
from tests.fakes.ledgers import declared
from tests.ledger.forms_of_secrets import HARMLESS, KNOWN_LEAKS, SECRETS

SECRET = "correct-horse-battery"


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_no_form_of_a_secret_stays(text: str, secret: str) -> None:
    once = Redactor({}, []).text(text)
    assert secret not in once
    assert Redactor({}, []).text(once) == once, "what is redacted must not change again"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor({}, []).text(text) == text


@pytest.mark.parametrize(("text", "secret", "reason"), KNOWN_LEAKS)
def test_some_secrets_are_not_recognized(text: str, secret: str, reason: str) -> None:
    assert secret in Redactor({}, []).text(text), f"recognized now, although {reason}: move it to SECRETS"


@pytest.mark.parametrize(
    "value",
    [
        ["train.py", "--hf-token", SECRET],
        {"reason": f"ConnectionError: https://user:{SECRET}@example.org refused"},
        {"api_key": SECRET},
        ["nested", {"deep": [f"X_SECRET={SECRET}"]}],
    ],
)
def test_named_secrets_are_replaced(value: object) -> None:
    redacted = Redactor({}).value(value)
    assert SECRET not in repr(redacted)
    assert REDACTED in repr(redacted)


def test_secret_values_of_the_environment_are_redacted_anywhere() -> None:
    redactor = Redactor({"WANDB_API_KEY": SECRET, "HOME": "/home/somebody", "SHORT_TOKEN": "cart"})
    text = f"/home/somebody/{SECRET}/cartpole"
    assert redactor.text(text) == f"/home/somebody/{REDACTED}/cartpole"


PEM = f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{SECRET}\nabc=\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("use_token:\n  enabled: true\n", "use_token:\n  enabled: true\n"),
        (f"before\n{PEM}\nafter", f"before\n{REDACTED}\nafter"),
        (f"ssh: {PEM[:50]}", f"ssh: {REDACTED}"),
        (f"https://1{SECRET}@example.org/x", f"https://{REDACTED}@example.org/x"),
        ("ssh://git@example.org/x", "ssh://git@example.org/x"),
        (f"https://a.example/b?sv=1&sig={SECRET}%3D&se=2", f"https://a.example/b?sv=1&sig={REDACTED}&se=2"),
        (f"s3?X-Amz-Signature={SECRET}&x=1", f"s3?X-Amz-Signature={REDACTED}&x=1"),
        (f"Authorization: ApiKey {SECRET}\nHost: x", f"Authorization: {REDACTED}\nHost: x"),
        (f"train.py --password {SECRET} --seed 3", f"train.py --password {REDACTED} --seed 3"),
        (f"  passphrase: two words, {SECRET}\n  seed: 3", f"  passphrase: {REDACTED}\n  seed: 3"),
        (f'{{"password": "a\\" {SECRET}", "seed": 3}}', f'{{"password": "{REDACTED}", "seed": 3}}'),
        (f'{{"t": "{{\\"api_key\\": \\"{SECRET}\\", 1}}"}}', f'{{"t": "{{\\"api_key\\": \\"{REDACTED}\\", 1}}"}}'),
        (f"a:\n  key_password: |\n    {SECRET}\n    x\n  seed: 3\n", f"a:\n  key_password: {REDACTED}\n  seed: 3\n"),
        ('{"api_key": null, "seed": 3}', '{"api_key": null, "seed": 3}'),
        (f"AccountKey={SECRET};x", f"AccountKey={REDACTED}"),
    ],
)
def test_a_secret_is_replaced_and_the_rest_stays(text: str, clean: str) -> None:
    assert Redactor({}).text(text) == clean


def test_all_values_under_a_secret_name_are_replaced() -> None:
    value = {"credentials": {"user": SECRET, "port": 3, "more": [SECRET]}}
    assert Redactor({}).value(value) == {"credentials": {"user": REDACTED, "port": 3, "more": [REDACTED]}}


def test_the_value_of_a_secret_flag_is_redacted_anywhere() -> None:
    redactor = Redactor({}, ["train.py", "--wandb_api_key", SECRET, f"agent.db_password=x{SECRET}x"])
    assert redactor.text(f"refused: {SECRET}, x{SECRET}x") == f"refused: {REDACTED}, {REDACTED}"


def test_a_flag_after_a_switch_is_no_secret() -> None:
    redactor = Redactor({}, ["train.py", "--use_token", "--num_envs", "4096"])
    assert redactor.text("unknown flag --num_envs") == "unknown flag --num_envs"
    assert redactor.value(["--use_token", "--num_envs", "4096"]) == ["--use_token", "--num_envs", "4096"]


def test_a_known_secret_is_replaced_however_it_is_spelled() -> None:
    secret = 'p@ss "wörd" \\ it\'s'
    redactor = Redactor({"DB_PASSWORD": secret}, [])
    for spelled in (secret, json.dumps(secret), repr(secret), quote(secret, safe=""), shlex.quote(secret)):
        assert "rd" not in redactor.text(f"seen {spelled} here").replace("[redacted]", ""), spelled


def test_a_private_key_that_a_log_gets_line_by_line_is_replaced() -> None:
    log = io.StringIO()
    stream = RedactedStream(log)
    for line in PEM.splitlines(keepends=True):
        stream.write(line)
    stream.write("\nafter\n")
    assert log.getvalue() == f"{REDACTED}\nafter\n"


def test_fields_that_identify_a_row_are_never_redacted() -> None:
    row = declared("aa", cohort="ant-lr-sweep-0001", command=["--x", "ant-lr-sweep-0001"])
    for environment in ({"SWEEP_TOKEN": "ant-lr-sweep-0001"}, {"SWEEP_KEY": "ant-lr-sweep"}):
        data = Redactor(environment).row(row)
        assert data["cohort"] == "ant-lr-sweep-0001"
    assert Redactor({"SWEEP_KEY": "ant-lr-sweep"}).row(row) == row.to_data()
    assert Redactor({"SWEEP_TOKEN": "ant-lr-sweep-0001"}).row(row)["command"] == ["--x", REDACTED]


secret_names = st.sampled_from(["api_key", "wandb_token", "db.password", "passphrase", "private_key"])


def configurations(letters: str) -> st.SearchStrategy[object]:
    """Return nested settings, some of them secrets whose last characters are these letters."""
    secrets = st.dictionaries(secret_names, st.text(letters, min_size=1).map(SECRET.__add__), max_size=3)
    return st.recursive(
        secrets,
        lambda inner: st.dictionaries(st.sampled_from(["a", "b", "use"]), inner | st.integers() | st.booleans()),
        max_leaves=8,
    )


@given(configurations("abc \"'\n:#|,{}[]=0"), st.booleans())
def test_a_redacted_configuration_is_valid_yaml_without_secrets(configuration: object, flow: bool) -> None:
    """In lines of at most 500 characters: a longer value counts as a secret up to the end of its line."""
    text = yaml.safe_dump(configuration, default_flow_style=flow, width=10_000)
    assume(max(map(len, text.splitlines())) <= 500)
    clean = Redactor({}).text(text)
    assert SECRET not in clean
    assert shape(yaml.safe_load(clean)) == shape(configuration)


@given(configurations("abc \"'\\\n:#|,{}[]=0"))
def test_redacted_json_is_valid_json_without_secrets(configuration: object) -> None:
    clean = Redactor({}).text(json.dumps(configuration))
    assert SECRET not in clean
    assert shape(json.loads(clean)) == shape(configuration)


def shape(value: object) -> object:
    return {key: shape(each) for key, each in value.items()} if isinstance(value, dict) else None


def test_long_words_are_searched_quickly() -> None:
    for word in ("a" * 1_000_000, "a.b-" * 250_000, "token" * 200_000):
        assert Redactor({}).text(word) == word, "a search that begins at every letter would take hours"


def test_plain_words_are_not_secrets() -> None:
    assert Redactor({"WANDB_API_KEY": "disabled"}).text("mirrors are disabled") == "mirrors are disabled"


def test_files_are_changed_only_if_they_hold_secrets(tmp_path: Path) -> None:
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


def test_a_log_is_redacted_however_the_text_is_split() -> None:
    log = io.StringIO()
    stream = RedactedStream(log)
    for piece in ("a\nto", f"ken={SECRET[:5]}", f"{SECRET[5:]}\nb\n", "c"):
        stream.write(piece)
    assert log.getvalue() == f"a\ntoken={REDACTED}\nb\n"
    stream.finish()
    assert log.getvalue().endswith("b\nc")


@pytest.mark.parametrize(
    "text",
    [
        *(" " * 200_000, ("\t" * 20_000 + "\n") * 5, "sk-" * 60_000, "eyJ-" * 50_000),
        *("curl " * 40_000, "curl -" + "u" * 200_000, "curl -u " + "a" * 200_000, "docker  " * 30_000),
        *(
            "cookie: " * 30_000,
            "Cookie: " + "a" * 200_000,
            "curl " + "\\\n" * 60_000,
            "mysql -p " * 20_000,
            "curl " + ".-u" * 70_000,
        ),
    ],
    ids=lambda text: repr(text[:9]),
)
def test_no_text_takes_longer_than_its_length_allows(text: str) -> None:
    assert Redactor({}, []).text(text) == text  # with the square of the length, it took an hour


@pytest.mark.parametrize(
    "text",
    [
        *(
            "token" + " " * 100_000,
            "token=a(" * 20_000,
            "token: str, " * 10_000,
            "token: <" * 20_000,
            "key_a_" * 20_000,
        ),
        *("://a:" * 30_000, "token=[" * 20_000, "-" * 200_000, "\\" * 200_000, "token\n" * 20_000, ", token: " * 100),
    ],
    ids=lambda text: repr(text[:9]),
)
def test_no_secrets_take_longer_than_their_length_allows(text: str) -> None:
    assert len(Redactor({}, []).text(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"MYSQL_PWD={SECRET}", f"MYSQL_PWD={REDACTED}"),
        (f"machine x login you password {SECRET}\n", f"machine x login you password {REDACTED}\n"),
        (f"curl -u me:{SECRET} https://a.example", f"curl -u {REDACTED} https://a.example"),
        (f"curl -sSu 'me:two {SECRET}' https://a.example", f"curl -sSu '{REDACTED}' https://a.example"),
        (f"curl --user me:{SECRET} -U you:{SECRET}", f"curl --user {REDACTED} -U {REDACTED}"),
        (f"curl https://a.example \\\n  --user=me:{SECRET}\nls", f"curl https://a.example \\\n  --user={REDACTED}\nls"),
        (f"Command '['curl', '-u', 'me:{SECRET}', 'x']' failed", f"Command '['curl', '-u', '{REDACTED}', 'x']' failed"),
        (f'{{"cmd": "curl -u me:{SECRET}", "seed": 3}}', f'{{"cmd": "curl -u {REDACTED}", "seed": 3}}'),
        (f"curl -b session={SECRET} x", f"curl -b {REDACTED} x"),
        (f"Cookie: a=b; session={SECRET}\nHost: x", f"Cookie: {REDACTED}\nHost: x"),
        (f"< set-cookie: id={SECRET}; Expires=Wed, 1 Jan; Secure", f"< set-cookie: {REDACTED}"),
        (f'Set-Cookie: id="{SECRET}"; Path=/\nHost: x', f"Set-Cookie: {REDACTED}\nHost: x"),
        (f'{{"Cookie": "id={SECRET}; b=c", "seed": 3}}', f'{{"Cookie": "{REDACTED}", "seed": 3}}'),
        (f'{{"h": "Cookie: id={SECRET}", "seed": 3}}', f'{{"h": "Cookie: {REDACTED}", "seed": 3}}'),
        ('{"h": "Cookie: id=", "seed": 3}', f'{{"h": "Cookie: {REDACTED}", "seed": 3}}'),
        (f"curl -H 'Cookie: id={SECRET}' -d 'x'", f"curl -H 'Cookie: {REDACTED}' -d 'x'"),
        (f"sshpass -p {SECRET} ssh you@x mkdir -p logs", f"sshpass -p {REDACTED} ssh you@x mkdir -p logs"),
        (f"sshpass -p{SECRET} ssh -p 22 x", f"sshpass -p{REDACTED} ssh -p 22 x"),
        (f"docker login -u me -p {SECRET} a.example", f"docker login -u me -p {REDACTED} a.example"),
        (f"['docker', 'login', '-p', '{SECRET}']", f"['docker', 'login', '-p', '{REDACTED}']"),
        (f"mysqldump -u me -p{SECRET} runs", f"mysqldump -u me -p{REDACTED} runs"),
        (f"redis-cli -h x -a {SECRET} ping", f"redis-cli -h x -a {REDACTED} ping"),
        (f"mongosh -u me -p '{SECRET}' x", f"mongosh -u me -p '{REDACTED}' x"),
    ],
)
def test_passwords_on_command_lines_and_cookies_are_replaced(text: str, clean: str) -> None:
    assert Redactor({}, []).text(text) == clean
