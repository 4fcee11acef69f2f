"""A lost GPU is told as what it is: its fault, and not the errors that follow from it. CUDA is emulated."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ledger_lab.errors import FirstErrorStack, UserError
from ledger_lab.ledger import Status
from ledger_lab.ledger.endings import reason_of, status_of
from ledger_lab.training.runners import session

SHORT = "Failed to allocate 4096 bytes on device 'cuda:0'"
FAULT = "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress' in the manual."


def failing(message: str) -> Callable[..., None]:
    def fail(*args: Any) -> None:
        raise RuntimeError(message)

    return fail


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the context of an environment on an emulated GPU, whose closing fails."""
    monkeypatch.setattr(session.gym, "make", lambda task, cfg: SimpleNamespace(close=failing("Warp CUDA error 700")))
    monkeypatch.setattr(session, "import_environment", lambda cfg: None)
    cfg: Any = SimpleNamespace(scene=SimpleNamespace(), sim=SimpleNamespace(device="cuda:0", physics=None))
    return lambda: session.environment("Task", cfg)


@pytest.mark.parametrize("short", [SHORT, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"])
def test_after_a_fault_lack_of_memory_is_a_crash(short: str, simulated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", failing(FAULT))
    with pytest.raises(RuntimeError) as raised, simulated():
        raise RuntimeError(short)
    assert status_of(raised.value) is Status.CRASHED
    assert reason_of(raised.value) == f"RuntimeError: {FAULT.splitlines()[0]} (what failed first: {short})"


@pytest.mark.parametrize("sound", [lambda device: None, failing("operation not permitted when stream is capturing")])
def test_without_a_fault_it_is_lack_of_memory(sound: Any, simulated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", sound)
    with pytest.raises(RuntimeError) as raised, simulated():
        raise RuntimeError(SHORT)
    assert (status_of(raised.value), str(raised.value)) == (Status.OUT_OF_MEMORY, SHORT)
    assert raised.value.__notes__ == ["closing failed, too: RuntimeError: Warp CUDA error 700"]


def test_closing_does_not_replace_the_first_error(simulated: Any) -> None:
    with pytest.raises(KeyboardInterrupt), simulated():
        raise KeyboardInterrupt
    with pytest.raises(RuntimeError, match="Warp CUDA error 700"), simulated():
        pass


def test_only_an_error_that_names_the_first_one_replaces_it() -> None:
    def translate(kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            raise UserError("name another") from error

    first = KeyError("it")
    with pytest.raises(UserError, match="name another"), FirstErrorStack() as stack:
        stack.push(translate)
        raise first
    with pytest.raises(KeyError), FirstErrorStack() as stack:
        stack.callback(failing("later"))
        stack.callback(failing("sooner"))
        raise first
    assert first.__notes__ == ["closing failed, too: RuntimeError: later"]
