"""Reads the llm-d benchmark reports below a folder with llm-d's own model, and prints how
many there are. Null and numbers that are none are refused here: the model lets them pass."""
import math
import pathlib
import sys

import yaml
from llmd_benchmark_report import load_benchmark_report


def check(value, at):
    if isinstance(value, dict):
        for key, v in value.items():
            check(v, f"{at}.{key}")
    elif isinstance(value, list):
        for i, v in enumerate(value):
            check(v, f"{at}[{i}]")
    elif value is None or isinstance(value, float) and not math.isfinite(value):
        sys.exit(f"{at} is {value}")


found = 0
for path in sorted(pathlib.Path(sys.argv[1]).rglob("benchmark_report_v0.2*.yaml")):
    data = yaml.safe_load(path.read_text())
    check(data, path.name)
    report = load_benchmark_report(data)
    ttft = report.results.request_performance.aggregate.latency.time_to_first_token
    assert ttft.units.value == "s" and 0 < ttft.mean < 60, ttft
    assert report.scenario.stack[0].standardized.accelerator.count >= 1
    assert report.scenario.load.standardized.concurrency >= 1
    found += 1
print(f"{found} reports")
