#!/bin/bash
# GPU ranks with the real binary on this machine's GPUs: every collective, type, transport, algorithm and
# protocol without a wrong element, CUDA graphs, the soak, the installed NCCL beside it, refusals, a killed
# rank; then the same over NET/IB (gpu_ib_jobs.sh). Usage: gpu_jobs.sh PATH/collctl FOLDER-OF-THE-STAND-IN. Exit 77: nothing here
# to run it on, with the reason.
set -u
collctl=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fabric=${2:-}
runs=0 failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
. "$(dirname "$0")/await.sh"
show() {
  head -c 1500 "$work/out" | sed 's/^/    out: /'
  tail -8 "$work/err" | sed 's/^/    err: /'
  failures=$((failures + 1))
}
run() { timeout -k 5 240 "$collctl" run --device cuda "$@" >"$work/out" 2>"$work/err" </dev/null; rc=$?; }
judge() {
  runs=$((runs + 1))
  run "$@" --json
  if [ $rc != 0 ]; then
    echo "FAILED ($rc): collctl run --device cuda $*"
    show
  elif ! grep -q '"wrong":0' "$work/out" || grep -q '"wrong":[1-9-]' "$work/out"; then
    echo "FAILED (data): collctl run --device cuda $*"
    show
  fi
}
expect() { # CODE TEXT ARGUMENTS: ends with that code and says so
  local code=$1 text=$2
  shift 2
  runs=$((runs + 1))
  run "$@"
  [ $rc = "$code" ] && grep -qF -- "$text" "$work/err" && return
  echo "FAILED ($rc, expected $code and '$text'): collctl run --device cuda $*"
  show
}

run -n 1 barrier --iters 1
if [ $rc = 3 ]; then
  echo "skipped: GPU ranks take a build with nvcc, an NVIDIA driver and a GPU that this process may use:" \
    "$(sed -n 's/^collctl: error: //p' "$work/err" | head -1)"
  exit 77
fi
[ $rc = 0 ] || { echo "FAILED ($rc): a barrier on one GPU"; show; exit 1; }
timeout 60 "$collctl" run --device cuda barrier --iters 1 --json >"$work/out" 2>"$work/err"
gpus=$(grep -o '"ranks":[0-9]*' "$work/out" | head -1 | tr -dc 0-9)
: "${gpus:?one rank for each GPU, but no number of ranks in the report}"
echo "on $gpus GPUs"
quick=(--iters 2 --warmup 1)
collectives="allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv moe-dispatch moe-combine hot-expert sendrecv"

for n in $(printf '%s\n' 1 2 "$gpus" | sort -nu | awk -v most="$gpus" '$1 <= most'); do
  for op in $collectives; do
    judge -n "$n" "$op" -b 0 -e 2M -f 23 "${quick[@]}"
    judge -n "$n" "$op" -b 4 -e 70000 -f 97 -d all --misalign 24 "${quick[@]}"
    judge -n "$n" --rank-mode thread "$op" -b 4 -e 1M -f 97 "${quick[@]}"
    judge -n "$n" "$op" -b 8 -e 1M -f 32 --cuda-graph 3 "${quick[@]}"
  done
  if [ $((n & (n - 1))) = 0 ]; then
    judge -n "$n" hypercube -b 0 -e 2M -f 23 "${quick[@]}"
    judge -n "$n" hypercube -b 8 -e 1M -f 32 --cuda-graph 3 "${quick[@]}"
  fi
  for op in allreduce reducescatter reduce; do
    judge -n "$n" "$op" -d float32,float16,int8 --op all -b 24 -e 30000 -f 31 "${quick[@]}"
  done
  for op in allreduce allgather alltoall sendrecv; do
    judge -n "$n" "$op" -b $((1024 * 1024 + 1)) -e 64M -f 8 "${quick[@]}"
  done
  judge -n "$n" sendrecv -b 3M -e 96M -f 32 --misalign 8 --cuda-graph 3 "${quick[@]}"
  run -n "$n" soak --seed $((n + 100)) --ops 500
  [ $rc = 0 ] || { echo "FAILED ($rc): soak on $n GPUs"; show; }
