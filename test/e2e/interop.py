"""Reads a run directory with DuckDB, pyarrow and pandas, and compares.

    interop.py DIR

What the CSV beside them says must be, in each reader, in cells.parquet and
groups.parquet, and what the cells table says of a trial must follow
from requests.parquet. Ends with status 1 at the first difference.
"""

import csv
import datetime
import math
import os
import sys

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

DIR = sys.argv[1]


def path(name):
    return os.path.join(DIR, name)


def check(ok, *what):
    if not ok:
        print("interop:", *what, file=sys.stderr)
        sys.exit(1)


def missing(value):
    return value is None or value is pandas.NaT or value is pandas.NA or (
        isinstance(value, float) and math.isnan(value)
    )


def matches(text, value, kind):
    """Says whether a reader's value is what the CSV has as text."""
    if text == "":
        # An empty text and a null are one in a CSV.
        return missing(value) or value == ""
    if missing(value):
        return False
    if pa.types.is_boolean(kind):
        return text == ("true" if value else "false")
    if pa.types.is_integer(kind):
        return int(text) == int(value)
    if pa.types.is_floating(kind):
        return float(text) == float(value)  # the same float, not a near one
    if pa.types.is_timestamp(kind):
        want = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        got = pandas.Timestamp(value)
        got = got.tz_localize("UTC") if got.tzinfo is None else got.tz_convert("UTC")
        return pandas.Timestamp(want) == got
    # A text that a spreadsheet would run has an apostrophe before it.
    return text == value or (text[0] == "'" and text[1:] == value)


def rows_of(table):
    return list(zip(*(c.to_pylist() for c in table.columns)))


def readers(name):
    """Yields each reader's name, columns and rows of a Parquet file."""
    table = pq.read_table(path(name))
    yield "pyarrow", table.column_names, rows_of(table)
    frame = pandas.read_parquet(path(name), dtype_backend="pyarrow")
    yield "pandas", list(frame.columns), [
        tuple(None if pandas.isna(v) else v for v in row) for row in frame.itertuples(index=False, name=None)
    ]
    # Through Arrow: DuckDB's own way to Python needs pytz for a time with a zone.
    read = duckdb.sql(f"SELECT * FROM '{path(name)}'").to_arrow_table()
    yield "duckdb", read.column_names, rows_of(read)


def same_as_csv(stem):
    with open(path(stem + ".csv"), newline="") as f:
        header, *rows = csv.reader(f)
    kinds = {f.name: f.type for f in pq.read_schema(path(stem + ".parquet"))}
    check(rows, stem, "has no rows")
    for reader, columns, got in readers(stem + ".parquet"):
        # A CSV has some of the columns, in their order.
        check([c for c in columns if c in header] == header, reader, stem, "columns differ from the CSV's:", columns, header)
        check(len(got) == len(rows), reader, stem, len(got), "rows, the CSV has", len(rows))
        for n, (want, have) in enumerate(zip(rows, got)):
            values = dict(zip(columns, have))
            for column, text in zip(header, want):
                value = values[column]
                check(matches(text, value, kinds[column]), reader, stem, "row", n, column,
                      f"CSV {text!r}, Parquet {value!r} ({kinds[column]})")
    # DuckDB's own reader of CSV finds the same rows.
    counted = duckdb.sql(f"SELECT count(*) FROM read_csv('{path(stem + '.csv')}')").fetchall()[0][0]
    check(counted == len(rows), "duckdb reads", counted, "rows of the CSV, there are", len(rows))
    print(f"interop: {stem}: {len(rows)} rows x {len(header)} columns are the same in pyarrow, pandas, DuckDB and the CSV")


