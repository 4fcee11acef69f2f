"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

from ledger_lab.cli.programs import run

if __name__ == "__main__":
    run("export_policy")
