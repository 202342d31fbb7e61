#!/bin/bash
# Sixteen hosts in namespaces, of which one or two send and receive at a tenth: `check --only cluster` finds them by groups of
# hosts. Sixteen ranks must not wait for each other's cores, or a host counts as busy: eight cores or more.
# Usage: slow_cluster.sh PATH/collctl [CASE-PATTERN]. Exit 1 when one failed, 77 where this cannot be.
[ "$(nproc)" -ge 8 ] || { echo "skipped: 16 hosts need 8 cores, there are $(nproc)"; exit 77; }
nodes=16
. "$(dirname "$(realpath "$0")")/remote_common.sh"

rate() {
  rig_node "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 64k latency 200ms
  nsenter -t "$rig_head_pid" -n tc qdisc replace dev "v$1" root tbf rate "$2" burst 64k latency 200ms
}
culprits() { python3 -c 'import json, sys; print(*sorted(c["kind"] + " " + c["name"] for c in json.load(sys.stdin)["culprits"]), sep="; ")' <"$out"; }
for i in $(seq $nodes); do rate "$i" 100mbit; done

# $1: the slow ones; $2: the exit code; $3: who is named.
judged() {
  local i
  for i in $1; do rate "$i" 10mbit; done
  run check -H 'node[01-16]:1' --level quick --only cluster --json
  is_code "$2"
  [ "$(culprits)" = "$3" ] || fail "named: $(culprits); expected: $3"
  for i in $1; do rate "$i" 100mbit; done
  nothing_left
}
if case_is "no host is worse than others"; then judged "" 0 ""; fi
if case_is "one slow host of sixteen"; then judged "7" 1 "host node07"; fi
if case_is "two slow hosts of sixteen"; then judged "3 12" 1 "host node03; host node12"; fi
[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
