#!/bin/bash
# A gate in CI: the hosts are fit, and nothing is slower than in the last good run.
# Usage: ci-gate.sh HOSTFILE BASELINE.json [FOLDER]. The first run makes the baseline. Leaves check.xml (JUnit),
# check.html and check.json in FOLDER (.). Ends with 0, or with collctl's exit code.
set -eu
hosts=$1 baseline=$2 folder=${3:-.}
collctl=${COLLCTL:-collctl}

code=0
"$collctl" check --hostfile "$hosts" --level quick --budget 300 \
  -o "$folder/check.json" -o "$folder/check.xml" -o "$folder/check.html" || code=$?
[ "$code" -eq 0 ] || exit "$code"

if [ ! -e "$baseline" ]; then
  cp "$folder/check.json" "$baseline"
  echo "gate: $baseline is the baseline from now on"
  exit 0
fi
"$collctl" report --diff "$baseline" "$folder/check.json" --below "${GATE_BELOW:-0.8}"
