# GPU ranks over NET/IB: this machine's GPUs, the adapters of tests/fake_verbs. GPU memory registered by descriptor (DMA-BUF)
# and by address, sent from and written to by the adapter, held back until the flush; staged in host memory where the adapter
# does not reach it; reordered writes, a lost peer. Sourced by gpu_jobs.sh, where there is a GPU; $fabric is the stand-in.
[ -e "$fabric/libibverbs.so.1" ] || { echo "skipped: GPU ranks over NET/IB (no stand-in for libibverbs: libibverbs-dev is not installed)"; return; }
stand_in=$(realpath "$fabric")
out=$work/out err=$work/err
# From sm 90 on a GPU shows what an adapter wrote in the order of the completions; before, only behind a flush. The
# adapters here hold writes back until the flush (5 ms at most) where they are told to.
export FAKE_VERBS_WORLD=$work/world FAKE_VERBS_HOLD_US=0
flushed=(COLLCTL_NET_FORCE_FLUSH=1 FAKE_VERBS_HOLD_US=5000)
ranks=2 shared=()
quick=(--iters 2 --warmup 1)
collectives="allreduce allgather reducescatter broadcast reduce gather scatter alltoall sendrecv"

# run [VARIABLE=VALUE...] -- arguments of collctl run
run() {
  local variables=()
  while [ "$1" != -- ]; do variables+=("$1"); shift; done
  shift
  rm -f "$FAKE_VERBS_WORLD"
  runs=$((runs + 1))
  said="${variables[*]} collctl run $*"
  env LD_LIBRARY_PATH="$stand_in${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${variables[@]}" \
    timeout -k 5 120 "$collctl" run --device cuda --transport net --net ib "${shared[@]}" "$@" >"$out" 2>"$err" </dev/null
  rc=$?
}
fail() {
  echo "FAILED ($rc): $*: $said"
  head -c 1500 "$out" | sed 's/^/    out: /'
  tail -8 "$err" | sed 's/^/    err: /'
  failures=$((failures + 1))
}
# judge VIA [VARIABLE=VALUE...] -- arguments: right data, and every link goes that way
judge() {
  local via=$1
  shift
  run "$@" --json
  if [ $rc != 0 ]; then fail "exit code"
  elif ! grep -q '"wrong":0' "$out" || grep -q '"wrong":[1-9-]' "$out"; then fail "data"
  elif grep -o '"via":"[^"]*"' "$out" | grep -vqE "\"NET/IB/[0-9]+$via\"" || ! grep -q '"via":' "$out"; then fail "not via NET/IB$via"
  fi
}

[ "$gpus" -gt 1 ] || shared=(--oversubscribe)
[ "$gpus" -lt 4 ] || ranks=4
echo "over NET/IB, $ranks ranks"

# How this driver lets an adapter reach its memory: by descriptor where it exports one, else by address.
run FAKE_VERBS_DEVICES=fake_0:ib:dmabuf "${flushed[@]}" -- -n 2 allreduce -b 64K -e 64K --json "${quick[@]}"
if [ $rc != 0 ]; then
  fail "the first run"
  return
fi
ways=(fake_0:roce:peermem)
if grep -q '"via":"NET/IB/0/GDRDMA"' "$out"; then
  ways+=(fake_0:ib:dmabuf)
else
  echo "skipped: GPU memory by DMA-BUF: $(grep -o '"why":"[^"]*"' "$out" | head -1)"
fi
grep -o '"why":"[^"]*"' "$out" | sort -u

for way in "${ways[@]}"; do
  echo "- $way"
  for op in $collectives; do
    judge /GDRDMA FAKE_VERBS_DEVICES=$way -- -n $ranks "$op" -b 0 -e 2M -f 23 "${quick[@]}"
    judge /GDRDMA FAKE_VERBS_DEVICES=$way "${flushed[@]}" -- -n 2 "$op" -b 4 -e 300K -f 67 --misalign 24 "${quick[@]}"
  done
  judge /GDRDMA FAKE_VERBS_DEVICES=$way,${way/fake_0/fake_1} -- -n $ranks allreduce -b 4 -e 16M -f 8 -d all "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way -- -n 2 allreduce -b 8 -e 1M -f 32 --algo ring,tree --proto all "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way -- -n 2 --rank-mode thread allreduce -b 8 -e 1M -f 32 "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way -- -n 2 allreduce -b 8 -e 1M -f 32 --cuda-graph 3 "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way FAKE_VERBS_LATE=1 COLLCTL_STEPS=2 -- -n 2 reducescatter -b 8 -e 1M -f 32 "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way NCCL_IB_ADAPTIVE_ROUTING=1 FAKE_VERBS_FAULTS=reorder:times=0,us=200 -- \
    -n 2 allgather -b 8 -e 1M -f 32 "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way COLLCTL_IB_QPS_PER_CONNECTION=4 COLLCTL_IB_SPLIT_DATA_ON_QPS=1 -- \
    -n 2 alltoall -b 8 -e 4M -f 32 "${quick[@]}"
  judge /GDRDMA FAKE_VERBS_DEVICES=$way "${flushed[@]}" -- -n 2 allreduce -b 1M -e 64M -f 8 "${quick[@]}"
  run FAKE_VERBS_DEVICES=$way -- -n $ranks soak --seed 11 --ops 200
  [ $rc = 0 ] || fail "soak"
done

# What is proven by the runs with a flush: without one, and held back, data is wrong.
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
if [ "${capability:-0}" -ge 90 ]; then
  run FAKE_VERBS_DEVICES=fake_0:ib:peermem FAKE_VERBS_HOLD_US=5000 -- -n 2 allreduce -b 64K -e 64K --proto simple "${quick[@]}"
  [ $rc = 7 ] || fail "a missing flush is not caught"
fi

echo "- staged in host memory"
for op in $collectives; do
  judge "" FAKE_VERBS_DEVICES=fake_0:ib -- -n $ranks "$op" -b 0 -e 2M -f 23 "${quick[@]}"
done
grep -q '"why":"staged in host memory: ' "$out" || fail "no reason for staging"
judge "" FAKE_VERBS_DEVICES=fake_0:ib:peermem COLLCTL_NET_GDR_LEVEL=LOC -- -n 2 allreduce -b 8 -e 1M -f 32 "${quick[@]}"

echo "- a peer that answers no more"
run FAKE_VERBS_DEVICES=fake_0:ib:peermem COLLCTL_IB_TIMEOUT=12 COLLCTL_IB_RETRY_CNT=3 \
  FAKE_VERBS_FAULTS=drop:after=60,times=0,value=1000 -- -n 2 allreduce -b 64K -e 64K --iters 200
[ $rc = 5 ] && grep -q 'status 12: transport retry counter exceeded' "$err" || fail "expected 5 and what to check"
judge /GDRDMA FAKE_VERBS_DEVICES=fake_0:ib:peermem -- -n 2 allreduce -b 8 -e 64K -f 32 "${quick[@]}"
