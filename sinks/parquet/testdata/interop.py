"""Reads the files of a run with DuckDB, pyarrow and pandas, compares every
value with what was written, and runs every SQL block of the documentation.

Usage: interop.py DIR DOCS.md
"""

import datetime as dt
import json
import os
import re
import sys

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ARROW = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
NEVER = -1  # an instant that did not happen, or a count that nobody stated

checked = 0


def same(where, got, want):
    global checked
    checked += 1
    if type(got) is not type(want) or got != want:
        sys.exit(f"{where}: got {got!r} ({type(got).__name__}), want {want!r} ({type(want).__name__})")


def utc(value):
    """Any reader's timestamp as a datetime in UTC, with its microseconds."""
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime()
    if value.tzinfo is None:
        sys.exit(f"{value!r} has no time zone")
    return value.astimezone(dt.timezone.utc)


def from_json(kind, value):
    if value is None:
        return None
    if kind == "timestamp":
        return dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    return float(value) if kind == "float64" else value


def cells(expected):
    columns = [(c["Name"], c["Type"]) for c in expected["columns"]]
    rows = [[from_json(kind, row[name]) for name, kind in columns] for row in expected["rows"]]

    def compare(reader, names, table):
        same(f"{reader}: columns", names, [name for name, _ in columns])
        same(f"{reader}: rows", len(table), len(rows))
        for n, (got, want) in enumerate(zip(table, rows)):
            for (name, kind), g, w in zip(columns, got, want):
                if kind == "timestamp" and g is not None:
                    g = utc(g)
                same(f"{reader}: row {n}, {name}", g, w)

    # pyarrow: the types are exact, and what may be null says so.
    table = pq.read_table("cells.parquet")
    for column, (name, kind) in zip(expected["columns"], columns):
        field = table.schema.field(name)
        same(f"pyarrow: type of {name}", str(field.type), str(ARROW[kind]))
        same(f"pyarrow: {name} may be null", field.nullable, column["Nullable"])
    meanings = pq.read_schema("cells.parquet").metadata
    for column in expected["columns"]:
        meaning = json.loads(meanings[column["Name"].encode()])
        same(f"pyarrow: meaning of {column['Name']}", meaning.get("meaning", ""), column["Doc"])
        same(f"pyarrow: unit of {column['Name']}", meaning.get("unit", ""), column["Unit"])
    compare("pyarrow", table.column_names, [list(r.values()) for r in table.to_pylist()])

    # DuckDB, Parquet and CSV. The CSV is read with the types of the Parquet.
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    compare("duckdb", *fetched(db.sql("SELECT * FROM 'cells.parquet'")))
    types = {name: kind for name, kind, *_ in db.execute("DESCRIBE SELECT * FROM 'cells.parquet'").fetchall()}
    csv = "read_csv('cells.csv', header = true, types = $1)"
    compare("duckdb, csv", *fetched(db.sql(f"SELECT * FROM {csv}", params=[types])))
    # CSV and Parquet agree, also as SQL sees it.
    for a, b in (("a", "b"), ("b", "a")):
        n = db.execute(
            f"""WITH a AS (SELECT * FROM 'cells.parquet'),
                     b AS (SELECT * FROM {csv})
                SELECT count(*) FROM (SELECT * FROM {a} EXCEPT ALL SELECT * FROM {b})""",
            [types],
        ).fetchone()[0]
        same(f"duckdb: rows in {a} and not in {b}", n, 0)

    # pandas, Parquet and CSV.
    def frame(reader, f):
        out = []
        for record in f.itertuples(index=False, name=None):
            values = []
            for (name, kind), v in zip(columns, record):
                if v is None or v is pd.NA or v is pd.NaT or v != v:
                    v = None
                elif kind != "timestamp":
                    v = {"string": str, "int64": int, "float64": float, "bool": bool}[kind](v)
                values.append(v)
            out.append(values)
        compare(reader, list(f.columns), out)

    frame("pandas", pd.read_parquet("cells.parquet", dtype_backend="pyarrow"))
    kinds = {"string": "string", "int64": "Int64", "float64": "float64", "bool": "boolean"}
    frame(
        "pandas, csv",
        pd.read_csv(
            "cells.csv",
            dtype={name: kinds[kind] for name, kind in columns if kind != "timestamp"},
            parse_dates=[name for name, kind in columns if kind == "timestamp"],
            keep_default_na=False,
            na_values=[""],
        ),
    )


def fetched(found):
    """Names and rows of a result. (fetchall needs pytz for times, Arrow does not.)"""
    table = found.to_arrow_table()
    return table.column_names, [list(r.values()) for r in table.to_pylist()]


def known(value):
    return None if value == NEVER else value


