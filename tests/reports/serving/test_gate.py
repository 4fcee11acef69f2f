"""The server: whoever lacks the token, comes from elsewhere, or wants more than to read, gets nothing."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.fakes.live import LiveTraining
from tests.fakes.serving import ROOT, Server, serving

HOSTILE = "</script><img src=x onerror=alert(1)>"


@dataclass
class Answer:
    status: int
    text: str
    headers: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose ledger has a run with a policy, a video, a console, and a file that is none of these."""
    root = tmp_path_factory.mktemp("served")
    (root / "secret.mp4").write_text("secret")
    with LiveTraining(root / "logs", "aa", task=HOSTILE) as training:
        training.iterate()
        training.save()
        training.say(f"{HOSTILE}\n")
        (training.directory / "notes.txt").write_text("private")
        folder = training.directory / "videos"
        folder.mkdir()
        (folder / "film.mp4").write_bytes(bytes(range(100)))
        (folder / "link.mp4").symlink_to(root / "secret.mp4")
        with serving(root / "logs") as served:
            yield served


def ask(server: Server, path: str, method: str = "GET", token: str | None = None, **headers: str) -> Answer:
    """Ask the server; with its token, unless another one is given."""
    given = {"Authorization": f"Bearer {server.token if token is None else token}"}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(
        method, path, headers={**given, **{key.replace("_", "-"): text for key, text in headers.items()}}
    )
    response: HTTPResponse = connection.getresponse()
    text = response.read().decode("utf-8", errors="replace")
    connection.close()
    return Answer(response.status, text, {key.lower(): value for key, value in response.getheaders()})


