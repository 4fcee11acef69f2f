"""The part of a Kubernetes API server that ``kubectl`` needs to create, get and delete jobs. It runs no pods."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_JOB = "/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
_KIND = {"group": "batch", "version": "v1", "kind": "Job"}
_VALIDATES = {"x-kubernetes-group-version-kind": _KIND, "parameters": [{"name": "fieldValidation", "in": "query"}]}


def _resource(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "singularName": kind.lower(), "namespaced": True, "kind": kind, "verbs": ["create", "get"]}


_ANSWERS: dict[str, dict[str, Any]] = {
    "/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.2"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "batch",
                "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"},
            }
        ],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [_resource("pods", "Pod"), _resource("persistentvolumeclaims", "PersistentVolumeClaim")],
    },
    "/apis/batch/v1": {
        "kind": "APIResourceList",
        "groupVersion": "batch/v1",
        "resources": [_resource("jobs", "Job")],
    },
    "/openapi/v3": {"paths": {"apis/batch/v1": {"serverRelativeURL": "/openapi/v3/apis/batch/v1"}}},
    "/openapi/v3/apis/batch/v1": {"openapi": "3.0.0", "paths": {_JOB: {"patch": _VALIDATES}}},
    "/api/v1/namespaces/robots/persistentvolumeclaims/shared.nfs": {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "metadata": {"name": "shared.nfs"},
        "spec": {"accessModes": ["ReadWriteMany"]},
    },
    "/api/v1/namespaces/robots/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []},
}


class KubernetesApi:
    """A server on loopback."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.changes: list[tuple[str, str, dict[str, Any]]] = []
        """Method, path with query, and body of each request that changes something."""

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run the server, and give its address."""
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def _send(self, code: int, answer: dict[str, Any]) -> None:
                content = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _fail(self, code: int, reason: str, message: str) -> None:
                self._send(code, {"kind": "Status", "status": "Failure", "reason": reason, "message": message})

            def _note(self) -> tuple[str, dict[str, Any]]:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                api.changes.append((self.command, self.path, body))
                return self.path.partition("?")[0].rpartition("/")[2], body

            def do_GET(self) -> None:  # noqa: N802 (the name that the module asks for)
                path = self.path.partition("?")[0]
                found = _ANSWERS.get(path) or api.jobs.get(path.rpartition("/")[2])
                self._send(200, found) if found else self._fail(404, "NotFound", f"{path} not found")

            def do_POST(self) -> None:  # noqa: N802
                _, job = self._note()
                name = job["metadata"]["name"]
                if name in api.jobs:
                    return self._fail(409, "AlreadyExists", f'jobs.batch "{name}" already exists')
                api.jobs[name] = {**job, "status": {"active": 2}}
                return self._send(201, api.jobs[name])

            def do_DELETE(self) -> None:  # noqa: N802
                name, _ = self._note()
                self._send(200, api.jobs.pop(name))

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def write_kubeconfig(path: Path, address: str) -> None:
    """Write a configuration of ``kubectl`` whose context ``lab`` is a server."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": address}}],
        "users": [{"name": "me", "user": {"token": "none"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
    }
    path.write_text(json.dumps(content))