def requests(expected, attempts):
    want = []
    for r in expected["requests"]:
        way = r["Way"] or {}
        want.append(
            {
                "shard": r["Shard"],
                "n": r["N"],
                "slot": r["Slot"],
                "turn": r["Turn"],
                "phase": r["Phase"],
                "scheduled_ns": known(r["Scheduled"]),
                "sent_ns": known(r["Sent"]),
                "first_byte_ns": known(r["FirstByte"]),
                "first_token_ns": known(r["FirstToken"]),
                "first_output_ns": known(r["FirstOutput"]),
                "last_token_ns": known(r["LastToken"]),
                "end_ns": known(r["End"]),
                "prompt_tokens": known(r["PromptTokens"]),
                "cached_tokens": known(r["CachedTokens"]),
                "completion_tokens": known(r["CompletionTokens"]),
                "token_source": r["TokenSource"] or None,
                "max_tokens": known(r["MaxTokens"]),
                "target_tokens": known(r["TargetTokens"]),
                "chunk_us": r["ChunkUS"] or [],
                "first_token_chunk": known(r["FirstTokenChunk"]),
                "chunk_tokens": r["ChunkTokens"] and [known(k) for k in r["ChunkTokens"]],
                "stamp_kind": r["Stamp"] or None,
                "coalesced": r["Coalesced"],
                "stamp_error_ns": r["StampError"] or None,
                "fresh_connection": r["Fresh"],
                "finish_reason": r["FinishReason"] or None,
                "http_status": r["HTTPStatus"] or None,
                "status": r["Status"],
                "chosen": r["Chosen"],
                "planned": r["Planned"],
                "error_class": r["ErrorClass"] or None,
                "error": r["Error"] or None,
                "prefill_pod": way.get("Prefill") or None,
                "decode_pod": way.get("Decode") or None,
                "picked_prefill": way.get("PickedPrefill") or None,
                "picked_decode": way.get("PickedDecode") or None,
                "decision": way.get("Decision") or None,
            }
        )
    table(
        "requests.parquet",
        want,
        attempts,
        {"chunk_us": pa.list_(pa.int32()), "chunk_tokens": pa.list_(pa.int32()), "sent_ns": pa.int64()},
    )


def samples(expected, attempts):
    want = [
        {
            "time_ns": s["T"],
            "source": s["Source"],
            "role": s["Role"],
            "replica": s["Replica"],
            "name": s["Name"],
            "labels": s["Labels"],
            "value": float(s["Value"]),
            "unit": s["Unit"] or None,
        }
        for s in expected["samples"]
    ]
    table("samples.parquet", want, attempts, {"value": pa.float64(), "time_ns": pa.int64()})


def table(path, want, attempts, types):
    """Compares a table of the rows want for each attempt."""
    anchor = dt.datetime(2026, 3, 4, 23, 59, 59, 999999, tzinfo=dt.timezone.utc)
    rows = []
    for run, cell, trial in attempts:
        ids = {"run_id": run, "cell_id": cell, "trial": trial, "attempt": 1}
        rows += [{**ids, **{k: r[k] for k in r}, "anchor": anchor} for r in want]

    def compare(reader, got):
        same(f"{reader}: rows of {path}", len(got), len(rows))
        for n, (g, w) in enumerate(zip(got, rows)):
            same(f"{reader}: columns of {path}", sorted(g), sorted(w))
            for name, value in w.items():
                have = g[name]
                if name == "anchor":
                    have = utc(have)
                same(f"{reader}: {path}, row {n}, {name}", have, value)

    arrow = pq.read_table(path)
    same(f"{path}: compression", pq.ParquetFile(path).metadata.row_group(0).column(0).compression, "ZSTD")
    for name, kind in {**types, "anchor": pa.timestamp("us", tz="UTC"), "run_id": pa.string(), "cell_id": pa.string()}.items():
        got = arrow.schema.field(name).type
        if not got.equals(kind) and not (pa.types.is_list(got) and got.value_type.equals(kind.value_type)):
            sys.exit(f"pyarrow: {path}, {name} is {got}, want {kind}")
    compare("pyarrow", arrow.to_pylist())

    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    names, found = fetched(db.sql(f"SELECT * FROM '{path}'"))
    compare("duckdb", [dict(zip(names, r)) for r in found])

    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    same(f"pandas: columns of {path}", list(frame.columns), names)
    compare("pandas", pa.Table.from_pandas(frame, preserve_index=False).to_pylist())


def groups(expected):
    db = duckdb.connect()
    for reader in ("'groups.parquet'", "'groups.csv'"):
        got = db.execute(f"SELECT cell_id, trials, valid_trials, p95_e2e_ms_mean FROM {reader} ORDER BY cell_id").fetchall()
        want = db.execute(
            """SELECT cell_id, count(*), count(*) FILTER (valid), avg(p95_e2e_ms) FILTER (valid)
               FROM 'cells.parquet' GROUP BY cell_id ORDER BY cell_id"""
        ).fetchall()
        same(f"{reader}: cells", len(got), len(want))
        for g, w in zip(got, want):
            same(f"{reader}: {w[0]}", g[:3], w[:3])
            if (g[3] is None) != (w[3] is None) or g[3] is not None and abs(g[3] - w[3]) > 1e-9 * abs(w[3]):
                sys.exit(f"{reader}: mean of {w[0]} is {g[3]}, want {w[3]}")


def documentation(path):
    blocks = re.findall(r"```sql\n(.*?)```", path, re.S)
    if not blocks:
        sys.exit("the documentation has no SQL")
    for sql in blocks:
        found = duckdb.connect().execute(sql).fetchall()
        if not found:
            sys.exit(f"no rows from\n{sql}")
        if "from_chunks_ms" in sql:
            for *_, ttft, chunks in found:
                if abs(ttft - chunks) > 0.1:
                    sys.exit(f"TTFT is {ttft} ms, the sum of the chunks {chunks} ms")


def main():
    with open(sys.argv[2], encoding="utf-8") as f:
        docs = f.read()
    os.chdir(sys.argv[1])
    with open("expected.json", encoding="utf-8") as f:
        expected = json.load(f)
    attempts = [(expected["run_id"], r["cell_id"], r["trial"]) for r in expected["rows"]]
    cells(expected)
    requests(expected, attempts)
    samples(expected, attempts)
    groups(expected)
    documentation(docs)
    print(
        f"duckdb {duckdb.__version__}, pyarrow {pa.__version__}, pandas {pd.__version__}: "
        f"{len(attempts)} trials, {checked} comparisons, all equal"
    )


main()
