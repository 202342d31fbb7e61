#!/bin/bash
# Limits of the host with the real binary: a /dev/shm too small (own mount namespace), too few files and threads,
# memory of many local ranks.
# Usage: limits.sh PATH/collctl
set -u
export CUDA_VISIBLE_DEVICES=-1  # CPU ranks, on machines with GPUs as well
collctl=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
skips=0
skip() {
  echo "skipped: $*"
  skips=$((skips + 1))
}
fail() {
  echo "FAILED: $*"
  sed 's/^/    /' "$work/out" "$work/err" | head -20
  failures=$((failures + 1))
}

. "$(dirname "$0")/await.sh"

if unshare -m true 2>/dev/null; then
  small() { unshare -m sh -c 'mount -t tmpfs -o size=512k none /dev/shm && exec timeout -k 5 300 "$@"' sh "$collctl" "$@" \
    >"$work/out" 2>"$work/err" </dev/null; rc=$?; }
  echo "- /dev/shm too small, shm asked for"
  small run -n 4 allreduce -b 8 -e 64K -f 64 --transport shm
  [ $rc -eq 3 ] || fail "exit code $rc, expected 3"
  grep -q 'are needed' "$work/err" && grep -q 'free in /dev/shm' "$work/err" && grep -q 'shm-size' "$work/err" ||
    fail "the error lacks what is needed, what is free or the remedy"
  echo "- /dev/shm too small, anything goes"
  small run -n 4 allreduce -b 8 -e 64K -f 64 --json
  [ $rc -eq 0 ] || fail "exit code $rc, expected 0"
  [ "$(grep -c WARN "$work/err")" = 1 ] || fail "expected one warning"
  grep -q 'NET/Socket' "$work/out" || fail "the sockets did not carry it"
else
  skip "a small /dev/shm (no right to make a mount namespace)"
fi

# A control group of 400 MiB, as a container's: buffers that cannot fit are refused, and a program that the kernel kills has a hint.
memory=/sys/fs/cgroup/memory limit=memory.limit_in_bytes
[ -e /sys/fs/cgroup/cgroup.controllers ] && memory=/sys/fs/cgroup limit=memory.max
group=$memory/collctl-test-$$
if mkdir "$group" 2>/dev/null && echo 400M 2>/dev/null >"$group/$limit"; then
  inside() {
    timeout -k 5 300 sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$collctl" "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
  }
  echo "- memory of the control group: buffers"
  inside allreduce -n 2 -b 256M -e 256M --iters 1 -w 0
  [ $rc -eq 3 ] && grep -q '2 ranks of this host in one control group .*which may use 400 MiB' "$work/err" ||
    fail "exit code $rc, expected 3 and the limit"
  echo "- memory of the control group: a program"
  inside run -n 2 -- python3 -c 'b = bytearray(600 << 20)'
  [ $rc -eq 137 ] && grep -q 'hint: the kernel killed it for lack of memory: its control group .* may use 400 MiB' "$work/err" ||
    fail "exit code $rc, expected 137 and the limit"
  rmdir "$group"
else
  rmdir "$group" 2>/dev/null
  skip "a control group with a limit of memory (none can be made here)"
fi

# Ranks as threads share what one process may have. Whoever finds nothing left, the others do not wait for it.
echo "- too few files for ranks of --rank-mode thread"
refused=0
for limit in 40 100 180 200 260 300; do
  (ulimit -n $limit && exec timeout -k 5 300 "$collctl" run --rank-mode thread -n 16 --start-timeout 400 allreduce -b 8 -e 8) \
    >"$work/out" 2>"$work/err" </dev/null
  rc=$?
  [ $rc -eq 0 ] && continue
  [ $rc -eq 3 ] && grep -q 'error:.*\(Too many open files\|run out of file descriptors\)' "$work/err" ||
    fail "limit $limit: exit code $rc, expected 3 and what is short"
  refused=$((refused + 1))
done
[ $refused -gt 0 ] || fail "no limit was too low"

# A user of whom nothing else runs may have few processes, which count threads as well.
cp "$collctl" "$work/collctl" && chmod 711 "$work"
few() { # LIMIT MODE...
  (ulimit -u "$1" && shift && cd / &&
    exec setpriv --reuid 60123 --regid 60123 --clear-groups timeout 240 "$work/collctl" run -n 4 "$@" allreduce \
      -b 8 -e 1M -f 64 --iters 2) >"$work/out" 2>"$work/err" </dev/null
  rc=$?
}
if [ "$(id -u)" = 0 ] && few 1000 && [ $rc -eq 0 ]; then
  for mode in process thread; do
    echo "- too few threads for ranks of --rank-mode $mode"
    refused=0
    for limit in 4 6 8 10 12; do
      few $limit --rank-mode $mode
      [ $rc -eq 0 ] && continue
      [ $rc -eq 3 ] && grep -q 'ulimit -u' "$work/err" || fail "limit $limit: exit code $rc, expected 3 and the limit's name"
      refused=$((refused + 1))
    done
    [ $refused -gt 0 ] || fail "no limit was too low"
  done
else
  skip "few threads (not root, or another user cannot run the binary)"
fi

echo "- 64 local ranks run a ring all-reduce within 2 GiB"
COLLCTL_PACE_US=20000 "$collctl" run -n 64 allreduce --algo ring -b 1M -e 1M --iters 1000000 --check 0 --op-timeout 3600 \
  >"$work/out" 2>"$work/err" </dev/null &
job=$!
# Two of the operations that warm up and one that counts: all memory that they take has been touched.
await -of $job line "$work/out" '\(us\)' -- moves $job 3
# Proportional set size: shared pages count once over all ranks together.
most=$(for pid in $(pgrep -P $job); do cat "/proc/$pid/smaps_rollup" 2>/dev/null; done | awk '/^Pss:/ { s += $2 } END { print s + 0 }')
kill -TERM $job
wait $job
rc=$?
[ $rc -eq 143 ] || fail "exit code $rc, expected 143"
echo "  all ranks together: $((most / 1024)) MiB (proportional set size)"
[ "$most" -gt 1024 ] && [ "$most" -lt $((2 * 1024 * 1024)) ] || fail "$most KiB"
echo "limits: $failures failures"
[ $failures -eq 0 ] || exit 1
[ $skips -eq 0 ] || exit 77  # all else passed
