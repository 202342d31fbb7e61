#!/bin/bash
# 64 ranks on 32 hosts in namespaces, each with its own sshd. Usage: remote_many.sh PATH/collctl.
# Exit 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/ssh_rig.sh
rig_up 32
out=$rig/out err=$rig/err
fail() {
  echo "FAILED: $*"
  cut -c1-300 "$out" | tail -n 20
  cut -c1-1000 "$err" | tail -n 40
  exit 1
}
run() { rig_head timeout -k 5 240 "$collctl" "$@" >"$out" 2>"$err" </dev/null; }

# 64 processes share a few cores: what would be seconds elsewhere has minutes here.
run run -H 'node[01-32]:2' --connect-timeout 60 --start-timeout 200 --op-timeout 120 \
  allreduce -b 4 -e 64K -f 16384 --iters 2 --warmup 1 --json || fail "exit code $?"
python3 - "$out" <<'PY' || fail "the report is not as expected"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["ranks"] == 64 and len(report["hosts"]) == 32
host = {rank: line["host"] for line in report["hosts"] for rank in line["ranks"]}
for link in report["links"]:
    assert link["via"].startswith("NET") == (host[link["from"]] != host[link["to"]]), link
assert all(r[p]["wrong"] == 0 for r in report["results"] for p in ("out_of_place", "in_place"))
PY
run run -H 'node[01-32]:2' --fanout 8 --connect-timeout 60 --start-timeout 200 --gather -- hostname || fail "exit code $?"
[ "$(grep -c '^node' "$out")" = 32 ] || fail "not 32 groups"
for i in $(seq 32); do
  left=$(rig_leftover "$i" 300)
  [ -z "$left" ] || fail "left on node $i: $left"
done
echo "all passed"
