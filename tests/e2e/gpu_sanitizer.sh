#!/bin/bash
# GPU code under compute-sanitizer: memory that is not ours (memcheck), races in shared memory (racecheck), memory read
# before it is written (initcheck), barriers that not all threads reach (synccheck). The window kernels, the verbs'
# kernels, and whole jobs of the binary, in threads and in processes; each in a process of its own.
# Usage: gpu_sanitizer.sh COLLCTL WINDOW_GPU WORKS_GPU [TOOL...]. Exit 77: nothing here to run it with, with the reason.
set -u
collctl=$(realpath "$1") windows=$(realpath "$2") works=$(realpath "$3")
shift 3
tools=("$@")
[ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck synccheck)
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=0 failures=0

"$windows" pointers >"$work/out" 2>&1
if [ $? = 77 ]; then
  head -1 "$work/out"
  exit 77
fi
if [ ! -x "$sanitizer" ]; then
  echo "skipped: no compute-sanitizer is installed (it comes with the CUDA toolkit)"
  exit 77
fi
gpus=$(nvidia-smi -L | wc -l)

patience=(--start-timeout 200 --op-timeout 120)
job=(run --device cuda "${patience[@]}" -b 0 -e 100000 -f 63 --iters 1 --warmup 1)
# The tool makes kernels many times slower, and one rank's more than another's: deadlines are minutes. Calls that the
# driver refuses are no errors here: the product asks for kinds of memory that not every machine has.
clean() { # TOOL PROGRAM ARGUMENTS
  local tool=$1 rc
  shift
  runs=$((runs + 1))
  timeout -k 10 400 "$sanitizer" --tool "$tool" --target-processes all --report-api-errors no --print-limit 5 \
    --error-exitcode 99 "$@" >"$work/out" 2>&1 </dev/null
  rc=$?
  if grep -q 'Device not supported' "$work/out"; then
    echo "skipped: this machine's GPUs are not tested with $tool: the tool does not support them"
    exit 77
  fi
  echo "$tool: $(basename "$1") ${*:2}" | sed "s/ ${job[*]}//"
  [ $rc = 0 ] && grep -qE 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' "$work/out" && return
  failures=$((failures + 1))
  echo "FAILED ($rc): $sanitizer --tool $tool $*"
  grep -E '=========|WRONG|FAILED|error:|hint:' "$work/out" | head -40 | sed 's/^/    /'
}

for tool in "${tools[@]}"; do
  for part in "few 2" "few 3" "missing 2" "missing 3" pointers; do clean "$tool" "$windows" $part; done
  for part in algorithms-2 types-2 messages-2 wrap mixed-2 stall; do clean "$tool" "$works" $part; done
  for n in 1 $([ "$gpus" -gt 1 ] && echo 2); do
    for op in allreduce alltoall broadcast sendrecv; do
      clean "$tool" "$collctl" "${job[@]}" -n "$n" --rank-mode thread "$op"
    done
    clean "$tool" "$collctl" "${job[@]}" -n "$n" allreduce
    clean "$tool" "$collctl" "${job[@]}" -n "$n" --window allgather
    clean "$tool" "$collctl" "${job[@]}" -n "$n" --cuda-graph 3 reducescatter
    clean "$tool" "$collctl" run --device cuda "${patience[@]}" -n "$n" --rank-mode thread soak --seed 7 --ops 60
  done
done
echo "$runs runs, $failures failures"
[ $failures = 0 ]
