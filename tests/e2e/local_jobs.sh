#!/bin/bash
# Local jobs with the real binary: ranks that end, hang or are killed; programs; signals; `collctl status` of what runs, and
# --stragglers; nothing left behind. How a job is brought to its end is for tests/unit/launcher/local, who is named in every
# order for tests/sim, reports for tests/cli. Usage: local_jobs.sh PATH/collctl. Exit 1 when a case failed.
set -u
. "$(dirname "$0")/local_common.sh"
long=(-b 1M -e 1M --iters 1000000 --check 0)

case_is "more ranks than messages between all of them have memory for"
run run -n 200 --start-timeout 400 alltoall -b 1600 -e 1600 --iters 2 --warmup 1 --json
is_code 0
has_out '"algorithm":"one-shot"'

case_is "a rank is killed: whose memory is read just then; in a group"
begin run -n 4 --op-timeout 3600 sendrecv "${long[@]}"
await_ranks 4
kill -KILL "${pids[2]}"
end
is_code 5
has_err "rank 2 (pid ${pids[2]}"
has_err "(SIGKILL)"
all_gone $all
begin run -n 5 --op-timeout 3600 allreduce --split 2 "${long[@]}"
await_ranks 5
kill -KILL "${pids[3]}"
end
is_code 5
has_err "rank 3 (pid ${pids[3]}"
has_err "group 1 (ranks 2-3)"
all_gone $all

case_is "a rank that is stopped: while it works; and as early as it is seen, whatever it is at then"
begin run -n 4 --op-timeout 4 allreduce "${long[@]}"
await_ranks 4
kill -STOP "${pids[2]}"
end
is_code 6
has_err "rank 2 (pid ${pids[2]}"
has_err "stopped (state T)"
has_err "for rank 2"
all_gone $all
begin run -n 4 --start-timeout 5 --op-timeout 5 allreduce "${long[@]}"
await -of "$launcher" proc 0 "^[0-9]+ $launcher . .*__rank"
victim=${found%%[[:space:]]*}
kill -STOP "$victim"
all=$(children | awk '{ print $1 }')
end
is_code 6
has_err "(pid $victim"
has_err "stopped (state T)"
all_gone $all

case_is "the terminal is gone; the time is up"
begin run -n 3 allreduce "${long[@]}"
await_ranks 3
kill -HUP $launcher
end
is_code 129
all_gone $all
begin run -n 2 --timeout 2 allreduce "${long[@]}"
end
is_code 6
has_err "--timeout"

case_is "programs know their place, get what -x says and no secret"
COLLCTL_TOKEN=hush run run -n 3 --tag-output -x MARK=1 -- sh -c \
  'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR ${MASTER_PORT:+port} $MARK ${COLLCTL_TOKEN-none}'
is_code 0
[ "$(sort "$out")" = "$(for r in 0 1 2; do echo "[$r] $r/3 $r/3 0 127.0.0.1 port 1 none"; done)" ] || fail "wrong places"

case_is "a program fails, is killed by a signal, does not exist"
run run -n 3 -- sh -c '[ $RANK = 1 ] && exit 42; exec sleep 600'
is_code 42
has_err "rank 1"
has_err "exit code 42"
run run -n 2 -- sh -c '[ $RANK = 0 ] && kill -9 $$; exec sleep 600'
is_code 137
has_err "rank 0"
has_err "SIGKILL"
run run -n 2 -- no-such-program
is_code 4
has_err "no-such-program"

case_is "grandchildren when the launcher is killed"
begin run -n 1 -- sh -c 'sleep 1000 & echo $! $$; wait'
await -of "$launcher" line "$out" .
all="$(cat "$out") $(children | awk '{print $1}')"
kill -KILL $launcher
end 2>/dev/null
all_gone $all

case_is "standard input for rank 0, in and out unchanged; for all"
head -c 5000000 /dev/urandom >"$work/in"
"$collctl" run -n 2 --stdin 0 -- cat <"$work/in" >"$out" 2>"$err"; rc=$?
is_code 0
cmp -s "$out" "$work/in" || fail "bytes differ"
"$collctl" run -n 3 --stdin all -- md5sum <"$work/in" >"$out" 2>"$err"; rc=$?
is_code 0
[ "$(sort -u "$out")" = "$(md5sum <"$work/in")" ] && [ "$(wc -l <"$out")" = 3 ] || fail "not for all"

