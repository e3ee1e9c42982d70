"""The Spark source: a batch query over a whole topic, in a process of its own. One JSON line: rows per second."""

import argparse
import json
import sys
import time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()

    from odradek.spark.session import local_session

    spark = local_session("bench")
    rates = []
    # The first two queries pay for the session: Python workers, JIT, the first plan.
    for number in range(options.repeats + 2):
        begun = time.perf_counter()
        rows = (
            spark.read.format("odradek")
            .option("kafka.bootstrap.servers", options.bootstrap)
            .option("subscribe", options.topic)
            .load()
            .selectExpr("count(*) AS n", "sum(length(value)) AS size")
            .collect()[0]
        )
        seconds = time.perf_counter() - begun
        if rows["n"] != options.records:
            print(f"{rows['n']} rows instead of {options.records}", file=sys.stderr)
            return 1
        if number >= 2:
            rates.append(rows["n"] / seconds)
    print(json.dumps({"per_second": rates, "bytes": rows["size"]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
