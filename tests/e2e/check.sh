#!/bin/bash
# `collctl check` on hosts in namespaces with faults put in: who is named, and who is not. Each host is good for 200 Mbit/s, so
# that no host's speed depends on how many share this machine's cores. However hosts are called, slow in which direction and
# with which other interfaces: tests/field; of this machine alone: tests/cli.
# Usage: check.sh PATH/collctl [CASE-PATTERN]. Exit 1 when one failed, 77 where hosts cannot be made.
. "$(dirname "$(realpath "$0")")/remote_common.sh"

# Node $1 sends and receives at $2; by its port of the bridge and its own end.
rate() {
  rig_node "$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 64k latency 200ms
  nsenter -t "$rig_head_pid" -n tc qdisc replace dev "v$1" root tbf rate "$2" burst 64k latency 200ms
}
# What node $2 sends does not arrive at node $3; nobody is told.
drop() { rig_node "$3" iptables "$1" INPUT -s "$(rig_address "$2")" -j DROP; }
culprits() { python3 -c 'import json, sys; print(*sorted(c["kind"] + " " + c["name"] for c in json.load(sys.stdin)["culprits"]), sep="; ")' <"$out"; }
names() { [ "$(culprits)" = "$1" ] || fail "named: $(culprits); expected: $1"; }
# What findings called $1 say of whom, without the figures; and the ways of `rails` that carry nothing.
blamed() {
  python3 - "$out" "$1" <<'PY'
import json, re, sys
said = [c["message"].split(" (")[0] for c in json.load(open(sys.argv[1]))["checks"] if c["name"] == sys.argv[2]]
print(*sorted(re.sub(r"\d+ of \d+|\d+ %", "N", text) for text in said), sep="; ")
PY
}
broken_ways() {
  python3 - "$out" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
name = [h["host"] for h in r["hosts"]]
print(*sorted("%s>%s" % (name[p["from"]], name[p["to"]]) for p in r["pairs"] if p["cells"][0]["end"] != "ok"), end="")
print(", %d ways" % len(r["pairs"]))
PY
}
for i in $(seq $nodes); do rate "$i" 200mbit; done
all="node[01-0$nodes]:1"
# A busy machine is no fault of a host.
patient="--connect-timeout 120 --start-timeout 120"

if case_is "nothing is wrong"; then
  # Without suites that hold this machine's speed against the hosts'.
  run check -H "$all" $patient --level quick --skip doctor,node
  is_code 0
  has_out "verdict: passed"
  nothing_left
fi

if case_is "--integrity: what collectives send between hosts carries MACs; a host that takes its time to come up is not at fault"; then
  # Only ranks have little time to connect.
  rig_sshd_conf 2 "ForceCommand sleep 14; eval \"\$SSH_ORIGINAL_COMMAND\""
  COLLCTL_DEBUG=INFO run check -H 'node[01-02]:1' --level quick -e 64K --only pairs,cluster --integrity
  rig_sshd_reset 2
  is_code 0
  has_err "via NET/Socket/0/MAC"
  ! grep -E 'via NET/Socket/0$' "$err" || fail "a link without MACs"
  nothing_left
fi

if case_is "a host with a slow link, and a path that loses everything, which is a link and no host"; then
  rate 4 10mbit
  drop -A 3 2
  run check -H "$all" $patient --level quick --only pairs --json
  is_code 1
  names "host node04; link node03 eth0 -> node02 eth0"
  blamed pairs/blame >"$rig/said"
  # The same of the same hosts by `rails`, and its matrix is whole.
  run rails -H "$all" $patient --json
  is_code 1
  names "host node04; link node03 eth0 -> node02 eth0"
  [ "$(blamed blame)" = "$(cat "$rig/said")" ] || fail "rails says: $(blamed blame); check says: $(cat "$rig/said")"
  [ "$(broken_ways)" = "node02>node03 node03>node02, 20 ways" ] || fail "broken: $(broken_ways)"
  drop -D 3 2
  rate 4 200mbit
fi