case_is "a reader that goes away; one that is slow holds the ranks back, and a signal still ends the job"
timeout -k 5 300 "$collctl" run -n 2 -- yes 2>"$err" | head -n 2 >"$out"
rc=${PIPESTATUS[0]}
is_code 141
mkfifo "$work/fifo"
sleep 1000 <"$work/fifo" & reader=$!
"$collctl" run -n 2 -- yes >"$work/fifo" 2>"$err" & launcher=$!
await -of "$launcher" proc 0 "^$launcher [0-9]+ S" -- proc 0 "^[0-9]+ $launcher S yes" 2
all=$found
kill -TERM $launcher
await end $launcher || kill -KILL $launcher
end 2>/dev/null
is_code 143
kill $reader 2>/dev/null
wait $reader 2>/dev/null
all_gone $all

case_is "signals for programs are forwarded; suspended and continued"
begin run -n 2 -- sh -c 'trap "echo got; exit 0" USR1; sleep 1000 & echo up; wait'
await -of "$launcher" line "$out" up 2
kill -USR1 $launcher
end
is_code 0
[ "$(grep -c got "$out")" = 2 ] || fail "not both ranks got it"
mkfifo "$work/go"
begin run -n 2 -- sh -c 'echo $$; read go <"$0"' "$work/go"
await -of "$launcher" line "$out" '^[0-9]' 2
kill -TSTP $launcher
await proc 0 "^($launcher|$(xargs <"$out" | tr ' ' '|')) [0-9]+ T" 3
kill -CONT $launcher
exec {hold}<>"$work/go"
printf 'go\ngo\n' >&$hold
end
exec {hold}>&-
is_code 0

case_is "Ctrl-Z: ranks of a collective stop and go on; an operation has as much time left as before"
COLLCTL_UNTIL=$work/enough begin run -n 3 --op-timeout 8 allreduce -b 64K -e 64K
await_ranks 3
kill -STOP "${pids[2]}" # the others are within an operation then
await -of "$launcher" status "$launcher" '"waiters":\[0,1\]'
kill -TSTP $launcher
await proc 0 "^($launcher|${pids[0]}|${pids[1]}|${pids[2]}) [0-9]+ T" 4
sleep 9 # time is what is tested: longer than an operation may take
kill -CONT $launcher
await -of "$launcher" moves "$launcher" 1
touch "$work/enough"
end
is_code 0
all_gone $all

case_is "ranks joined by hand, in groups; one of them is killed"
port=$((20000 + RANDOM % 12000))  # below those that the kernel hands out
join_groups() { # a port; the rest is the measurement's
  rm -f "$work"/join.*  # nothing of the ranks before is taken for these
  for r in 3 2 1 0; do
    COLLCTL_PACE_US=20000 timeout -k 5 300 "$collctl" run --join 127.0.0.1:$1 --rank $r --size 4 allreduce --split mod:2 "${@:2}" \
      >"$work/join.$r" 2>"$work/join.$r.err" </dev/null & joined[$r]=$!
  done
}
end_joined() { wait "${joined[$1]}"; rc=$?; cp "$work/join.$1" "$out"; cp "$work/join.$1.err" "$err"; }
join_groups $((port + 2)) -b 8 -e 1K
for r in 0 1 2 3; do
  end_joined $r
  is_code 0
  if [ $r = 0 ]; then has_out "#   group 1 (ranks 1,3)"; else [ ! -s "$out" ] || fail "rank $r wrote to standard output"; fi
done
join_groups $((port + 3)) --op-timeout 3600 "${long[@]}"
await -of "${joined[0]}" line "$work/join.0" '\(us\)' -- proc 0 "^[0-9]+ ${joined[3]} . collctl"
kill -KILL $found
for r in 0 1 2; do
  end_joined $r
  is_code 5
  has_err "rank 3"
  has_err "group 1 (ranks 1,3)"
done

