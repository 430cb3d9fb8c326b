#!/usr/bin/env bash
# Makes .engines/export: what e2e:export opens sweep's exports with, beside
# .engines/vllm: the packages that vllm bench sweep draws with (plots), the reader of
# llm-d benchmark reports, and promtool of Debian's package prometheus. 0.4 GB, about a
# minute.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

from=(tools/engines/requirements-plots.txt tools/engines/requirements-llmd-report.txt tools/engines/install-export.sh)
begin "${1:-}" export "${from[@]}"

venv export
pip export install -q --require-hashes -r tools/engines/requirements-llmd-report.txt
# Not in a venv of their own: they are used by vLLM's Python.
pip export install -q --require-hashes --no-deps --target .engines/export/plots -r tools/engines/requirements-plots.txt

# The package would start a server: only promtool is taken from it.
command -v apt-get >/dev/null || die "no apt: put promtool 2.42 or newer into .engines/export/bin"
apt-cache show prometheus >/dev/null 2>&1 || apt-get update -qq
(cd .engines/export && apt-get download -qq prometheus)
dpkg -x .engines/export/prometheus_*.deb .engines/export/deb
mv .engines/export/deb/usr/bin/promtool .engines/export/bin/promtool
rm -r .engines/export/deb .engines/export/prometheus_*.deb

.engines/export/bin/promtool --version >/dev/null 2>&1
.engines/export/bin/python -c 'import llmd_benchmark_report'
finish export "${from[@]}"
