#!/bin/bash
# Ranks that meet at an address, on two hosts: --join, COLLCTL_RANK and COLLCTL_SIZE, torchrun's
# variables, Kubernetes' index. Usage: adopt_join.sh PATH/collctl
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

case_is "--join from two hosts"
for r in 3 1 2 0; do start $((r % 2 + 1)) "$collctl" run --join "$root" --rank $r --size 4 "${bench[@]}"; done
ends_with "0 0 0 0 "
good_report 4 2

case_is "buffers in windows: a team on each host, the staged path between them"
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

case_is "COLLCTL_RANK and COLLCTL_SIZE"
for r in 1 0; do
  start $((r + 1)) COLLCTL_RANK=$r COLLCTL_SIZE=2 "COLLCTL_COMM_ID=$root" "$collctl" "${bench[@]}"
done
ends_with "0 0 "
good_report 2 2

case_is "torchrun's variables and a token"
for r in 1 0; do
  start $((r + 1)) RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=node01 MASTER_PORT=29500 \
    "$collctl" "${bench[@]}"
done
ends_with "0 0 "
good_report 2 2

case_is "torchrun's variables without a token"
start 1 COLLCTL_TOKEN= RANK=0 WORLD_SIZE=2 MASTER_ADDR=node01 MASTER_PORT=29500 "$collctl" "${bench[@]}"
ends_with "2 "
has_err "COLLCTL_TOKEN"

# As Debian writes it: for rank 0's host its own name is loopback, for the other hosts an address.
{ echo "127.0.1.1 node01"; cat "$rig/etc/hosts"; } >"$rig/hosts.debian"
sed -i '/ node01$/{/^127/!d}' "$rig/hosts.debian"
rig_node 1 mount --bind "$rig/hosts.debian" /etc/hosts
for way in --join COLLCTL_COMM_ID torchrun; do
  case_is "rank 0's own name is 127.0.1.1 on its host: $way"
  for r in 2 1 0; do
    case $way in
    --join) start $((r % 2 + 1)) "$collctl" run --join node01:29401 --rank $r --size 3 "${bench[@]}" ;;
    torchrun) start $((r % 2 + 1)) RANK=$r WORLD_SIZE=3 MASTER_ADDR=node01 MASTER_PORT=29400 "$collctl" "${bench[@]}" ;;
    *) start $((r % 2 + 1)) COLLCTL_RANK=$r COLLCTL_SIZE=3 $way=node01:29401 "$collctl" "${bench[@]}" ;;
    esac
  done
  ends_with "0 0 0 "
  good_report 3 2
done

case_is "rank 0's own name is 127.0.1.1 and there is no token: it says who could come, and what to give"
start 1 COLLCTL_TOKEN= "$collctl" run --join node01:29401 --rank 0 --size 2 --start-timeout 2 "${bench[@]}"
ends_with "6 "
has_err "node01:29401 is 127.0.1.1 on the host of rank 0, whose ranks alone can come there: give every rank the same COLLCTL_TOKEN"
rig_node 1 umount /etc/hosts

case_is "loopback as the address of ranks on two hosts"
start 1 RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=29400 "$collctl" "${bench[@]}"
ends_with "2 "
has_err "MASTER_ADDR and MASTER_PORT + 1: localhost is for each host its own loopback address, but 1 ranks are on other hosts"

cp "$rig/etc/hosts" "$rig/hosts.late"
rig_node 2 mount --bind "$rig/hosts.late" /etc/hosts
for way in --join torchrun; do
  case_is "a name that resolves once rank 1 has asked for it: $way"
  start 1 RANK=0 WORLD_SIZE=2 MASTER_ADDR=node01 MASTER_PORT=29400 "$collctl" "${bench[@]}"
  case $way in
  --join) start 2 "$collctl" run --join $way.ranks:29401 --rank 1 --size 2 "${bench[@]}" ;;
  torchrun) start 2 RANK=1 WORLD_SIZE=2 MASTER_ADDR=$way.ranks MASTER_PORT=29400 "$collctl" "${bench[@]}" ;;
  esac
  await_text "$way.ranks does not resolve yet"
  echo "$(rig_address 1) $way.ranks" >>"$rig/hosts.late"
  ends_with "0 0 "
  good_report 2 2
done

case_is "a name that never resolves is named, with the time it was asked for"
start 2 "$collctl" run --join never.ranks:29401 --rank 1 --size 2 --start-timeout 2 "${bench[@]}"
ends_with "6 "
has_err "--join: cannot resolve never.ranks within 2 s: "
rig_node 2 umount /etc/hosts

case_is "Kubernetes' index, the size given"
for r in 1 0; do
  start $((r + 1)) JOB_COMPLETION_INDEX=$r COLLCTL_SIZE=2 COLLCTL_COMM_ID=node01:29401 "$collctl" "${bench[@]}"
done
ends_with "0 0 "
good_report 2 2

case_is "Kubernetes' index without a size"
start 1 JOB_COMPLETION_INDEX=0 "COLLCTL_COMM_ID=$root" "$collctl" "${bench[@]}"
ends_with "2 "
has_err "COLLCTL_SIZE"

case_is "ranks that are missing are named at the deadline"
for r in 0 2; do
  start $((r % 2 + 1)) "$collctl" run --join "$root" --rank $r --size 4 --start-timeout 10 "${bench[@]}"
done
ends_with "6 6 "
has_err "1"
grep -qE 'missing.*\b1\b.*\b3\b|1, 3|1,3' "$err" || fail "ranks 1 and 3 are not named"