case_is "ranks adopted from another launcher"
COLLCTL_COMM_ID=127.0.0.1:$((port + 1)) run run -n 3 -- "$collctl" run allreduce -b 8 -e 1K
is_code 0
[ "$(grep -c "3 CPU ranks" "$out")" = 1 ] || fail "not exactly one report"

# --- what runs: of jobs that write elsewhere
trap 'kill $launchers 2>/dev/null; rm -rf "$work"' EXIT
launchers="" job_out=$work/job_out job_err=$work/job_err
shows() { grep -qE -- "$1" "$out" || fail "standard output lacks '$1'"; }  # a pattern
begin_aside() { COLLCTL_PACE_US=${pace:-20000} "$collctl" "$@" >"$job_out" 2>"$job_err" </dev/null & launcher=$!; launchers="$launchers $launcher"; }
await_work() { await -of "$launcher" moves "$launcher" 1; }
rank_pid() { children | awk -v n="$1" '/__rank/ && n-- == 0 { print $1 }'; }
json() { # a Python expression over the one job `j` of the last answer
  python3 -c "import json, sys; j = json.load(sys.stdin)['jobs'][0]; print($1)" <"$out" 2>&1
}
is_json() { [ "$(json "$1")" = "$2" ] || fail "$1 is $(json "$1"), expected $2"; }

case_is "status: of no job, of a job that goes on while it is asked"
run status 999999
is_code 3
has_err "no job"
run status none
is_code 2
begin_aside run -n 4 --op-timeout 3600 allreduce "${long[@]}" --algo ring
await_work
run status "$launcher" --json
is_code 0
is_json 'len(j["ranks"])' 4
is_json 'j["what"]' allreduce
is_json 'all(r["doing"]["calls"] > 0 for r in j["ranks"])' True
is_json '{r["phase"] for r in j["ranks"]}' "{'measure'}"
before=$(json 'j["ranks"][0]["doing"]["calls"]')
await_work
run status "$launcher" --json
[ "$(json 'j["ranks"][0]["doing"]["calls"]')" -gt "$before" ] || fail "the job does not go on while it is asked"
socket=$(ls /dev/shm/collctl-$(id -u)/*-"$launcher"-* 2>/dev/null | head -1)
[ "$(stat -c %a "$socket" 2>/dev/null)" = 600 ] || fail "the socket's mode is $(stat -c %a "$socket" 2>&1)"

case_is "status: a rank that is stopped is named, with those that wait for it"
victim=$(rank_pid 2)
kill -STOP "$victim"
await -of "$launcher" status "$launcher" '"waiters":\[0,1,3\]'
run status "$launcher" --json
is_code 0
is_json 'j["awaited"][0]["rank"]' 2
is_json 'j["awaited"][0]["waiters"]' '[0, 1, 3]'
is_json 'j["ranks"][2]["state"]' T
run status "$launcher"
shows "^job $launcher: allreduce, 4 ranks on 1 host"
shows "wait [0-9.]+ s for rank 2 .*pid $victim\), which is stopped"
kill -CONT "$victim"
run status "$launcher" --json
is_json 'j["ranks"][2]["state"] in "RS"' True

case_is "status: several jobs are listed; a launcher that is stopped does not answer: code 6"
first=$launcher
begin_aside run -n 2 -- sleep 1000
await -of "$launcher" status "$launcher" sleep
run status
is_code 0
shows "^ *$first  allreduce, 4 ranks"
shows "^ *$launcher  sleep, 2 ranks"
run status "$launcher"
is_code 0
shows "sleeps \(S\)"
kill -STOP "$first"
run status "$first"
is_code 6
has_err "does not answer"
kill -CONT "$first"
kill "$launcher" "$first"
wait "$launcher" "$first" 2>/dev/null

case_is "stragglers: a rank that is stopped now and then is late; nobody stands out where nobody is"
# The row is measured again until the rank has been stopped five times; the last of them is stopped, too.
pace=0 COLLCTL_UNTIL=$work/told begin_aside run -n 4 --op-timeout 600 allreduce -b 64K -e 64K --iters 300 --check 0 --algo ring --stragglers --json
await_work
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
run run -n 2 allreduce -b 64K -e 64K --iters 50 --stragglers
is_code 0
shows "^# Late  "
shows "^#   rank [01] .*: waited [0-9]+ %"

conclude