# What a cell's row says, from the requests, in SQL that a user could write.
DERIVED = f"""
WITH measured AS (
  SELECT *, (last_token_ns - sent_ns) / 1e6 AS e2e_ms,
         list_sum(chunk_us[1:first_token_chunk + 1]) / 1e3 AS ttft_ms
  FROM '{path("requests.parquet")}' WHERE phase <> 'warmup'
), figures AS (
  SELECT cell_id, trial, attempt,
         count(*) AS requests,
         count(*) FILTER (status = 'completed') AS completed,
         sum(completion_tokens) FILTER (status = 'completed') AS output_tokens,
         quantile_cont(ttft_ms, 0.50) FILTER (status = 'completed') AS p50_ttft_ms_whole,
         quantile_cont(ttft_ms, 0.95) FILTER (status = 'completed') AS p95_ttft_ms_whole,
         quantile_cont(e2e_ms, 0.95) FILTER (status = 'completed') AS p95_e2e_ms_whole,
         quantile_cont((e2e_ms - ttft_ms) / (completion_tokens - 1), 0.95)
           FILTER (status = 'completed' AND completion_tokens > 1) AS p95_tpot_ms_whole
  FROM measured GROUP BY ALL
)
SELECT c.cell_id, {", ".join(f"f.{n}, c.{n}" for n in (
    "requests", "completed", "output_tokens", "p50_ttft_ms_whole", "p95_ttft_ms_whole", "p95_e2e_ms_whole", "p95_tpot_ms_whole"))}
FROM '{path("cells.parquet")}' c LEFT JOIN figures f USING (cell_id, trial, attempt)
WHERE c.status IN ('ok', 'invalid')
"""


def follows_from_requests():
    relation = duckdb.sql(DERIVED)
    names = relation.columns
    rows = relation.fetchall()
    check(rows, "no measured cell")
    for row in rows:
        for i in range(1, len(row), 2):
            ours, table = row[i], row[i + 1]
            # Receive times are stored in whole microseconds.
            check(ours is not None and table is not None and abs(ours - table) <= 0.003 + 1e-9 * abs(table),
                  "cell", row[0], names[i], "from the requests", ours, "in the cells table", table)
    print(f"interop: {len(rows)} cells follow from their requests")


def requests_are_whole():
    table = pq.read_table(path("requests.parquet"))
    kinds = {f.name: f.type for f in table.schema}
    check(pa.types.is_list(kinds["chunk_us"]), "chunk_us is", kinds["chunk_us"])
    rows = table.to_pylist()
    duck = duckdb.sql(f"SELECT chunk_us FROM '{path('requests.parquet')}'").fetchall()
    frame = pandas.read_parquet(path("requests.parquet"))
    check(len(rows) == len(duck) == len(frame) > 0, "rows", len(rows), len(duck), len(frame))
    keys = set()
    for row, d, p in zip(rows, duck, frame["chunk_us"]):
        check(row["chunk_us"] == d[0] == list(p), "chunk_us differs", row["chunk_us"], d[0], list(p))
        keys.add((row["cell_id"], row["trial"], row["attempt"], row["phase"] == "warmup", row["shard"], row["n"]))
        if row["status"] != "completed":
            continue
        check(all(v >= 0 for v in row["chunk_us"]), "time runs backwards", row["chunk_us"])
        # In DuckDB and in our own rows: the differences lead to the last token.
        last = (row["last_token_ns"] - row["sent_ns"]) / 1e3
        check(abs(sum(row["chunk_us"]) - last) <= 2, "chunks end at", sum(row["chunk_us"]), "last token at", last)
        if row["chunk_tokens"] and None not in row["chunk_tokens"]:
            check(sum(row["chunk_tokens"]) == row["completion_tokens"], "tokens of the chunks", sum(row["chunk_tokens"]),
                  "completion tokens", row["completion_tokens"])
    check(len(keys) == len(rows), "ids repeat:", len(keys), "for", len(rows), "requests")
    print(f"interop: {len(rows)} requests are the same in pyarrow, pandas and DuckDB")


def samples_have_every_source():
    found = dict(duckdb.sql(f"SELECT source, count(*) FROM '{path('samples.parquet')}' GROUP BY 1").fetchall())
    frame = pandas.read_parquet(path("samples.parquet"))
    check(found == frame.groupby("source").size().to_dict(), "samples by source", found)
    for source in ("server", "client"):
        check(found.get(source, 0) > 0, "no samples from", source, found)
    outside = duckdb.sql(f"""
        SELECT count(*) FROM '{path("samples.parquet")}' s
        ANTI JOIN '{path("cells.parquet")}' c USING (cell_id, trial, attempt)""").fetchall()[0][0]
    check(outside == 0, outside, "samples belong to no trial")
    print("interop: samples by source:", found)


same_as_csv("cells")
same_as_csv("groups")
requests_are_whole()
follows_from_requests()
samples_have_every_source()
