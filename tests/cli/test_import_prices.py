"""Catalogs of gpuhunt become dated price entries with a source, without a network. The catalogs are invented."""

from __future__ import annotations

import errno
import io
import os
import re
import socket
import zipfile
from pathlib import Path

import pytest

from ledger_lab.cli.import_prices import import_prices
from ledger_lab.errors import UserError
from ledger_lab.ledger.costs import load_prices
from ledger_lab.ledger.costs.catalogs import read_catalogs
from tests.conftest import ROOT, script

CATALOGS = ROOT / "tests" / "fakes" / "catalogs"
AWS, GCP, VERDA = (CATALOGS / f"{name}.csv" for name in ("aws", "gcp", "verda"))
DATED = ("--date", "2026-11-01")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything opens a connection."""

    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def imported(tmp_path: Path, *arguments: str | Path) -> dict[str, float | None]:
    """Import catalogs, and return the prices of the file that was written."""
    output = tmp_path / "prices.toml"
    assert import_prices([*map(str, arguments), "--output", str(output)]) == 0
    return {name: price.usd_per_hour for name, price in load_prices(output).items()}


def refusal(*arguments: str | Path) -> str:
    """Return the one-line complaint about what can't be imported."""
    with pytest.raises(UserError) as caught:
        import_prices([*map(str, arguments)])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def archive(path: Path, *tables: Path, date_time: tuple[int, int, int, int, int, int] = (2026, 10, 5, 1, 2, 4)) -> Path:
    """Write an archive of tables as gpuhunt publishes them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for table in tables:
            file.writestr(zipfile.ZipInfo(table.name, date_time), table.read_bytes())
    return path


def test_spot_and_on_demand_prices_are_separate_entries(tmp_path: Path) -> None:
    assert imported(tmp_path, AWS, *DATED) == {
        "aws-g6.xlarge@us-east-1": 0.75,
        "aws-g6.xlarge@us-east-1-spot": 0.25,
        "aws-g6.xlarge@eu-west-1": 0.875,
        "aws-p5.48xlarge@us-east-1": 50.0,
        "aws-p5.48xlarge@us-east-1-spot": 20.0,
    }
    price = load_prices(tmp_path / "prices.toml")["aws-p5.48xlarge@us-east-1-spot"]
    assert (price.accelerators, price.accelerator, price.market) == (8, "NVIDIA H100 80GB", "spot")
    assert (price.region, price.date) == ("us-east-1", "2026-11-01")
    assert price.source is not None and price.source.startswith("gpuhunt catalog aws.csv (SHA-256 ")
    ours = load_prices()["aws-g6.xlarge"]
    assert price.billing_granularity_s == ours.billing_granularity_s
    assert price.billing_minimum_s == ours.billing_minimum_s == 60


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--gpu", "h100", "--spot"), {"aws-p5.48xlarge@us-east-1-spot"}),
        (("--gpu", "H100", "--on_demand"), {"aws-p5.48xlarge@us-east-1"}),
        (("--region", "eu-west-1"), {"aws-g6.xlarge@eu-west-1"}),
        (("--count", "8", "--on_demand"), {"aws-p5.48xlarge@us-east-1"}),
        (("--provider", "gcp", "--gpu", "L4"), {"gcp-g2-standard-4@us-central1-a"}),
        (
            ("--region", "us-central1-a", "--region", "eu-west-1", "--gpu", "L4"),
            {"gcp-g2-standard-4@us-central1-a", "aws-g6.xlarge@eu-west-1"},
        ),
    ],
)
def test_flags_select_offers(tmp_path: Path, arguments: tuple[str, ...], names: set[str]) -> None:
    assert set(imported(tmp_path, AWS, GCP, *DATED, *arguments)) == names


@pytest.mark.parametrize("count", [(), ("--count", "2")])
def test_an_ambiguous_entry_name_is_extended_for_every_selection(tmp_path: Path, count: tuple[str, ...]) -> None:
    prices = imported(tmp_path, GCP, *DATED, "--gpu", "T4", *count)
    assert prices["gcp-n1-standard-8@us-central1-a-2xT4-8cpu-30gb"] == 1.125
    assert len(prices) == (1 if count else 2)


def test_an_archive_gives_the_day_of_its_prices(tmp_path: Path) -> None:
    imported(tmp_path, archive(tmp_path / "catalog.zip", AWS, GCP))
    prices = load_prices(tmp_path / "prices.toml")
    assert {price.date for price in prices.values()} == {"2026-10-05"}
    assert {name.split("-")[0] for name in prices} == {"aws", "gcp"}
    assert all("catalog.zip:" in (price.source or "") for price in prices.values())


def test_an_undated_catalog_is_refused(tmp_path: Path) -> None:
    assert refusal(AWS) == f"{AWS}: the table has no date: give the day of its prices with --date YYYY-MM-DD"
    undated = archive(tmp_path / "catalog.zip", AWS, date_time=(1980, 1, 1, 0, 0, 0))
    assert "the table has no date" in refusal(undated)


def test_a_provider_with_unknown_billing_needs_the_billing_flags(tmp_path: Path) -> None:
    assert "doesn't say how verda bills: give --billing_granularity_s" in refusal(VERDA, *DATED)
    rule = ("--billing_granularity_s", "600", "--billing_minimum_s", "0")
    imported(tmp_path, VERDA, *DATED, *rule)
    (price,) = load_prices(tmp_path / "prices.toml").values()
    assert (price.billing_granularity_s, price.billing_minimum_s) == (600, 0)


@pytest.mark.parametrize(
    ("price", "complaint"),
    [
        ("-0.75", "aws-g6.xlarge@us-east-1: usd_per_hour must be a finite number of at least 0, not -0.75"),
        ("nan", "aws-g6.xlarge@us-east-1: usd_per_hour must be a finite number of at least 0, not nan"),
    ],
)
def test_an_impossible_price_is_reported_with_file_entry_and_field(tmp_path: Path, price: str, complaint: str) -> None:
    table = tmp_path / "aws.csv"
    table.write_text(AWS.read_text().replace("us-east-1,0.75,", f"us-east-1,{price},"))
    assert refusal(table, *DATED) == f"{table}: {complaint}"


def test_two_prices_of_one_entry_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "aws.csv"
    lines = AWS.read_text().splitlines()
    table.write_text("\n".join([*lines, lines[1].replace("0.75", "0.5")]))
    assert "aws-g6.xlarge@us-east-1: usd_per_hour is both 0.75 and 0.5" in refusal(table, *DATED)


def test_unreadable_lines_are_counted_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "aws.csv"
    table.write_text(AWS.read_text().replace("us-east-1,0.75,", "us-east-1,cheap,"))
    assert "aws-g6.xlarge@us-east-1" not in imported(tmp_path, table, *DATED)
    assert "1 lines left out, the first: line 2: could not convert string to float: 'cheap'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((AWS, *DATED, "--gpu", "H1000"), "--gpu H1000: no catalog has it: did you mean 'H100'?"),
        ((AWS, *DATED, "--region", "us-east-9"), "--region us-east-9: no catalog has it: did you mean"),
        ((AWS, *DATED, "--provider", "gcp"), "--provider gcp: no catalog has it: known: aws"),
        ((AWS, *DATED, "--count", "3"), "none of 5 offers with an accelerator matches"),
        ((AWS, AWS, *DATED), "aws.csv is named twice"),
        (("absent.zip", *DATED), "absent.zip: cannot read the catalog: No such file or directory"),
    ],
)
def test_an_import_without_a_result_is_explained(arguments: tuple[str | Path, ...], complaint: str) -> None:
    assert complaint in refusal(*arguments)


def test_files_that_are_not_catalogs_are_reported(tmp_path: Path) -> None:
    (tmp_path / "aws.csv").write_text("a,b\n1,2\n")
    assert "no line has the format of gpuhunt's tables: line 2 has no gpu_name" in refusal(tmp_path / "aws.csv", *DATED)
    (tmp_path / "aws.csv").write_bytes(b"\xff\xfe\x00")
    assert "aws.csv: not a table: 'utf-8' codec can't decode" in refusal(tmp_path / "aws.csv", *DATED)
    (tmp_path / "x.zip").write_text("no archive")
    assert "neither a table <provider>.csv nor an archive" in refusal(tmp_path / "x.zip", *DATED)
    assert "has no table" in refusal(archive(tmp_path / "empty.zip"), *DATED)
    torn = archive(tmp_path / "torn.zip", AWS)
    data = bytearray(torn.read_bytes())
    data[60:80] = bytes(20)
    torn.write_bytes(data)
    assert "neither a table <provider>.csv nor an archive" in refusal(torn, *DATED)


@pytest.mark.timeout(20)
def test_a_device_or_a_pipe_is_no_catalog(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="/dev/zero: it is a device or a pipe"):
        import_prices(["/dev/zero"])
    os.mkfifo(tmp_path / "aws.csv")
    assert "aws.csv: it is a device or a pipe" in refusal(tmp_path / "aws.csv", *DATED)


def test_a_written_file_is_never_replaced(tmp_path: Path) -> None:
    output = tmp_path / "prices.toml"
    output.write_text("mine")
    assert "exists already" in refusal(AWS, *DATED, "--output", output)
    assert output.read_text() == "mine"
    assert "cannot write" in refusal(AWS, *DATED, "--output", output / "x.toml")


def test_catalogs_without_vendors_are_read(tmp_path: Path) -> None:
    """Old catalogs name TPUs by a prefix; all their other devices are NVIDIA's."""
    lines = [",".join(line.split(",")[:10]) for line in AWS.read_text().splitlines()]
    table = tmp_path / "gcp.csv"
    table.write_text("\n".join([*lines, "v4-8,us-central2-b,12.5,96,400.0,4,tpu-v4,32.0,False,"]))
    imported(tmp_path, table, *DATED)
    accelerators = {price.accelerator for price in load_prices(tmp_path / "prices.toml").values()}
    assert accelerators == {"NVIDIA L4 24GB", "NVIDIA H100 80GB", "Google v4 32GB"}


