#!/bin/bash
# Jobs over NET/IB with the real binary, several processes on the adapters of tests/fake_verbs: collectives,
# kinds of ports, several adapters and queue pairs; what a failing port, adapter or peer looks like to the user.
# Usage: ib_jobs.sh PATH/collctl FOLDER-OF-THE-STAND-IN
set -u
[ -e "${2:-}/libibverbs.so.1" ] || { echo "skipped: no stand-in for libibverbs (libibverbs-dev is not installed)"; exit 77; }
collctl=$(realpath "$1")
export CUDA_VISIBLE_DEVICES=-1 LD_LIBRARY_PATH=$2${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 runs=0
out=$work/out err=$work/err
export FAKE_VERBS_WORLD=$work/world FAKE_VERBS_DEVICES=fake_0:ib
quick=(--iters 2 --warmup 1)

fail() {
  echo "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | head -20
  sed 's/^/    err: /' "$err" | head -20
  failures=$((failures + 1))
}
case_is() { case=$1; echo "- $case"; }
# run [VARIABLE=VALUE...] -- arguments of collctl
run() {
  local variables=()
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  rm -f "$FAKE_VERBS_WORLD"
  runs=$((runs + 1))
  env "${variables[@]}" timeout -k 5 240 "$collctl" run --transport net "$@" >"$out" 2>"$err" </dev/null
  rc=$?
}
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_err() { grep -qE -- "$1" "$err" || fail "standard error lacks '$1'"; }
has_out() { grep -qF -- "$1" "$out" || fail "standard output lacks '$1'"; }
judge() {
  run "$@" --json
  is_code 0
  has_out '"via":"NET/IB/'
  grep -q '"wrong":0' "$out" && ! grep -q '"wrong":[1-9-]' "$out" || fail "wrong data"
}

case_is "collectives on 3 and 4 ranks"
for op in allreduce alltoallv; do
  judge -- -n 3 "$op" -b 8 -e 200K -f 23 "${quick[@]}"
  judge FAKE_VERBS_DEVICES=fake_0:roce,fake_1:roce -- -n 4 "$op" -b 8 -e 3M -f 61 "${quick[@]}"
done

case_is "queue pairs, split messages, joined ports, adaptive routing"
judge COLLCTL_IB_QPS_PER_CONNECTION=3 -- -n 2 allreduce -b 1 -e 4M -f 9 "${quick[@]}"
judge COLLCTL_IB_QPS_PER_CONNECTION=4 COLLCTL_IB_SPLIT_DATA_ON_QPS=1 -- -n 2 allreduce -b 8 -e 4M -f 9 "${quick[@]}"
judge FAKE_VERBS_DEVICES=fake_0:ib:ports=2 COLLCTL_IB_MERGE_NICS=1 COLLCTL_IB_SPLIT_DATA_ON_QPS=1 -- \
  -n 2 alltoall -b 8 -e 1M -f 9 "${quick[@]}"
judge FAKE_VERBS_DEVICES=fake_0:roce NCCL_IB_ADAPTIVE_ROUTING=1 FAKE_VERBS_FAULTS=reorder:times=0,us=200 -- \
  -n 2 allgather -b 8 -e 1M -f 9 "${quick[@]}"
judge FAKE_VERBS_LATE=1 COLLCTL_STEPS=2 -- -n 2 --channels 2 reducescatter -b 8 -e 1M -f 9 "${quick[@]}"

case_is "--integrity: sockets with MACs, no network without, the same on all ranks"
for op in allreduce alltoall barrier; do
  case $op in barrier) sizes=() ;; *) sizes=(-b 8 -e 700K -f 23) ;; esac
  run -- -n 3 --integrity --net socket "$op" "${sizes[@]}" --json "${quick[@]}"
  is_code 0
  has_out '"via":"NET/Socket/0/MAC"'
  [ $op = barrier ] || has_out '"wrong":0'
  ! grep -q '"wrong":[1-9-]' "$out" || fail "wrong data"
done
run COLLCTL_INTEGRITY=1 COLLCTL_SOCKET_NTHREADS=2 COLLCTL_SOCKET_NSOCKS_PERTHREAD=2 COLLCTL_BUFFSIZE=4M -- \
  -n 2 --net socket allreduce -b 1 -e 4M -f 9 --json "${quick[@]}"
is_code 0
has_out '"via":"NET/Socket/0/MAC"'
for net in "" "--net ib"; do
  # shellcheck disable=SC2086
  run -- -n 2 --integrity $net allreduce -b 4K -e 4K "${quick[@]}"
  is_code 3
  has_err "network 'ib', which has no MACs"
  has_err 'rank 0 .*rank 1|rank 1 .*rank 0'
  has_err 'add --net socket'
done
for way in "COLLCTL_INTEGRITY=1 -- -n 2" "-- -n 2 --integrity"; do
  # shellcheck disable=SC2086
  run $way --net socket window-test
  is_code 3
  has_err 'one-sided operations with rank [01] .*they carry no MACs'