if case_is "a host whose processors others have, among idle ones: what is slow there is its own fault"; then
  # All hosts of this machine see its own load: each is told another, of node04 one that grows.
  printf 'cpu  0 0 0 9 0 0 0 0\ncpu0 0 0 0 9 0 0 0 0\ncpu1 0 0 0 9 0 0 0 0\n' | tee "$rig/idle" >"$rig/busy"
  python3 -c 'import os, sys, time
stat = os.open(sys.argv[1], os.O_WRONLY)
while True:
    t = 10**9 + int(time.monotonic() * 100) # always of one length
    os.pwrite(stat, b"cpu  %d 0 0 9 0 0 0 0\ncpu0 %d 0 0 9 0 0 0 0\ncpu1 %d 0 0 9 0 0 0 0\n" % (2 * t, t, t), 0)
    time.sleep(0.01)' "$rig/busy" &
  others=$!
  for i in $(seq $nodes); do rig_node "$i" mount --bind "$rig/$([ "$i" = 4 ] && echo busy || echo idle)" /proc/stat; done
  rate 4 80mbit
  run check -H "$all" $patient --level quick --only pairs --json
  is_code 1
  names "host node04"
  has_out "node04 was busy in each of 3 measurements, and most of its peers were not"
  rate 4 200mbit
  run check -H "$all" $patient --level quick --only pairs --json
  is_code 0
  for i in $(seq $nodes); do rig_node "$i" umount /proc/stat; done
  kill $others
fi

if case_is "a host that refuses all others is one entry for each in the matrix of rails"; then
  others=$(for i in $(seq $((nodes - 1))); do printf '%s,' "$(rig_address "$i")"; done)
  rig_node 5 iptables -A INPUT -p tcp -s "${others%,}" -j REJECT --reject-with tcp-reset
  run rails -H "$all" $patient --json
  rig_node 5 iptables -F INPUT
  is_code 1
  names "host node05"
  [ "$(broken_ways)" = "$(for i in 1 2 3 4; do printf 'node0%d>node05 ' $i; done)$(printf 'node05>node0%d ' 1 2 3 4 | sed 's/ $//'), 20 ways" ] ||
    fail "broken: $(broken_ways)"
fi

# Adapters of tests/fake_verbs, one of each host; what they move is no packet of the hosts' networks.
fabric=$(dirname "$collctl")/tests/fake_fabric
if [ -e "$fabric/libibverbs.so.1" ] && case_is "RDMA, and no Ethernet between two hosts: the matrix is whole, and the hosts' link is named"; then
  rdma=(CUDA_VISIBLE_DEVICES=-1 "LD_LIBRARY_PATH=$fabric" "FAKE_VERBS_WORLD=$rig/world" FAKE_VERBS_STAGED=1 FAKE_VERBS_DEVICES=fake_0:ib)
  for i in 1 2 3 4; do rig_sshd_conf "$i" "SetEnv ${rdma[*]} FAKE_VERBS_HOST=$i"; done
  drop -A 3 2
  run rails -H 'node[01-04]:1' $patient --below 0 --json
  drop -D 3 2
  is_code 1
  has_out '"network":"ib"'
  names "link node02 - node03"
  [ "$(broken_ways)" = "node02>node03 node03>node02, 12 ways" ] || fail "broken: $(broken_ways)"
  has_out "RDMA ports connect by TCP between their hosts' addresses"
  for i in 1 2 3 4; do rig_sshd_reset "$i"; done
fi

if case_is "a host at which packets are lost is named, whatever its speed"; then
  rig_node 2 iptables -A INPUT -i eth0 -m statistic --mode random --probability 0.2 -j DROP
  run check -H "$all" $patient --level quick --only pairs --json
  rig_node 2 iptables -F INPUT
  is_code 1
  names "host node02"
fi

if case_is "data that arrives wrong: the link on which it went wrong is named"; then
  COLLCTL_FAULT=corrupt:rank=0 run check -H "$all" $patient --level quick --only cluster --json
  is_code 7
  names "link node01 - node05"
fi

if case_is "the traffic of inference: right everywhere, and data that arrives wrong is named"; then
  run check -H "$all" $patient --level quick -e 8K --only traffic
  is_code 0
  has_out "tokens to experts over all hosts"
  COLLCTL_FAULT=corrupt:rank=0 run check -H "$all" $patient --level quick -e 8K --only traffic --json
  is_code 7
  names "link node01 - node05"
