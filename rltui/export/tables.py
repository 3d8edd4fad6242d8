"""The numbers and the episodes of a run as tables: CSV, JSON lines, Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rltui.sources.base import Json, RunSource

KEYS = ("attempt", "step", "iteration", "epoch", "time", "weight_version", "eval_step")
_WHOLE = frozenset(KEYS) - {"time"}
PAGE = 500  # episodes read at once
ROWS = 5_000  # of a row group
Write = Callable[[Path, RunSource], int]


class NoParquet(ImportError):
    """pyarrow is not installed."""


def metrics_csv(out: Path, source: RunSource) -> int:
    """A row for each step, and one for each evaluation, which has an `eval_step`; gives how many."""
    import csv

    names = metric_names(source)
    count = 0
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*KEYS, *names], restval="", lineterminator="\n")
        writer.writeheader()
        for row in metric_rows(source):
            writer.writerow({_spelt(name): value for name, value in row.items()})
            count += 1
    return count


def metrics_parquet(out: Path, source: RunSource) -> int:
    """As `metrics_csv`. NoParquet."""
    pa, _ = _pyarrow()
    fields = [pa.field(key, pa.int64() if key in _WHOLE else pa.float64()) for key in KEYS]
    fields += [pa.field(name, pa.float64()) for name in metric_names(source)]
    floats = {field.name for field in fields if field.type == pa.float64()}
    rows = (
        {_spelt(name): float(value) if _spelt(name) in floats else value for name, value in row.items()}
        for row in metric_rows(source)
    )
    return _parquet(out, pa.schema(fields), rows)


def episodes_jsonl(out: Path, source: RunSource) -> int:
    """An episode a line, with all that was recorded of it but its token arrays; gives how many."""
    count = 0
    with out.open("w", encoding="utf-8") as file:
        for episode in episodes(source):
            file.write(json.dumps(episode, separators=(",", ":"), ensure_ascii=False) + "\n")
            count += 1
    return count


def episodes_parquet(out: Path, source: RunSource) -> int:
    """The numbers as columns; turns and the rest as columns of JSON. NoParquet."""
    pa, _ = _pyarrow()
    whole = ["n", "attempt", "step", "iteration", "seed", "group", "member", "try", "ver_min", "ver_max"]
    whole += ["turn_count", "prompt_tokens", "sampled_tokens"]
    real = ("R", "O", "sr", "je", "jo", "adv", "t", "wall")
    words = ("cid", "split", "stop", "excl", "turns", "rewards", "judge", "branches", "updates")
    fields = [pa.field(name, pa.int64()) for name in whole]
    fields += [pa.field(name, pa.float64()) for name in real]
    fields += [pa.field(name, pa.string()) for name in words]
    return _parquet(out, pa.schema(fields), map(_flat, episodes(source)))


def metric_names(source: RunSource) -> list[str]:
    """Every metric of the run, sorted."""
    names: set[str] = set()
    for line in _lines(source):
        names.update(name for name, value in line.items() if _is_number(value))
    return sorted(_spelt(name) for name in names.difference(KEYS))


def metric_rows(source: RunSource) -> Iterator[Json]:
    """Lines of one step merged, the later value wins; an evaluation stays a row of its own. Numbers only."""
    row: Json = {}
    for line in _lines(source):
        values = {name: value for name, value in line.items() if _is_number(value)}
        if "eval_step" in values:
            yield values
        elif row and (row.get("attempt"), row.get("step")) == (values.get("attempt"), values.get("step")):
            row.update(values)
        else:
            if row:
                yield row
            row = values
    if row:
        yield row


def episodes(source: RunSource) -> Iterator[Json]:
    """Every episode that counts: its text where that is still there, else its index row; `updates` what came later."""
    for n0 in range(0, source.episode_count(), PAGE):
        for row in source.index(n0, n0 + PAGE):
            yield {**row, **(source.episode(row["n"]) or {}), "updates": source.updates(row["n"])}


def _lines(source: RunSource) -> Iterator[Json]:
    cursor: Any = None
    while True:
        part = source.metrics(cursor)
        yield from part.rows
        cursor = part.cursor
        if not part.more:
            return


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _spelt(name: str) -> str:
    """A name without what could act on a terminal, or on a reader of the table: in a spreadsheet = + - @ begin a
    formula."""
    spelt = "".join(char if char.isprintable() else "?" for char in name[:120])
    return f"'{spelt}" if spelt[:1] in "=+-@" and spelt else spelt


def _flat(episode: Json) -> Json:
    ver, tok, updates = episode.get("ver") or (), episode.get("tok") or (), episode.get("updates") or {}
    turns = episode.get("turns")
    found = {name: value for name, value in episode.items() if not isinstance(value, dict | list)}
    found |= {"ver_min": _at(ver, 0), "ver_max": _at(ver, 1), "adv": updates.get("adv")}
    found |= {"prompt_tokens": _at(tok, 0), "sampled_tokens": _at(tok, 1)}
    found["turn_count"] = len(turns) if isinstance(turns, list) else turns
    found["excl"] = updates.get("excl") or episode.get("excl")
    for name in ("turns", "rewards", "judge", "branches", "updates"):
        value = episode.get(name)
        found[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else None
    return found


def _at(values: Any, i: int) -> Any:
    return values[i] if isinstance(values, list | tuple) and len(values) > i else None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NoParquet("Parquet needs pyarrow: pip install 'rltui[parquet]'") from error
    return pyarrow, pyarrow.parquet


def _parquet(out: Path, schema: Any, rows: Iterator[Json]) -> int:
    pa, parquet = _pyarrow()
    count = 0
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        group: list[Json] = []
        for row in rows:
            group.append(row)
            count += 1
            if len(group) == ROWS:
                writer.write_table(_table(pa, group, schema))
                group = []
        if group:
            writer.write_table(_table(pa, group, schema))
    return count


def _table(pa: Any, rows: list[Json], schema: Any) -> Any:
    """A value that is not of its column's kind becomes null: a record may be damaged."""
    columns = [
        pa.array([_fitting(row.get(field.name), field.type, pa) for row in rows], field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _fitting(value: Any, kind: Any, pa: Any) -> Any:
    if kind == pa.string():
        return value.encode(errors="replace").decode() if isinstance(value, str) else None
    if not _is_number(value):
        return None
    if kind == pa.float64():
        return float(value)
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None
