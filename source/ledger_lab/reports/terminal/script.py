"""Runs a program as a script: errors in one line, and exit statuses."""

from __future__ import annotations

import os
import pkgutil
import select
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import IO, Any, NoReturn

from ledger_lab.errors import UserError, as_user_error
from ledger_lab.ledger.cores import imports
from ledger_lab.ledger.endings import Terminated
from ledger_lab.reports.terminal.console import tell_error
from ledger_lab.reports.terminal.kernel_cache import require_kernel_cache
from ledger_lab.reports.terminal.surroundings import accept_surroundings, compile_forward_only

EXIT_NOBODY_READS = 141
"""Exit status that shells show for a program that SIGPIPE ended."""


def run_script(program: Callable[[Sequence[str]], int | None]) -> NoReturn:
    """Run a program with the command line, and exit with its status.

    An error that the user can correct is printed in one line, with status 2. If foreign code caused it, ``--verbose``
    prints the traceback first.

    Args:
        program: Takes the command line without the program's name, and returns the exit status.
    """
    accept_surroundings()
    try:
        try:
            _require_working_folder()
            sys.exit(program(sys.argv[1:]))
        finally:
            sys.stdout.flush()  # a reader that has gone is noticed here, and not at the exit of the interpreter
    except UserError as error:
        if error.__cause__ is not None and "--verbose" in sys.argv:
            traceback.print_exception(error.__cause__)
        sys.exit(tell_error(error))
    except BrokenPipeError:
        if not _nobody_reads(sys.stdout):
            raise
        # The interpreter writes what is left at its exit, and would report the broken pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_NOBODY_READS)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        if as_user_error(error) is None:
            raise
        sys.exit(tell_error(error))
    except MemoryError:
        sys.exit(tell_error(UserError("not enough memory: free some, or raise the limit of this process (ulimit -v)")))
    except KeyboardInterrupt:
        sys.exit(130)
    except Terminated:
        sys.exit(143)


def _require_working_folder() -> None:
    """Refuse a working folder that was removed: some libraries then end the process without a word on the cause."""
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise UserError("the working folder was removed: change to another folder (cd)") from error


def _nobody_reads(stream: IO[str]) -> bool:
    """Tell whether a stream is a pipe whose reader has gone, as `head` does when it has read enough."""
    look = select.poll()
    look.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in look.poll(0))


def imported_later(name: str) -> Callable[..., Any]:
    """Return a program that is imported when it runs, because it imports torch and Isaac Lab.

    Args:
        name: Its module and function, like ``ledger_lab.training.run:train_run``.

    The program raises a :class:`~ledger_lab.errors.UserError` if the cache of compiled kernels can't be used.
    """

    def program(*arguments: Any) -> Any:  # noqa: ANN401 - what the program takes and returns
        require_kernel_cache(os.environ)
        with imports():
            compile_forward_only()
            function = pkgutil.resolve_name(name)
        return function(*arguments)

    return program
