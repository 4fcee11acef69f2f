"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

from ledger_lab.terminal.script import run_script

if __name__ == "__main__":
    from ledger_lab.checkpoints.export import export_policy

    run_script(export_policy)
