"""Export a policy as TorchScript and ONNX, with the contract that a robot needs to run it."""

from ledger_lab.pipeline.script import run_script

if __name__ == "__main__":
    from ledger_lab.pipeline.export_policy import export_policy

    run_script(export_policy)