done
if [ "$gpus" -gt 1 ]; then
  for transport in p2p shm net; do
    for op in $collectives; do
      judge -n 2 "$op" --transport $transport -b 8 -e 4M -f 40 "${quick[@]}"
    done
    judge -n 2 allreduce --transport $transport --algo ring,tree --proto all -b 8 -e 1M -f 40 "${quick[@]}"
  done
  # Without P2P, small ones go through host memory that all map, the rest over SHM.
  export COLLCTL_P2P_DISABLE=1
  for op in $collectives; do
    judge -n "$gpus" "$op" -b 0 -e 300000 -f 37 -d all --misalign 24 "${quick[@]}"
    judge -n 2 "$op" -b 8 -e 256K -f 32 --cuda-graph 3 "${quick[@]}"
  done
  judge -n 2 allreduce -d float32,float16,int8 --op all -b 24 -e 30000 -f 31 "${quick[@]}"
  judge -n 2 allreduce -b 1K -e 64K -f 8 --algo one-shot,two-shot --proto ll "${quick[@]}"
  grep -qE '"algorithm":"(one|two)-shot","protocol":"ll"' "$work/out" || { echo "FAILED: no window in host memory"; show; }
  run -n 2 soak --seed 77 --ops 300
  [ $rc = 0 ] || { echo "FAILED ($rc): soak without P2P"; show; }
  unset COLLCTL_P2P_DISABLE
  judge -n 2 allreduce --p2p read -b 8 -e 4M -f 40 "${quick[@]}"
  judge -n 2 allreduce --algo all --proto all -b 8 -e 1M -f 40 "${quick[@]}"

  # A rank that is killed ends the job with its name, and the GPUs serve the next one.
  "$collctl" run --device cuda -n 2 allreduce -b 1M -e 1M --iters 1000000 --check 0 >"$work/out" 2>"$work/err" </dev/null &
  job=$!
  await -of $job moves $job 1 -- proc 0 "^[0-9]+ $job . .*__rank" 2
  kill -KILL "${found##*[[:space:]]}"
  await end $job || kill -INT $job
  wait $job
  rc=$?
  runs=$((runs + 1))
  [ $rc = 5 ] && grep -q 'rank [01] .*killed' "$work/err" || { echo "FAILED ($rc, expected 5 and its name): a killed rank"; show; }
  judge -n 2 allreduce -b 8 -e 1M -f 40 "${quick[@]}"

  run -n 2 allreduce -b 8 -e 1M -f 32 --vs nccl --json "${quick[@]}"
  if [ $rc = 3 ] && grep -q "NCCL not found" "$work/err"; then
    echo "skipped: --vs nccl (no NCCL is installed)"
  elif [ $rc != 0 ] || ! grep -q '"ratio":' "$work/out"; then
    echo "FAILED ($rc): --vs nccl"
    show
  else
    for key in '"start":{"collctl_s":' '"buffer_bytes":' '"vs_not_measured":\[\]'; do
      grep -q "$key" "$work/out" || { echo "FAILED: --vs nccl says nothing of $key"; show; }
    done
    "$collctl" report "$work/out" >"$work/table" || { echo "FAILED: report of --vs nccl"; failures=$((failures + 1)); }
    grep -q '^# First result after' "$work/table" || { echo "FAILED: no start in the report"; failures=$((failures + 1)); }
    # Every way that this NCCL has, through graphs as well; of messages too.
    for op in allreduce sendrecv; do
      judge -n 2 "$op" -b 8 -e 1M -f 64 --cuda-graph 4 --vs nccl --vs-config best "${quick[@]}"
    done
  fi
fi
expect 3 "each rank drives one" -n $((gpus + 1)) allreduce
judge -n $((gpus + 1)) --oversubscribe allreduce -b 8 -e 64K -f 32 "${quick[@]}"
expect 3 "as threads of one process" -n $((gpus + 1)) --oversubscribe --rank-mode thread allreduce
expect 3 "of buffers on GPU" -n 1 allreduce -b 400G -e 400G --iters 1

. "$(dirname "$0")/gpu_ib_jobs.sh"
echo "$runs runs, $failures failures"
[ $failures = 0 ]
