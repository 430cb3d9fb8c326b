#!/usr/bin/env bash
# Makes .engines/interop: DuckDB, pyarrow and pandas, the readers that
# e2e:interop opens sweep's files with. 0.4 GB, about half a minute.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

from=(tools/engines/requirements-interop.txt tools/engines/install-interop.sh)
begin "${1:-}" interop "${from[@]}"

venv interop
pip interop install -q --require-hashes -r tools/engines/requirements-interop.txt
.engines/interop/bin/python -c 'import duckdb, pandas, pyarrow.parquet'

finish interop "${from[@]}"