def test_the_program_prints_a_price_file_or_one_line_with_status_2(tmp_path: Path) -> None:
    finished = script("import_prices", AWS, *DATED, "--gpu", "H100")
    assert (finished.returncode, finished.stderr) == (0, "")
    (tmp_path / "prices.toml").write_text(finished.stdout)
    assert len(load_prices(tmp_path / "prices.toml")) == 2
    finished = script("import_prices", AWS)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith("error: ") and finished.stderr.count("\n") == 1


def test_the_tables_of_an_archive_are_limited_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = AWS.read_text()
    archive = tmp_path / "catalog.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for number in range(5):
            packed.writestr(f"aws{number}.csv", text)
    monkeypatch.setattr("ledger_lab.ledger.costs.catalogs._LARGEST", 5 * len(text.encode()))
    assert len(read_catalogs(archive)) == 5
    monkeypatch.setattr("ledger_lab.ledger.costs.catalogs._LARGEST", 5 * len(text.encode()) - 1)
    assert "MB of tables are more than" in refusal(archive)
    monkeypatch.setattr("ledger_lab.ledger.costs.catalogs._LARGEST", len(text.encode()) - 1)
    assert "MB of tables are more than" in refusal(AWS)


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "aws.csv"
    table.write_text('instance_name,price\n"' + "x" * 200_000)
    assert re.search(r"aws.csv: not a table: line \d+: field larger than field limit", refusal(table, *DATED))


def test_a_price_file_that_cannot_be_written_whole_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_lab.reports.terminal.console import write_new

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    output = tmp_path / "prices.toml"

    def opened(path: Path, *_: object, **__: object) -> Full:
        path.touch()
        return Full()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(UserError, match="No space left on device"):
            write_new(output, "a price")
    assert not output.exists()
    write_new(output, "a price")
    with pytest.raises(UserError, match="exists already"):
        write_new(output, "another price")
    assert output.read_text() == "a price"
