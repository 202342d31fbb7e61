# Sourced by remote_jobs.sh and its like: hosts in namespaces with real SSH servers (ssh_rig.sh), the binary run on
# their head, and what cases expect. $1: PATH/collctl, $2: a case's words, only those are run. `nodes`: how many hosts, 5.
set -u
collctl=$(realpath "$1")
only=${2:-}
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/ssh_rig.sh
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
lacks_err() { ! grep -qF -- "$1" "$err" || fail "standard error has '$1'"; }
is_out() { [ "$(cat "$out")" = "$1" ] || fail "standard output is not '$1'"; }
# In the background; $launcher is its pid.
begin() { "${rig_on_head[@]}" env --default-signal=INT "$collctl" "$@" >"$out" 2>"$err" </dev/null & launcher=$!; }
end() { # of every job, in five minutes: or the test itself would wait for ever
  local i
  for ((i = 0; i < 3000; ++i)); do
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.1
  done
  ! kill -0 "$launcher" 2>/dev/null || { fail "the job did not end"; kill -INT "$launcher"; }
  wait "$launcher"
  rc=$?
}
rank_on() { # the pid on node $1 of one of its ranks
  local i pid
  for ((i = 0; i < 100; ++i)); do
    pid=$(rig_processes "$1" | awk '/__rank/ { print $1; exit }')
    [ -z "$pid" ] || break
    sleep 0.1
  done
  echo "${pid:?no rank on node $1}"
}
seconds() { awk "BEGIN { print int(($(date +%s%N) - $started) / 1e8) / 10 }"; }
within() { awk "BEGIN { exit !($(seconds) < $1) }" || fail "took $(seconds) s, expected less than $1"; }
# Nothing of the job is left on the hosts: no process, no file in /dev/shm, no half-sent binary. Nor on head, where a
# killed launcher is tidied up after.
nothing_left() {
  local i left
  for i in $(seq 300); do
    left=$(rig_head sh -c 'ls -A /dev/shm')$(ps -e -o ppid=,comm= | awk -v l="${launcher:-0}" '$2 == "collctl-guard" && $1 == l')
    [ -n "$left" ] || break
    sleep 0.1
  done
  [ -z "$left" ] || fail "on head there is still: $left"
  for i in $(seq $nodes); do
    left=$(rig_leftover "$i" 300)
    [ -z "$left" ] || fail "on node $i there is still: $left"
    left=$(rig_node "$i" sh -c 'ls -A /dev/shm; find "$HOME/.cache" -name ".collctl*" 2>/dev/null')
    [ -z "$left" ] || fail "on node $i there are still files: $left"
  done
}
ranks_on() { rig_processes "$1" | grep -c __rank; }
await_running() { # until the titles of the table are out: the ranks measure
  for _ in $(seq 1200); do
    grep -q '(us)' "$out" && sleep 0.3 && return
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.05
  done
  fail "the job does not run"
}
await_program() { # until $1 processes of `sleep 777` run on node $2
  for _ in $(seq 900); do
    [ "$(rig_processes "$2" | grep -cE '[0-9] sleep 777$')" = "$1" ] && return
    sleep 0.05
  done
  fail "the program does not run on node $2"
}
await_stopped() { # until what matches $1 is stopped on node $2
  for _ in $(seq 900); do
    rig_node "$2" ps -e -o stat=,args= | grep -q "^T.* sh -c .*$1" && return
    sleep 0.05
  done
  fail "nothing is stopped on node $2"
}
await_question() {
  for _ in $(seq 1800); do grep -q 'password: ' "$out" && break; sleep 0.05; done
}
case_is() {
  case=$1
  [ -z "$only" ] || [[ $case == *$only* ]] || return 1
  say "- $case"
  started=$(date +%s%N)
}
long=(allreduce -b 64K -e 64K --iters 1000000 --check 0 --sync each)
