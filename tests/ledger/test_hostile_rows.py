"""No value in a correctly chained journal causes a traceback or changes the figures of another run."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger_lab.cli.report import build_report
from ledger_lab.cli.verify import verify_ledger
from ledger_lab.errors import UserError
from ledger_lab.ledger import read_ledger
from ledger_lab.ledger.content import KINDS
from ledger_lab.ledger.encoding import GENESIS, encode_line, hash_of
from ledger_lab.ledger.results import Outcomes
from ledger_lab.reports import summarize_run
from tests.fakes.hostile import one_of_each
from tests.fakes.ledgers import write_run

Hostile = tuple[Path, list[tuple[str, str, Any]], dict[str, Any]]
"""Root of a ledger, the rows of the attacked run, and the figures of the sound run."""

SAMPLES: dict[str, dict[str, Any]] = {
    type(row).__name__: row.to_data() for journal in one_of_each().values() for row in reversed(journal)
}
"""A row of every kind."""

HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-1, 2**63 - 1, 2**63, 2**64, 10**30, 1e308, -1e308, 0.0, -0.0]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "\0", "\x1b]0;x\x07", "\u202eabc", "a\nb", "[bold]", "<script>", "x" * 10_000, "../../x"]),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
    st.just(json.loads("[" * 200 + "]" * 200)),
)


def rows_of(path: Path) -> list[tuple[str, str, Any]]:
    """Return time, kind and fields of each row of a journal."""
    records = map(json.loads, path.read_bytes().splitlines())
    return [(each["time"], each["kind"], each["data"]) for each in records]


def write_chained(path: Path, rows: list[tuple[str, str, Any]]) -> None:
    """Write rows as a journal whose hashes are right."""
    previous, lines = GENESIS, []
    for number, (time, kind, data) in enumerate(rows):
        text = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
        lines.append(encode_line(number, time, kind, text, previous))
        previous = hash_of(lines[-1])
    path.write_bytes(b"".join(lines))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    """Return a ledger of a sound run and a run with every kind of row, those rows, and the sound run's figures."""
    root = tmp_path_factory.mktemp("hostile")
    write_run(root, "sound")
    rows = rows_of(write_run(root, "aa", state=True, proof=9) / "journal-1-0.jsonl")
    state = next(fields for _, kind, fields in rows if kind == "StateSaved")
    time = rows[0][0]
    further = {**SAMPLES, "StateRestored": {**SAMPLES["StateRestored"], "sha256": state["sha256"]}}
    known = {kind for _, kind, _ in rows}
    rows += [(time, kind, fields) for kind, fields in further.items() if kind not in known]
    path = root / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl"
    write_chained(path, rows)
    sound, _ = sorted(read_ledger(root).runs, key=lambda run: run.declared.run_id, reverse=True)
    assert sound.declared.run_id == "sound"
    return root, rows, asdict(summarize_run(sound))


def places(rows: list[tuple[str, str, Any]]) -> list[tuple[int, tuple[str | int, ...]]]:
    """Return every place of every row at which a value stands, once per kind."""
    found: list[tuple[int, tuple[str | int, ...]]] = []
    seen = set()

    def walk(number: int, kind: str, value: Any, way: tuple[str | int, ...]) -> None:  # noqa: ANN401 - any JSON value
        if way and (kind, way) not in seen:
            seen.add((kind, way))
            found.append((number, way))
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
        ):
            walk(number, kind, inner, (*way, key))

    for number, (_, kind, data) in enumerate(rows):
        walk(number, kind, data, ())
    return found