fi

if case_is "a host that is down: named, and the rest is still judged"; then
  rig_sshd_stop 5
  run check -H "$all" $patient --level quick -e 64K --skip doctor,node --write-hosts "$rig/lists"
  is_code 4
  has_out "node05"
  grep -q "^node05 " "$rig/lists/bad-hosts.txt" || fail "node05 is not in bad-hosts.txt"
  ! grep -q "node05" "$rig/lists/good-hosts.txt" || fail "node05 is in good-hosts.txt"
  grep -q "node01" "$rig/lists/good-hosts.txt" || fail "node01 is not in good-hosts.txt"
  rig_sshd_start 5
fi

if case_is "an interface that loses its carrier meanwhile is named, whatever the speed"; then
  rig_node 4 mount -t sysfs sysfs /sys # of its own network
  rig_node 4 ip link add extra type veth peer name extra2
  rig_node 4 ip link set extra up
  # Again and again, until it is deleted.
  rig_node 4 sh -c 'while ip link set extra2 up && ip link set extra2 down; do :; done' 2>/dev/null &
  flapper=$!
  run check -H "$all" $patient --level quick -e 64K --only cluster,counters --json
  rig_node 4 ip link del extra
  wait $flapper
  is_code 1
  names "nic node04 extra; nic node04 extra2"
  rig_node 4 umount /sys
fi

if case_is "a history of three checks with a fault in the second: the trend names the host, and resumes it when it is well again"; then
  checked() { run check -H "$all" $patient --level quick --only doctor,inventory --history "$rig/history" --history-keep 3; }
  checked
  is_code 0
  rig_node 3 ip link set eth0 mtu 1400
  checked
  is_code 1
  rig_node 3 ip link set eth0 mtu 1500
  run report --trend "$rig/history" --json
  is_code 1
  names "nic node03 eth0"
  [ "$(python3 -c 'import json, sys; print(*(h["host"] for h in json.load(sys.stdin)["hosts"] if h["state"] != "well"))' <"$out")" = node03 ] ||
    fail "not well: others than node03"
  checked
  is_code 0
  run report --trend "$rig/history"
  is_code 0
  [ "$(grep 'state=resume' "$out")" = "scontrol update nodename=node03 state=resume" ] || fail "resumed: $(grep resume "$out")"
  checked # the first is removed
  run report --trend "$rig/history" --host node03 --json
  is_code 0
  has_out '"resume":["node03"]'
  [ "$(ls "$rig/history" | wc -l)" = 3 ] || fail "not three files: $(ls "$rig/history")"
fi

if case_is "a soak: rounds with their times, a fault in some of them, a signal ends it with its verdict"; then
  begin check -H "$all" $patient --level quick --only doctor --soak 10m -o "$rig/soak.jsonl" -o "$rig/soak.html"
  await -of "$launcher" line "$err" 'round 1,.*passed'
  rig_node 3 ip link set eth0 mtu 1400
  await -of "$launcher" line "$err" 'round [0-9]*,.*FAILED'
  rig_node 3 ip link set eth0 mtu 1500
  # Of these two the second began after that: a round begins with all hosts, and all of them are there again.
  await -of "$launcher" line "$err" "round $(($(grep -c ': round' "$err") + 2)),.*passed"
  python3 - "$rig/soak.jsonl" <<'PY' || fail "no whole round came after the one that failed"
import json, sys
rounds = [json.loads(line) for line in open(sys.argv[1])]
failed = [any(c["status"] == "fail" for c in r["checks"]) for r in rounds]
last = rounds[-1]
assert True in failed and not failed[-1], failed
assert not any(host["failed"] for host in last["hosts"]), last["hosts"]
PY
  kill -INT "$launcher"
  end
  is_code 1
  has_out "ended by SIGINT after"
  has_out "first at 20"
  tail -n 1 "$rig/soak.jsonl" >"$out"
  names "nic node03 eth0"
  # Of a soak that was killed the rounds are left.
  head -n -1 "$rig/soak.jsonl" >"$rig/killed.jsonl"
  run report "$rig/killed.jsonl" --json
  is_code 1
  names "nic node03 eth0"
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failures"; exit 1; }
say "all passed"
