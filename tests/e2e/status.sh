#!/bin/bash
# `collctl status` of running jobs, and --stragglers: a rank that is stopped is named by both, and a job that is asked goes on.
# Usage: status.sh PATH/collctl. Every case says what it expected; exit 1 when one failed.
set -u
. "$(dirname "$0")/local_common.sh"
trap 'kill $launchers 2>/dev/null; rm -rf "$work"' EXIT
launchers="" job_out=$work/job_out job_err=$work/job_err
has_out() { grep -qE -- "$1" "$out" || fail "standard output lacks '$1'"; }  # a pattern
begin() { COLLCTL_PACE_US=${pace:-20000} "$collctl" "$@" >"$job_out" 2>"$job_err" </dev/null & launcher=$!; launchers="$launchers $launcher"; }
rank_pid() { children | awk -v n="$1" '/__rank/ && n-- == 0 { print $1 }'; }
await_ranks() { await -of "$launcher" moves "$launcher" 1; }
json() { # a Python expression over the one job `j` of the last answer
  python3 -c "import json, sys; j = json.load(sys.stdin)['jobs'][0]; print($1)" <"$out" 2>&1
}
is_json() { [ "$(json "$1")" = "$2" ] || fail "$1 is $(json "$1"), expected $2"; }
long=(run -n 4 --op-timeout 3600 allreduce -b 1M -e 1M --iters 1000000 --check 0 --algo ring)

case_is "no such job"
run status 999999
is_code 3
has_err "no job"
run status none
is_code 2

case_is "a job of four ranks"
begin "${long[@]}"
await_ranks
run status "$launcher" --json
is_code 0
is_json 'len(j["ranks"])' 4
is_json 'j["what"]' allreduce
is_json 'all(r["doing"]["calls"] > 0 for r in j["ranks"])' True
is_json '{r["phase"] for r in j["ranks"]}' "{'measure'}"
before=$(json 'j["ranks"][0]["doing"]["calls"]')
run status "$launcher"
is_code 0
has_out "^job $launcher: allreduce, 4 ranks on 1 host"
await_ranks
run status "$launcher" --json
[ "$(json 'j["ranks"][0]["doing"]["calls"]')" -gt "$before" ] || fail "the job does not go on while it is asked"
socket=$(ls /dev/shm/collctl-$(id -u)/*-"$launcher"-* 2>/dev/null | head -1)
[ "$(stat -c %a "$socket" 2>/dev/null)" = 600 ] || fail "the socket's mode is $(stat -c %a "$socket" 2>&1)"

case_is "a rank that is stopped is named, with those that wait for it"
victim=$(rank_pid 2)
kill -STOP "$victim"
await -of "$launcher" status "$launcher" '"waiters":\[0,1,3\]'
run status "$launcher" --json
is_code 0
is_json 'j["awaited"][0]["rank"]' 2
is_json 'j["awaited"][0]["waiters"]' '[0, 1, 3]'
is_json 'j["ranks"][2]["state"]' T
run status "$launcher"
has_out "wait [0-9.]+ s for rank 2 .*pid $victim\), which is stopped"
kill -CONT "$victim"
run status "$launcher" --json
is_json 'j["ranks"][2]["state"] in "RS"' True

case_is "several jobs are listed"
first=$launcher
begin run -n 2 -- sleep 1000
await -of "$launcher" status "$launcher" sleep
run status
is_code 0
has_out "^ *$first  allreduce, 4 ranks"
has_out "^ *$launcher  sleep, 2 ranks"
run status "$launcher"
is_code 0
has_out "sleeps \(S\)"
kill "$launcher" "$first"
wait "$launcher" "$first" 2>/dev/null

case_is "a launcher that is stopped does not answer: code 6"
begin "${long[@]}"
await_ranks
kill -STOP "$launcher"
run status "$launcher"
is_code 6
has_err "does not answer"
kill -CONT "$launcher"
kill "$launcher"
wait "$launcher" 2>/dev/null

case_is "a job whose time is up says who waits for whom"
COLLCTL_FAULT=stall:rank=1 begin run -n 3 --timeout 20 --op-timeout 3600 allreduce -b 64K -e 64K --iters 20 --check 0 --algo ring
wait "$launcher"
rc=$?
cp "$job_err" "$err"
is_code 6
grep -qE "ranks 0, 2 wait [0-9.]+ s for rank 1 \\(host .*, pid [0-9]+\\)" "$err" || fail "who waits for whom is not said"

case_is "a rank that is stopped now and then is late"
# The row is measured again until the rank has been stopped five times; the last of them is stopped, too.
rm -f "$work/told"
pace=0 COLLCTL_UNTIL=$work/told begin run -n 4 --op-timeout 600 allreduce -b 64K -e 64K --iters 300 --check 0 --algo ring --stragglers --json
await_ranks
victim=$(rank_pid 3)
stops=0
while kill -STOP "$victim" 2>/dev/null; do
    sleep 0.2  # time is what is tested: this is how late the rank is
    kill -CONT "$victim" 2>/dev/null
    stops=$((stops + 1))
    [ $stops -lt 5 ] || touch "$work/told"
    sleep 0.04  # time is what is tested: it works in between
done
wait "$launcher"
rc=$?
cp "$job_out" "$out"
is_code 0
late=$(python3 -c 'import json, sys; print(*[(l["kind"], l["rank"]) for l in json.load(sys.stdin)["stragglers"]["late"]])' <"$out" 2>&1)
[ "$late" = "('rank', 3)" ] || fail "late: $late"

case_is "the table says who was late, and nobody stands out where nobody is"
run run -n 2 allreduce -b 64K -e 64K --iters 50 --stragglers
is_code 0
has_out "^# Late  "
has_out "^#   rank [01] .*: waited [0-9]+ %"

conclude
