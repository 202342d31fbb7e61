# Sourced by remote_jobs.sh and its like: hosts in namespaces with real SSH servers (ssh_rig.sh), the binary run on
# their head, and what cases expect. $1: PATH/collctl, $2: a case's words, only those are run. `nodes`: how many hosts, 5.
set -u
collctl=$(realpath "$1")
only=${2:-}
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/ssh_rig.sh
. tests/e2e/await.sh "$collctl"
nodes=${nodes:-5}
rig_up $nodes
failures=0
out=$rig/out err=$rig/err
: >"$out" >"$err"

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-300 | head -20
  sed 's/^/    err: /' "$err" | cut -c1-600 | head -30
  failures=$((failures + 1))
}
run() { rig_head timeout -k 5 240 "$collctl" "$@" >"$out" 2>"$err" </dev/null; rc=$?; }
# The binary is on every host: what follows times other things than its way there.
stage() {
  case="the binary is sent to every host"
  run run -H "node[01-$(printf %02d $nodes)]:1" --connect-timeout 60 --start-timeout 200 -- true
  is_code 0
}
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_err() { grep -qF -- "$1" "$err" || fail "standard error lacks '$1'"; }
has_out() { grep -qF -- "$1" "$out" || fail "standard output lacks '$1'"; }
lacks_err() { ! grep -v '^collctl: now: ' "$err" | grep -qF -- "$1" || fail "standard error has '$1'"; }
is_out() { [ "$(cat "$out")" = "$1" ] || fail "standard output is not '$1'"; }
# In the background, with ranks that idle; $launcher is its pid.
begin() {
  : >"$out" # a cue must not be one of the job before
  : >"$err"
  COLLCTL_PACE_US=${pace:-20000} "${rig_on_head[@]}" env --default-signal=INT,HUP "$collctl" "$@" >"$out" 2>"$err" </dev/null &
  launcher=$!
}
end() { # of every job: or the test itself would wait for ever
  await end "$launcher" || kill -KILL "$launcher"
  wait "$launcher"
  rc=$?
}
# What processes on hosts look like to `await`.
rank='^[0-9]+ [0-9]+ [^Z] collctl .*__rank' agent='^[0-9]+ [0-9]+ [^Z] collctl-agent ' guard='^[0-9]+ [0-9]+ [^Z] collctl-guard '
await_on() { await proc "${rig_pids[$1]}" "${@:2}"; } # node $1: what is like $2, $3 of them
# Signal $1 to what on node $2 is like $3, to all or so many as $4 says; $found: their pids there.
strike() {
  await_on "$2" "$3" || return
  # shellcheck disable=SC2086
  set -- "$1" "$2" $(printf '%s\n' $found | head -n "${4:-1000}")
  found=${*:3}
  rig_node "$2" kill -"$1" "${@:3}" || fail "$found on node $2 had just ended"
}
# Nothing of the job is left on the hosts: no process, no file in /dev/shm, no half-sent binary. Nor on head, where a
# killed launcher is tidied up after.
nothing_left() {
  local i cues=(quiet "$rig_head_pid")
  for ((i = 1; i <= nodes; ++i)); do cues+=(-- quiet "${rig_pids[$i]}" "$rig/$(rig_name "$i")/home"); done
  await "${cues[@]}"
}
# The titles of the table are out, and each rank has ended operations since.
await_running() { await -of "$launcher" line "$out" '\(us\)' -- moves "$launcher" 2; }
await_program() { await_on "$2" ' . sleep sleep 777$' "$1"; } # $1 processes of `sleep 777` run on node $2
case_is() {
  case=$1
  [ -z "$only" ] || [[ $case == *$only* ]] || return 1
  say "- $case"
}
long=(allreduce -b 64K -e 64K --iters 1000000 --check 0 --sync each)
