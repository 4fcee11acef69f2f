"""The real ``kubectl`` takes the commands and the file, and sends what was meant.

It talks to a server on loopback that stores jobs, because no cluster can run here.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
import yaml

from ledger_lab.clusters.kubernetes import ENGINE, KubernetesSite
from ledger_lab.clusters.submissions import new_folder
from ledger_lab.clusters.submit import hand_over
from ledger_lab.errors import UserError
from tests.clusters.test_kubernetes_files import FULL, plan
from tests.fakes.kubernetes_api import KubernetesApi, write_kubeconfig

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KubernetesSite:
    """Returns a cluster whose server does not run."""
    write_kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = {**FULL.environment, "HOSTILE": "\U0001f600 ünï \\ \" ' \\u0041 $(A) ${B} #: - |"}
    return dataclasses.replace(
        FULL, context="lab", mount=tmp_path, log_root=tmp_path / "ledger", environment=environment
    )


def test_kubectl_creates_finds_and_deletes_the_job(site: KubernetesSite, tmp_path: Path) -> None:
    api = KubernetesApi()
    with api.running() as address:
        write_kubeconfig(tmp_path / "config", address)
        submission = hand_over(ENGINE, site, plan(3, 2, processes=4), new_folder(site.log_root, "study"))
        ((method, path, sent),) = api.changes
        assert (method, path.partition("?")[0]) == ("POST", "/apis/batch/v1/namespaces/robots/jobs")
        assert "fieldValidation=Strict" in path
        assert sent == yaml.safe_load((submission.folder / "job.yaml").read_text())
        assert ENGINE.find(submission) == submission.job
        assert {index: each.said for index, each in ENGINE.queued(submission).items()} == dict.fromkeys(
            range(3), "waiting"
        )
        ENGINE.cancel(submission)
        assert api.changes[-1][0] == "DELETE" and api.changes[-1][2] == {"propagationPolicy": "Foreground"}
        assert ENGINE.queued(submission) == {} and ENGINE.find(submission) is None


def test_kubectl_that_reaches_nobody_is_told_in_one_line(site: KubernetesSite) -> None:
    with pytest.raises(UserError, match="was refused"):
        ENGINE.check(site, plan(1))
    with pytest.raises(UserError, match='context "other" does not exist: correct context'):
        ENGINE.check(dataclasses.replace(site, context="other"), plan(1))