# Whoever cannot take part, the others do not wait for it, and say which rank it was, where and why.
for victim in 0 1; do
  case_is "rank $victim cannot take part: the others end before their deadline and say why"
  for r in 2 1 0; do
    interface=lo,eth,node
    [ $r = $victim ] && interface==nosuch
    start $((r % 2 + 1)) "COLLCTL_SOCKET_IFNAME=$interface" "$collctl" run --join "$root" --rank $r --size 3 --start-timeout 170 \
      "${bench[@]}"
  done
  ends_with "3 3 3 "
  [ "$(grep -c "rank $victim (host $(rig_name $((victim % 2 + 1)))) could not start: .*nosuch" "$err")" = 2 ] ||
    fail "the two others do not say what rank $victim lacks"
  has_err "hint: choose one with COLLCTL_SOCKET_IFNAME"
done

case_is "a rank that arrives once another has declined is told by rank 0, which had checked in"
start 1 COLLCTL_DEBUG=INFO COLLCTL_DEBUG_SUBSYS=BOOTSTRAP "$collctl" run --join "$root" --rank 0 --size 3 --start-timeout 170 "${bench[@]}"
await_text "rank 0 of 3 has checked in"
start 2 COLLCTL_SOCKET_IFNAME==nosuch "$collctl" run --join "$root" --rank 1 --size 3 --start-timeout 170 "${bench[@]}"
await_text "rank 1 has declined"
start 1 "$collctl" run --join "$root" --rank 2 --size 3 --start-timeout 170 "${bench[@]}"
ends_with "3 3 3 "
[ "$(grep -c "error: .*rank 1 (host node02) could not start: .*nosuch" "$err")" = 2 ] ||
  fail "the two others do not say what rank 1 lacks"

case_is "options that one rank cannot carry out are its reason, too"
start 1 "$collctl" run --join "$root" --rank 0 --size 2 --start-timeout 170 "${bench[@]}"
start 2 CUDA_VISIBLE_DEVICES=-1 "$collctl" run --join "$root" --rank 1 --size 2 --start-timeout 170 "${bench[@]}" --device cuda
ends_with "3 3 "
has_err "rank 1 (host node02) could not start: --device cuda: "

# With no descriptors but these: what else this script was given counts, too.
with_few='for fd in /proc/self/fd/*; do [ "${fd##*/}" -le 2 ] || eval "exec ${fd##*/}>&-"; done
  ulimit -n "$1" && shift && exec "$@"'
for limit in 5 10; do
  case_is "a rank that may have $limit descriptors tells all what to raise"
  start 1 "$collctl" run --join "$root" --rank 0 --size 2 --start-timeout 170 "${bench[@]}"
  start 2 bash -c "$with_few" with_few $limit "$collctl" run --join "$root" --rank 1 --size 2 --start-timeout 170 "${bench[@]}"
  ends_with "3 3 "
  has_err "rank 1 (host node02) could not start: "
  has_err "Too many open files"
  [ "$(grep -c 'hint: raise the open-file limit (ulimit -n)' "$err")" = 2 ] || fail "not both say what to raise"
done

# The victim is interrupted once two ranks wait for the third; both end with its signal, and say so.
for victim in 0 1; do
  case_is "rank $victim interrupted while the ranks connect: all end at once and say why"
  for r in 1 0; do
    start $((r + 1)) COLLCTL_DEBUG=INFO COLLCTL_DEBUG_SUBSYS=BOOTSTRAP COLLCTL_RANK=$r COLLCTL_SIZE=3 "COLLCTL_COMM_ID=$root" \
      "$work/rank" allreduce --start-timeout 170
  done
  await_text 'has checked in' 2
  rig_node $((victim + 1)) kill -INT "$(cat "$work/pid.$(rig_name $((victim + 1)))".*)"
  end_all
  codes_are 2 130
  has_err "error: ended by SIGINT"
  has_err "rank $victim aborted: ended by SIGINT"
done

case_is "interrupted before there is anybody to connect to"
start 2 "$work/rank" run --join "$root" --rank 1 --size 2 --start-timeout 170 "${bench[@]}"
await proc "${rig_pids[2]}" '^[0-9]+ [0-9]+ . collctl'
victim=$found
# It listens to SIGINT.
await line "/proc/${rig_pids[2]}/root/proc/$victim/status" '^SigCgt:.*[2367abef]$'
rig_node 2 kill -INT "$victim"
end_all
codes_are 1 130
has_err "error: ended by SIGINT"

case_is "a rank that comes twice is named"
start 1 "$collctl" run --join "$root" --rank 0 --size 3 --start-timeout 10 "${bench[@]}"
start 1 "$collctl" run --join "$root" --rank 1 --size 3 --start-timeout 10 "${bench[@]}"
start 2 "$collctl" run --join "$root" --rank 1 --size 3 --start-timeout 10 "${bench[@]}"
end_all
case $codes in *0*) fail "a rank ended well: $codes" ;; esac
grep -qE 'rank 1 .*(twice|already|two)|rank 1 (checked|came)' "$err" || fail "rank 1 is not said to have come twice"

case_is "another token is sent away"
start 1 "$collctl" run --join "$root" --rank 0 --size 2 --start-timeout 6 "${bench[@]}"
start 2 COLLCTL_TOKEN=another-token-of-them "$collctl" run --join "$root" --rank 1 --size 2 --start-timeout 6 "${bench[@]}"
end_all
case $codes in *0*) fail "a rank ended well: $codes" ;; esac

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