done
run COLLCTL_INTEGRITY=1 COLLCTL_MNNVL_ENABLE=1 -- -n 2 --net socket allreduce -e 1K
is_code 2
has_err 'NVLink between hosts carries no MACs'
run -- -n 2 --integrity --vs nccl allreduce -e 1K
is_code 2
has_err "NCCL's data carries no MACs"
COLLCTL_INTEGRITY=1 timeout -k 5 240 "$collctl" run -n 2 rails >"$out" 2>"$err" </dev/null
rc=$?
is_code 3
has_err 'test data of rails carries no MACs'
port=$((20000 + RANDOM % 9000)) # below those that the kernel hands out
timeout -k 5 240 env COLLCTL_INTEGRITY=1 "$collctl" run --join 127.0.0.1:$port --rank 0 --size 2 --transport net allreduce -e 1K >"$work/other" 2>&1 </dev/null &
run -- --net socket --join 127.0.0.1:$port --rank 1 --size 2 allreduce -e 1K
is_code 2
has_err "INTEGRITY is '1' on rank 0 and '0' on rank 1"
wait $!
[ $? = 2 ] && grep -q "INTEGRITY is '1' on rank 0 and '0' on rank 1" "$work/other" || fail "rank 0: $(cat "$work/other")"

case_is "adapters by COLLCTL_IB_HCA, sockets by --net, in the log as well"
run FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib NCCL_IB_HCA=^fake_0 -- -n 2 -v allreduce -b 64K -e 64K "${quick[@]}"
is_code 0
has_err 'NET/IB : Using \[0\]fake_1:1/IB ; OOB lo:127\.0\.0\.1<0>'
has_err 'Using network IB'
has_err '\[send\] via NET/IB/0$'
has_err 'NET/IB: fake_1 Port 1 qpn [0-9]+ mtu 4096 LID [0-9]+'
run -- -n 2 allreduce -b 4K -e 4K --net socket --json "${quick[@]}"
is_code 0
has_out '"via":"NET/Socket/0"'
run -- -n 2 --net ib allreduce -b 4K -e 4K --json "${quick[@]}"
is_code 0
has_out '"via":"NET/IB/0"'
run COLLCTL_IB_HCA==fake_7 COLLCTL_NET=ib -- -n 2 allreduce -b 4K -e 4K "${quick[@]}"
is_code 3
has_err 'fake_0 is not in COLLCTL_IB_HCA'
run COLLCTL_IB_HCA=fake_0:x -- -n 2 allreduce -b 4K -e 4K "${quick[@]}"
is_code 2
has_err "has no valid port"

case_is "a peer that answers no more is named, with port, queue pair and what to check"
soft=(COLLCTL_IB_TIMEOUT=12 COLLCTL_IB_RETRY_CNT=3)
run "${soft[@]}" FAKE_VERBS_FAULTS=drop:after=60,times=0,value=1000 -- -n 2 allreduce -b 64K -e 64K --iters 200
is_code 5
has_err 'fake_0:1 QP [0-9]+ -> rank [01] \(host [^)]*\) fake_0:1 QP [0-9]+'
has_err 'status 12: transport retry counter exceeded.* after 4 tries of 0\.0168 s each'
has_err 'hint: .*ibv_devinfo'

case_is "a port that dies, of two: the traffic moves, with a warning"
run "${soft[@]}" FAKE_VERBS_DEVICES=fake_0:ib:ports=2 COLLCTL_IB_MERGE_NICS=1 COLLCTL_IB_PORT_FAILOVER=1 \
  FAKE_VERBS_FAULTS=drop:after=40,times=0,value=1000,port=2 -- -n 2 allreduce -b 256K -e 256K --iters 20 --json
is_code 0
has_err 'COLLCTL WARN NET/IB : fake_0:2 QP .*\(the connection continues over fake_0:1\)'
grep -q '"wrong":[1-9-]' "$out" && fail "wrong data"

case_is "window-test: one-sided operations go by RDMA, or over sockets with the reason"
run -- -n 2 window-test --iters 4 --json
is_code 8
python3 - "$out" <<'PY' || fail "the report is not as expected"
import json, sys
report = json.load(open(sys.argv[1]))
pairs = {(p["from"], p["to"]): p for p in report["pairs"]}
assert set(pairs) == {(0, 1), (1, 0)}, pairs
assert all(p["path"] == "NET/IB/0" and p["put_us"] > 0 and p["get_GBps"] > 0 for p in pairs.values()), pairs
# Only collectives from window to window cannot be tested there.
assert {c["name"] for c in report["checks"] if c["status"] != "pass"} == {"collectives"}, report["checks"]
PY
run -- -n 2 --net socket -v window-test --iters 2 --json
is_code 8
has_out '"path":"NET/Socket"'
has_err 'One-sided 0 -> 1 via NET/Socket: no IB here: sockets were requested$'

case_is "window-test: a rank that is killed in the middle of a put"
run FAKE_VERBS_FAULTS=kill:after=40,opcode=write -- -n 3 window-test --iters 50
is_code 5
has_err 'SIGKILL'

echo "ib_jobs: $runs runs, $failures failures"
[ $failures -eq 0 ]
