"""LedgerLab: what it cost, in minutes and dollars, to get a policy that provably works."""


def __getattr__(name: str) -> str:
    """Look up ``__version__`` on demand, so that importing the package stays free of side effects."""
    if name == "__version__":
        from importlib.metadata import version

        return version("ledger_lab")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
