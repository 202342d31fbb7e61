#!/bin/bash
# The doctor with the real binary on hosts in namespaces (ssh_rig.sh): each case breaks one thing and asks whether it
# is named, with the right exit code, and whether nothing is left on the hosts. Usage: doctor.sh PATH/collctl
# [CASE-PATTERN]. Exit 1 when one failed, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
only=${2:-}
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/ssh_rig.sh
nodes=4
rig_up $nodes
failures=0
out=$rig/out err=$rig/err
all='node[01-04]'

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-300 | head -30
  sed 's/^/    err: /' "$err" | cut -c1-600 | head -20
  failures=$((failures + 1))
}
doctor() { rig_head timeout -k 5 180 "$collctl" doctor "$@" >"$out" 2>"$err" </dev/null; rc=$?; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_out() { grep -qE -- "$1" "$out" || fail "standard output lacks '$1'"; }
lacks_out() { ! grep -qE -- "$1" "$out" || fail "standard output has '$1'"; }
# A Python expression over the report r, and over c(name, host): the checks of a host.
holds() {
  python3 - "$out" "$1" <<'PY' || fail "it does not hold that $1"
import json, sys
r = json.load(open(sys.argv[1]))
def c(name, host=None, **more):
    return [x for x in r["checks"] if x["name"] == name and (host is None or x["host"] == host)
            and all(x[k] == v for k, v in more.items())]
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}
case_is() {
  case=$1
  [ -z "$only" ] || [[ $case == *$only* ]] || return 1
  say "- $case"
}
nothing_left() {
  local i left
  for i in $(seq $nodes); do
    left=$(rig_leftover "$i" 300)
    [ -z "$left" ] || fail "on node $i there is still: $left"
  done
}

if case_is "four hosts in order"; then
  for client in libssh2 openssh; do
    doctor -H "$all" --ssh-client $client --json
    is_code 0
    holds 'r["schema"] == "collctl.doctor/1" and r["verdict"] == {"ok": True, "reasons": []} and r["culprits"] == []'
    holds '[h["host"] for h in r["hosts"]] == ["node01", "node02", "node03", "node04"] and all(h["reached"] for h in r["hosts"])'
    holds 'all(x["status"] == "pass" for x in r["checks"])'
    # Every ordered pair, by IPv4 and IPv6.
    holds 'len(c("reach")) == 4 * 3 * 2 and all(0 < x["measured"] < 3e6 and x["unit"] == "us" for x in c("reach"))'
    holds 'len({(x["host"], x["peer"]) for x in c("reach")}) == 12'
    # All share one kernel and clock.
    holds 'all(abs(x["measured"]) < 500 for x in c("clock")) and len(c("clock")) == 4'
    holds 'all(h["facts"]["binary_sha256"] == r["hosts"][0]["facts"]["binary_sha256"] for h in r["hosts"])'
  done
  doctor -H "$all"
  is_code 0
  has_out '^# collctl doctor .*: 4 hosts$'
  has_out '^# same on all hosts: version '
  has_out '^  node04  .*  6/6 '
  has_out '^# Verdict: passed$'
  nothing_left
fi

if case_is "one host cannot be reached"; then
  doctor -H "$all,nohost"
  is_code 4
  has_out '^FAIL connect: nohost: .*resolve'
  has_out '^  remedy: check the spelling'
  has_out '^  node01 .* 6/6 '
  rig_sshd_stop 2
  doctor -H "$all" --json
  rig_sshd_start 2
  is_code 4
  holds 'c("connect", "node02")[0]["status"] == "fail" and not r["hosts"][1]["reached"]'
  holds 'len(c("reach")) == 3 * 2 * 2 and all(x["status"] == "pass" for x in c("reach"))'
  holds 'r["culprits"][0]["name"] == "node02" and r["verdict"]["reasons"][0]["code"] == "launch"'
  nothing_left
fi

if case_is "one interface has another MTU"; then
  mtu=$(rig_node 3 ip -o link show eth0 | sed 's/.* mtu \([0-9]*\) .*/\1/')
  rig_node 3 ip link set eth0 mtu 1300
  doctor -H "$all"
  is_code 1
  has_out '^  node03 .* eth0 MTU 1300[^!]* !'
  has_out "^FAIL network: node03: eth0 on 10.83.0.0/.* has MTU 1300.*, most hosts have MTU $mtu"
  has_out '^  remedy: give all interfaces of a network one MTU'
  lacks_out '^FAIL .*node0[124]'
  doctor -H "$all" --json
  is_code 1
  holds '[x["host"] for x in r["checks"] if x["status"] == "fail"] == ["node03"]'
  holds 'c("network", "node03", status="fail")[0]["device"] == "eth0" and c("network", "node03", status="fail")[0]["odd"]'
  rig_node 3 ip link set eth0 mtu "$mtu"
fi

if case_is "two hosts do not reach each other"; then
  rig_node 2 ip route add unreachable "$(rig_address 3)/32"
  rig_node 2 ip -6 route add unreachable "$(rig_address6 3)/128"
  doctor -H "$all" --json
  is_code 1
  holds '{(x["host"], x["peer"]) for x in c("reach", status="fail")} == {("node02", "node03"), ("node03", "node02")}'
  holds 'all(x["measured"] == "no-route" for x in c("reach", "node02", status="fail"))'
  holds 'all(x["measured"] in ("timeout", "no-route") for x in c("reach", "node03", status="fail"))'
  holds '{x["name"] for x in r["culprits"]} == {"node02 -> node03", "node03 -> node02"} and r["culprits"][0]["kind"] == "link"'
  rig_node 2 ip route del unreachable "$(rig_address 3)/32"
  rig_node 2 ip -6 route del unreachable "$(rig_address6 3)/128"
fi

if case_is "one host reaches nobody"; then
  for i in 2 3 4; do
    rig_node 1 ip route add unreachable "$(rig_address $i)/32"
    rig_node 1 ip -6 route add unreachable "$(rig_address6 $i)/128"
  done
  doctor -H "$all"
  is_code 1
  has_out '^  node01 .* 0/6 !'
  has_out '^# suspect host node01: 6 of 6 tests'
  lacks_out '^# suspect .*node0[234]'
  for i in 2 3 4; do
    rig_node 1 ip route del unreachable "$(rig_address $i)/32"
    rig_node 1 ip -6 route del unreachable "$(rig_address6 $i)/128"
  done
fi

if case_is "no room in /dev/shm"; then
  rig_node 4 mount -o remount,size=1m /dev/shm
  doctor -H "$all"
  is_code 1
  has_out '^  node04 .* 1 MiB !'
  has_out '^FAIL shm: node04: /dev/shm has 1 MiB free of 1 MiB'
  rig_node 4 mount -o remount,size=1g /dev/shm
fi

if case_is "few files may be open"; then
  rig_node 1 sh -c 'printf "#!/bin/sh\nulimit -n 1024\nexec sh -c \"\$SSH_ORIGINAL_COMMAND\"\n" > /run/few && chmod 755 /run/few'
  rig_sshd_conf 1 'ForceCommand /run/few'
  doctor -H "$all"
  is_code 1
  has_out '^FAIL files: node01: '
  rig_sshd_reset 1
fi

# Root is not held to this limit; the other user has nothing else running.
if case_is "few processes may be started"; then
  rig_node 1 sh -c 'printf "#!/bin/bash\nulimit -u 30\nexec sh -c \"\$SSH_ORIGINAL_COMMAND\"\n" > /run/fewer && chmod 755 /run/fewer'
  rig_sshd_conf 1 'ForceCommand /run/fewer'
  for i in 1 2; do rig_node $i sh -c "mkdir -p '$rig_home/of-tester' && chown 4711 '$rig_home/of-tester'"; done
  doctor -H tester@node01,tester@node02 --remote-path '~/of-tester/collctl'
  is_code 1
  has_out '^FAIL nproc: node01: [0-9]+ of the 30 processes and threads that this user may have are in use'
  has_out 'ulimit -u'
  rig_sshd_reset 1
  rig_node 1 rm -rf "$rig_home/of-tester"  # root runs nothing out of another user's folder
  doctor -H root@node01,tester@node02 --remote-path '~/of-tester/collctl'
  is_code 0
fi

if case_is "an address for data that a host does not have"; then
  printf 'node01 addr=10.83.0.77\nnode[02-03]\n' >"$rig/hosts.txt"
  doctor --hostfile "$rig/hosts.txt"
  is_code 1
  has_out '^FAIL reach: node02 cannot reach node01 at 10.83.0.77: the host does not have this address'
fi

if case_is "the launcher is interrupted"; then
  rig_blackhole 3 on
  "${rig_on_head[@]}" env --default-signal=INT "$collctl" doctor -H "$all" >"$out" 2>"$err" </dev/null & pid=$!
  sleep 1.5
  kill -INT $pid
  wait $pid
  rc=$?
  rig_blackhole 3 off
  is_code 130
  nothing_left
fi

if case_is "no hosts: this one"; then
  doctor --json
  is_code 0
  holds 'len(r["hosts"]) == 1 and c("reach") == [] and c("shm", "head")[0]["status"] == "pass"'
  doctor -H 'a,,b'
  is_code 2
fi

rig_down
[ $failures = 0 ] && say "doctor: all passed" || say "doctor: $failures failures"
[ $failures = 0 ]