def changed(value: Any, way: tuple[str | int, ...], new: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return a JSON value with another one at a place."""
    if not way:
        return new
    copy = value.copy()
    copy[way[0]] = changed(value[way[0]], way[1:], new)
    return copy


def run_commands(root: Path, out: Path) -> None:
    """Ask for everything that commands say of a ledger; only errors for users are let pass."""
    for command, args in (
        (verify_ledger, []),
        (build_report, ["--details"]),
        (build_report, ["--json", str(out / "report.json")]),
        (build_report, ["query", "SELECT * FROM runs JOIN attempts USING (run_id)", "--json", str(out / "sql.json")]),
    ):
        try:
            assert command(["--log_root", str(root), *args]) in (0, 1)
        except UserError as error:
            assert len(str(error).splitlines()) == 1, error


def test_rows_of_every_kind_are_tried(ledger: Hostile) -> None:
    _, rows, _ = ledger
    assert {kind for _, kind, _ in rows} == set(KINDS)
    for name, kind in KINDS.items():
        some = next((data for _, each, data in rows if each == name), SAMPLES.get(name, {}))
        required = {each.name for each in fields(kind)}
        assert set(some) <= required


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_value_in_any_field_ends_a_command_in_a_traceback(
    ledger: Hostile,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root, rows, figures = ledger
    number, way = data.draw(st.sampled_from(places(rows)))
    time, kind, fields_of = rows[number]
    hostile = [*rows]
    hostile[number] = (time, kind, changed(fields_of, way, data.draw(HOSTILE)))
    write_chained(root / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl", hostile)
    run_commands(root, tmp_path_factory.mktemp("out"))
    sound = next(run for run in read_ledger(root, tolerate_damage=True).runs if run.declared.run_id == "sound")
    assert asdict(summarize_run(sound)) == figures


@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(text=st.binary(max_size=300) | st.sampled_from([b"[" * 100_000, b'{"a":' * 100_000, b"1" * 10_000, b"\xff" * 9]))
def test_no_bytes_in_place_of_the_fields_end_a_command_in_a_traceback(
    ledger: Hostile,
    text: bytes,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root, rows, _ = ledger
    path = root / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl"
    for kind in ("RunDeclared", "Telemetry", "Tally", "Health", "Nothing"):
        write_chained(path, rows)
        lines = path.read_bytes().splitlines(keepends=True)
        line = encode_line(len(lines), rows[0][0], kind, text.replace(b"\n", b" "), hash_of(lines[-1]))
        path.write_bytes(b"".join([*lines, line]))
        run_commands(root, tmp_path_factory.mktemp("out"))


@pytest.mark.parametrize("path", ["../model.pt", "/etc/passwd", "a/../../b", "..", "a\n/../b", "", "a\0b"])
def test_a_checkpoint_path_stays_inside_the_run_directory(path: str) -> None:
    fields_of = {"sha256": "00", "size_bytes": 1, "iteration": 1, "env_steps": 1, "wall_ns": 1}
    assert KINDS["CheckpointSaved"].from_data({"path": "nn/..model..pt", **fields_of})
    with pytest.raises(ValueError, match="path"):
        KINDS["CheckpointSaved"].from_data({"path": path, **fields_of})


def test_the_largest_numbers_in_all_places_at_once_end_no_command_in_a_traceback(
    ledger: Hostile, tmp_path: Path
) -> None:
    root, rows, figures = ledger
    path = root / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl"
    sample = SAMPLES["Telemetry"]
    empty = {each.name: [] for each in fields(Outcomes)}
    score = next(data for _, kind, data in rows if kind == "PanelResult")
    for value in (1e308, 1e30, float(2**63 - 1)):
        figures_of = {"utilization": 1.0, "power_w": value, "temperature_c": -value}
        largest = {
            "wall_ns": 2**63 - 1,
            "host": {**sample["host"], "cpu_s": value, "busiest_thread": value},
            "devices": [{**sample["devices"][0], **figures_of, "energy_mj": None}],
        }
        for kind, data in (
            ("Telemetry", largest),
            ("PanelResult", {**score, "outcomes": empty}),
        ):
            write_chained(path, [*rows, *[(rows[0][0], kind, data)] * 3])
            run_commands(root, tmp_path)
            build_or_refuse(root, tmp_path / "page.html")
            (sound,) = (run for run in read_ledger(root, tolerate_damage=True).runs if run.declared.run_id == "sound")
            assert asdict(summarize_run(sound)) == figures
    write_chained(path, rows)


def forge(rows: list[tuple[str, str, Any]], only: str | None = None, **changes: object) -> list[tuple[str, str, Any]]:
    """Return rows with other fields, where they have these fields."""
    return [
        (
            time,
            kind,
            {**data, **{name: new for name, new in changes.items() if name in data and kind == (only or kind)}},
        )
        for time, kind, data in rows
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"wall_ns": 0},
        {"only": "PhaseWindow", "phase_ns": {"evaluate": 10**15}},
        {"only": "PhaseWindow", "phase_ns": {"simulate": 2**63 - 1}},
        {"only": "PhaseWindow", "figures": {"mean_return": 1.7e308}},
        {"only": "CapacityUsed", "slots": 0},
    ],
)
def test_rows_that_contradict_each_other_end_no_command_in_a_traceback(
    ledger: Hostile, tmp_path: Path, changes: dict[str, Any]
) -> None:
    root, rows, figures = ledger
    path = root / "rsl_rl" / "e" / "aa" / "journal-1-0.jsonl"
    write_chained(path, forge(rows, **changes))
    run_commands(root, tmp_path)
    build_or_refuse(root, tmp_path / "page.html")
    (sound,) = (run for run in read_ledger(root, tolerate_damage=True).runs if run.declared.run_id == "sound")
    assert asdict(summarize_run(sound)) == figures
    write_chained(path, rows)


def test_a_line_with_the_right_hash_that_is_no_row_lies_behind_no_hole() -> None:
    from ledger_lab.ledger.content import may_lie_behind

    sound = encode_line(7, "2026-01-01T00:00:00.000+00:00", "ShutdownEnded", b"{}", GENESIS)
    assert may_lie_behind([sound])
    for forged in (sound.replace(b"{}", b"{]"), sound.replace(b'"ShutdownEnded"', b"[1]")):
        begin = forged[: forged.index(b',"hash":"')]
        line = begin + b',"hash":"' + sha256(begin).hexdigest().encode() + b'"}\n'
        assert not may_lie_behind([line])


def build_or_refuse(root: Path, page: Path) -> None:
    """Draw the page."""
    try:
        assert build_report(["page", str(page), "--log_root", str(root)]) in (0, 1)
    except UserError as error:
        assert len(str(error).splitlines()) == 1, error
