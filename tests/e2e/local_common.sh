# What scripts share that run the binary on this host: sourced with PATH/collctl as $1. CPU ranks, on machines with GPUs as well.
export CUDA_VISIBLE_DEVICES=-1
# A /dev/shm of its own, where this machine allows one: what is left there is of this script's jobs, and not what the jobs
# of a script beside it have there just now.
if [ -z "${own_shm:-}" ]; then
  export own_shm=no
  mount_shm='mount -t tmpfs -o mode=1777 shm /dev/shm'
  if unshare -m sh -c "$mount_shm" 2>/dev/null; then
    own_shm=yes exec unshare -m sh -c "$mount_shm"' && exec "$0" "$@"' "$0" "$@"
  fi
fi
collctl=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
out=$work/out err=$work/err

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-600 | head -40
  sed 's/^/    err: /' "$err" | cut -c1-600 | head -30
  failures=$((failures + 1))
}
. "$(dirname "$0")/await.sh"
case_is() { case=$1; say "- $case"; }
run() { timeout -k 5 300 "$collctl" "$@" >"$out" 2>"$err" </dev/null; rc=$?; }
# In the background; $launcher is its pid. Ranks idle between operations (COLLCTL_PACE_US): a count of a million stands for
# "until it is ended". A shell without job control starts background jobs with SIGINT ignored, which a job respects.
begin() { : >"$out"; : >"$err"; env --default-signal=INT,HUP COLLCTL_PACE_US=20000 "$collctl" "$@" >"$out" 2>"$err" </dev/null & launcher=$!; }
end() { await end "$launcher" || kill -INT "$launcher"; wait "$launcher"; rc=$?; }
children() { ps -o pid=,args= --ppid "$launcher"; }
# Until $1 ranks are there and all work: $pids are theirs, in order, $all those of all children.
await_ranks() {
  await -of "$launcher" proc 0 "^[0-9]+ $launcher . .*__rank" "$1" -- moves "$launcher" 1
  mapfile -t pids < <(children | awk '/__rank/ { print $1 }')
  all=$(children | awk '{ print $1 }')
}
all_gone() { local pid; for pid in "$@"; do await end "$pid"; done; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_out() { grep -qF -- "$1" "$out" || fail "standard output lacks '$1'"; }
has_err() { grep -qF -- "$1" "$err" || fail "standard error lacks '$1'"; }
# The end of a script: one more case, and whether all have passed.
conclude() {
  case_is "nothing is left in /dev/shm"
  if [ "$own_shm" = yes ]; then
    [ -z "$(ls -A /dev/shm)" ] || fail "left in /dev/shm: $(find /dev/shm -mindepth 1 | xargs)"
  else
    say "skipped: what jobs leave in /dev/shm (no right to mount one for this script alone)"
  fi
  [ "$failures" = 0 ] || { say "$failures failed"; exit 1; }
  say "all passed"
}
