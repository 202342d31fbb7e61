#!/bin/bash
# The promise of the tool, on the real binary: every collective, type and operation, each transport, algorithm
# and protocol, 1 to 16 ranks: no wrong element, exit code 0. Usage: matrix.sh PATH/collctl
set -u
export CUDA_VISIBLE_DEVICES=-1  # CPU ranks, on machines with GPUs as well
collctl=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=0 failures=0
judge() {
  runs=$((runs + 1))
  if ! timeout -k 5 240 "$collctl" run "$@" --json >"$work/out" 2>"$work/err" </dev/null; then
    echo "FAILED ($?): collctl run $*"
    head -c 600 "$work/out" | sed 's/^/    out: /'
    head -5 "$work/err" | sed 's/^/    err: /'
    failures=$((failures + 1))
  elif ! grep -q '"wrong":0' "$work/out" || grep -q '"wrong":[1-9-]' "$work/out"; then
    echo "FAILED (data): collctl run $*"
    failures=$((failures + 1))
  fi
}
quick=(--iters 1 --warmup 1)
for op in allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv moe-dispatch moe-combine hot-expert sendrecv hypercube; do
  some=3
  for n in 1 2 3 4 7 8 16; do
    [ $op != hypercube ] || { [ $((n & (n - 1))) = 0 ] || continue; some=2; }
    judge -n $n "$op" -b 8 -e 200K -f 23 "${quick[@]}"
  done
  for transport in shm net; do
    judge -n 4 "$op" -d all -b 8 -e 70000 -f 97 --transport $transport "${quick[@]}"
  done
  judge -n $some --rank-mode thread "$op" -d all -b 8 -e 70000 -f 97 --transport loopback "${quick[@]}"
done
for op in allreduce reducescatter reduce; do
  judge -n 3 "$op" -d all --op all -b 24 -e 30000 -f 31 "${quick[@]}"
done
for op in broadcast reduce gather scatter; do
  judge -n 4 "$op" -r all -b 4K -e 4K "${quick[@]}"
done
for transport in shm net; do
  for n in 2 4 7; do
    judge -n $n allreduce --algo all --proto all --transport $transport -b 8 -e 1M -f 40 "${quick[@]}"
  done
done
judge -n 4 allreduce --channels 4 -b 1M -e 4M --iters 2
judge -n 4 allreduce -b 8 -e 64M -f 2 --iters 1 --warmup 0
echo "matrix: $runs runs, $failures failures"
[ $failures -eq 0 ]
