#!/bin/bash
# Ranks that meet at an address, on two hosts: --join, COLLCTL_RANK and COLLCTL_SIZE, torchrun's variables. What follows from
# which variables: test_adopt; who is missing, late or declines: tests/unit/runtime/bootstrap; names and interfaces: tests/field.
# Usage: adopt_join.sh PATH/collctl
set -u
. "$(dirname "$0")/adopt_common.sh"
rig_up 2
begin_work
root=$(rig_address 1):29400

# Starts one rank on a node in the background; ranks after another come to `joined`.
joined=()
start() { # node, VAR=VALUE..., command
  local node=$1
  shift
  rig_node "$node" timeout -k 5 300 env COLLCTL_TOKEN=a-token-of-the-tests "$@" </dev/null >>"$out" 2>>"$err" &
  joined+=($!)
}
end_all() {
  local pid
  codes=
  for pid in "${joined[@]}"; do
    wait "$pid"
    codes="$codes$? "
  done
  joined=()
}
ends_with() { end_all; [ "$codes" = "$1" ] || fail "exit codes are '$codes', expected '$1'"; }
await_text() { await line "$err" "$1" "${2:-1}"; }
bench=(allreduce -b 8 -e 64K -f 8 --json)

case_is "--join, buffers in windows: a team on each host, the staged path between them"
for r in 3 1 2 0; do start $((r % 2 + 1)) "$collctl" run --join "$root" --rank $r --size 4 "${bench[@]}" --window; done
ends_with "0 0 0 0 "
good_report 4 2
python3 - "$out" <<'PY' || fail "the JSON is not as documented"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["windows"]["teams"] == [{"ranks": [0, 2]}, {"ranks": [1, 3]}], report["windows"]
assert report["windows"]["note"] == "not all ranks map each other's memory"
assert all(row["straight"] is False for row in report["results"])
PY

# As Debian writes it: for rank 0's host its own name is loopback, for the other hosts an address.
{ echo "127.0.1.1 node01"; cat "$rig/etc/hosts"; } >"$rig/hosts.debian"
sed -i '/ node01$/{/^127/!d}' "$rig/hosts.debian"
rig_node 1 mount --bind "$rig/hosts.debian" /etc/hosts
case_is "rank 0's own name is 127.0.1.1 on its host: torchrun's variables; without a token it says who could come, and what to give"
for r in 2 1 0; do
  start $((r % 2 + 1)) RANK=$r WORLD_SIZE=3 MASTER_ADDR=node01 MASTER_PORT=29400 "$collctl" "${bench[@]}"
done
ends_with "0 0 0 "
good_report 3 2
start 1 COLLCTL_TOKEN= "$collctl" run --join node01:29401 --rank 0 --size 2 --start-timeout 2 "${bench[@]}"
ends_with "6 "
has_err "node01:29401 is 127.0.1.1 on the host of rank 0, whose ranks alone can come there: give every rank the same COLLCTL_TOKEN"
rig_node 1 umount /etc/hosts

cp "$rig/etc/hosts" "$rig/hosts.late"
rig_node 2 mount --bind "$rig/hosts.late" /etc/hosts
case_is "a name that resolves once rank 1 has asked for it"
start 1 COLLCTL_RANK=0 COLLCTL_SIZE=2 "COLLCTL_COMM_ID=$root" "$collctl" "${bench[@]}"
start 2 COLLCTL_RANK=1 COLLCTL_SIZE=2 "COLLCTL_COMM_ID=late.ranks:29400" "$collctl" "${bench[@]}"
await_text "late.ranks does not resolve yet"
echo "$(rig_address 1) late.ranks" >>"$rig/hosts.late"
ends_with "0 0 "
good_report 2 2
rig_node 2 umount /etc/hosts

case_is "a rank that cannot take part ends the others before their deadline, also one that comes after that"
start 1 COLLCTL_DEBUG=INFO COLLCTL_DEBUG_SUBSYS=BOOTSTRAP "$collctl" run --join "$root" --rank 0 --size 3 --start-timeout 170 "${bench[@]}"
await_text "rank 0 of 3 has checked in"
start 2 COLLCTL_SOCKET_IFNAME==nosuch "$collctl" run --join "$root" --rank 1 --size 3 --start-timeout 170 "${bench[@]}"
await_text "rank 1 has declined"
start 1 "$collctl" run --join "$root" --rank 2 --size 3 --start-timeout 170 "${bench[@]}"
ends_with "3 3 3 "
[ "$(grep -c "error: .*rank 1 (host node02) could not start: .*nosuch" "$err")" = 2 ] ||
  fail "the two others do not say what rank 1 lacks"
has_err "hint: choose one with COLLCTL_SOCKET_IFNAME"
# Options that one rank cannot carry out are its reason, too.
start 1 "$collctl" run --join "$root" --rank 0 --size 2 --start-timeout 170 "${bench[@]}"
start 2 CUDA_VISIBLE_DEVICES=-1 "$collctl" run --join "$root" --rank 1 --size 2 --start-timeout 170 "${bench[@]}" --device cuda
ends_with "3 3 "
has_err "rank 1 (host node02) could not start: --device cuda: "

# With no descriptors but these: what else this script was given counts, too.
with_few='for fd in /proc/self/fd/*; do [ "${fd##*/}" -le 2 ] || eval "exec ${fd##*/}>&-"; done
  ulimit -n "$1" && shift && exec "$@"'
case_is "a rank that may have few descriptors tells all what to raise"
for limit in 5 10; do
  : >"$out" >"$err"
  start 1 "$collctl" run --join "$root" --rank 0 --size 2 --start-timeout 170 "${bench[@]}"
  start 2 bash -c "$with_few" with_few $limit "$collctl" run --join "$root" --rank 1 --size 2 --start-timeout 170 "${bench[@]}"
  ends_with "3 3 "
  has_err "rank 1 (host node02) could not start: "
  has_err "Too many open files"
  [ "$(grep -c 'hint: raise the open-file limit (ulimit -n)' "$err")" = 2 ] || fail "not both say what to raise"
done

# It is interrupted once two ranks wait for the third; both end with its signal, and say so.
case_is "rank 0 interrupted while the ranks connect: all end at once and say why"
for r in 1 0; do
  start $((r + 1)) COLLCTL_DEBUG=INFO COLLCTL_DEBUG_SUBSYS=BOOTSTRAP COLLCTL_RANK=$r COLLCTL_SIZE=3 "COLLCTL_COMM_ID=$root" \
    "$work/rank" allreduce --start-timeout 170
done
await_text 'has checked in' 2
rig_node 1 kill -INT "$(cat "$work"/pid.node01.*)"
end_all
codes_are 2 130
has_err "error: ended by SIGINT"
has_err "rank 0 aborted: ended by SIGINT"

case_is "a killed rank ends all"
for r in 1 0; do
  start $((r + 1)) COLLCTL_RANK=$r COLLCTL_SIZE=2 "COLLCTL_COMM_ID=$root" "$work/idle" allreduce "${long[@]}"
done
await_ranks "${joined[1]}"
rig_node 2 kill -KILL "$(cat "$work"/pid.node02.*)"
end_all
[ "$(cat "$work"/code.* | sort -n | tr '\n' ' ')" = "5 137 " ] || fail "codes are $(cat "$work"/code.* | tr '\n' ' ')"
has_err "rank 1"
nothing_left
finish