def test_with_the_token_everything_is_shown(server: Server) -> None:
    page = ask(server, "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "&lt;img src=x" in page.text and "<img" not in page.text
    assert ask(server, "/live").headers["content-type"] == "application/json"
    assert "<script>" not in ask(server, "/parts").text
    policy = ask(server, "/runs/aa/policies/model_1.pt")
    assert (policy.text, policy.headers["content-type"]) == ("weights", "application/octet-stream")
    assert policy.headers["content-disposition"] == 'attachment; filename="model_1.pt"'
    log = ask(server, "/runs/aa/console")
    assert (log.text, log.headers["content-type"]) == (HOSTILE, "text/plain; charset=utf-8")


def test_a_player_can_ask_for_a_part_of_a_video(server: Server) -> None:
    part = ask(server, "/runs/aa/videos/videos/film.mp4", Range="bytes=10-12")
    assert (part.status, part.headers["content-type"], part.text) == (206, "video/mp4", "\n\x0b\x0c")


@pytest.mark.parametrize(
    "path", ["/", "/live", "/parts", "/enter", "/runs/aa/console", "/runs/aa/policies/model_1.pt", "/no"]
)
@pytest.mark.parametrize("token", ["", "wrong", "ü"])
def test_without_the_token_there_is_nothing(server: Server, path: str, token: str) -> None:
    answer = ask(server, path, token=token.encode().decode("latin-1"))
    assert answer.status == 401
    assert "aa" not in answer.text.replace("One moment", "") or path == "/"
    assert "set-cookie" not in answer.headers


def test_the_token_gives_a_cookie_that_scripts_and_other_sites_cannot_use(server: Server) -> None:
    entered = ask(server, "/enter")
    home, cookie = entered.text.removesuffix("/"), entered.headers["set-cookie"]
    assert cookie.endswith(f"; HttpOnly; Path={home}; SameSite=strict")
    assert len(home) > 20 and server.token not in home, "no other server knows where browsers send the cookie"
    pair = cookie.partition(";")[0]
    assert ask(server, f"{home}/live", token="", Cookie=pair).status == 200
    assert ask(server, f"{home}/", token="", Cookie=pair, Sec_Fetch_Site="none").status == 200
    assert ask(server, f"{home}/live", token="", Cookie="ledger_lab=wrong").status == 401
    others = """theirs={"a": [1, "b"]}; é=; =; x"""
    assert ask(server, f"{home}/live", token="", Cookie=f"{others}; {pair}").status == 200, "beside those of any server"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_reading(server: Server, method: str) -> None:
    answer = ask(server, "/", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert "access-control-allow-origin" not in answer.headers


def test_only_the_head_can_be_asked_for(server: Server) -> None:
    answer = ask(server, "/", "HEAD")
    assert (answer.status, answer.text) == (200, "")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "0.0.0.0", "[::1]:80", ""]
)
def test_another_name_of_this_computer_gets_nothing(server: Server, host: str) -> None:
    assert ask(server, "/live", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost:9000", "LOCALHOST", "127.0.0.1"])
def test_a_tunnel_may_have_another_port(server: Server, host: str) -> None:
    assert ask(server, "/live", Host=host).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_server_gets_nothing(server: Server, site: str) -> None:
    assert ask(server, "/live", Sec_Fetch_Site=site).status == 403
    assert ask(server, "/", Sec_Fetch_Site=site).status == 200, "a link to the page may be followed"


def test_a_page_of_an_earlier_server_at_this_port_says_what_to_open(server: Server) -> None:
    assert 'id="said"' in ask(server, "/0123456789abcdef/", token="").text
    assert ask(server, "/0123456789abcdef/live", token="").text == "the token is missing\n"


@pytest.mark.parametrize(
    "path",
    [
        "/runs/aa/policies/notes.txt",
        "/runs/aa/policies/journal-1-0.jsonl",
        "/runs/aa/policies/../../../../secret.mp4",
        "/runs/aa/policies/%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.mp4",
        "/runs/aa/policies//etc/passwd",
        "/runs/aa/policies/model_1.pt%00",
        "/runs/aa/videos/videos/link.mp4",
        "/runs/aa/videos/model_1.pt",
        "/runs/..%2faa/console",
        "/runs/bb/console",
        "/../../etc/passwd",
        "/scripts/serve.py",
    ],
)
def test_no_other_file_is_served(server: Server, path: str) -> None:
    assert ask(server, path).status == 404


def test_every_answer_has_the_headers_that_keep_it_here(server: Server) -> None:
    for path, token in (
        ("/", None),
        ("/", ""),
        ("/live", None),
        ("/live", "wrong"),
        ("/no", None),
        ("/runs/aa/console", None),
    ):
        headers = ask(server, path, token=token).headers
        assert headers["referrer-policy"] == "no-referrer", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["cache-control"] == "no-store", path
        assert headers["content-security-policy"].startswith("default-src 'none'"), path
        assert "'unsafe-inline'" not in headers["content-security-policy"], path


def test_it_listens_on_loopback_alone_and_the_token_is_in_no_command_line_or_log(server: Server) -> None:
    with pytest.raises(OSError), socket.create_connection(("127.0.0.2", server.port), timeout=5):
        pass
    assert server.token not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
    ask(server, f"/nothing?{server.token}")
    assert server.errors() == ""
    written = [path for path in server.log_root.rglob("*") if path.is_file()]
    assert not any(server.token.encode() in path.read_bytes() for path in written)


def test_a_port_in_use_and_other_addresses_are_refused(server: Server) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "serve.py"), str(server.log_root)]
    taken = subprocess.run([*command, "--port", str(server.port)], capture_output=True, text=True)
    assert (taken.returncode, taken.stdout) == (2, "")
    assert (
        taken.stderr == f"error: --port {server.port}: Address already in use: give another port, or 0 for a free one\n"
    )
    elsewhere = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True)
    assert (elsewhere.returncode, len(elsewhere.stderr.splitlines())) == (2, 1)


def test_ctrl_c_ends_at_once_although_a_browser_is_connected(tmp_path: Path) -> None:
    with LiveTraining(tmp_path, "aa"), serving(tmp_path) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as half:
            half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            time.sleep(0.2)
            os.kill(served.process.pid, signal.SIGINT)
            assert served.process.wait(timeout=20) == 130
        assert served.errors() == ""


def test_requests_that_make_no_sense_leave_no_line(server: Server) -> None:
    upgrade = b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    for nonsense in (b"nonsense\r\n\r\n", b"GET /\xff HTTP/1.1\r\n\r\n", upgrade, b"POST / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(nonsense)
            while client.recv(1 << 16):
                pass
    assert server.errors() == ""
