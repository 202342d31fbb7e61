#!/bin/bash
# Local jobs with the real binary: ranks that end, fail, hang or are killed; programs; signals; nothing
# left behind. Usage: local_jobs.sh PATH/collctl. Every case says what it expected; exit 1 when one
# failed.
set -u
. "$(dirname "$0")/local_common.sh"
is_out() { [ "$(cat "$out")" = "$1" ] || fail "standard output is not '$1'"; }
long=(-b 1M -e 1M --iters 1000000 --check 0)

case_is "a collective over processes"
run run -n 4 allreduce -b 8 -e 64K -f 8 --json
is_code 0
has_out '"schema":"collctl.bench/1"'

case_is "a collective over threads"
run run -n 3 --rank-mode thread allreduce -b 8 -e 4K -f 8 --json
is_code 0

case_is "more ranks than messages between all of them have memory for"
run run -n 200 alltoall -b 1600 -e 1600 --iters 2 --warmup 1 --json
is_code 0
has_out '"algorithm":"one-shot"'

case_is "one rank"
run run -n 1 allreduce -b 8 -e 1K
is_code 0

# Messages of this size are read out of their sender's memory.
case_is "a rank that is killed"
begin run -n 4 --op-timeout 3600 sendrecv "${long[@]}"
await_ranks 4
kill -KILL "${pids[2]}"
end
is_code 5
has_err "rank 2 (pid ${pids[2]}"
has_err "(SIGKILL)"
all_gone $all

case_is "a rank that is stopped"
begin run -n 4 --op-timeout 4 allreduce "${long[@]}"
await_ranks 4
kill -STOP "${pids[2]}"
end
is_code 6
has_err "rank 2 (pid ${pids[2]}"
has_err "stopped (state T)"
has_err "for rank 2"
all_gone $all

for op in allreduce alltoallv; do
  case_is "$op in groups"
  run run -n 6 "$op" --split 2 -b 1K -e 16K -f 16 --iters 3 --json
  is_code 0
  has_out '"groups":[{"ranks":[0,1],'
  has_out '"group":2,"group_ranks":2,'
done

case_is "groups by other rules, as threads, uneven, with windows"
for how in host "3 --rank-mode thread" "mod:2 --window"; do
  run run -n 5 allreduce --split $how -b 1K -e 16K -f 16 --iters 3
  is_code 0
  has_out "# groups of --split ${how%% *}"
  has_out "Verdict              : passed"
done

case_is "what groups cannot do"
run run -n 4 allreduce --split 2 --vs nccl
is_code 2
has_err "--vs with --split"
run run -n 6 hypercube --split 3
is_code 2
has_err "group 0 (ranks 0-2)"
run rails --split 2
is_code 2

case_is "a rank of a group is killed"
begin run -n 5 --op-timeout 3600 allreduce --split 2 "${long[@]}"
await_ranks 5
kill -KILL "${pids[3]}"
end
is_code 5
has_err "rank 3 (pid ${pids[3]}"
has_err "group 1 (ranks 2-3)"
all_gone $all

# As early as it is seen; whatever it is at then, the same is said.
case_is "a rank that is stopped at the start"
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

for sig in INT HUP; do
  case_is "SIG$sig to the launcher"
  begin run -n 3 allreduce "${long[@]}"
  await_ranks 3
  kill -$sig $launcher
  end
  is_code $((128 + $(kill -l $sig)))
  all_gone $all
done

case_is "the launcher killed by SIGKILL"
begin run -n 3 allreduce "${long[@]}"
await_ranks 3
kill -KILL $launcher
end 2>/dev/null
is_code 137
all_gone $all

case_is "a job longer than --timeout"
begin run -n 2 --timeout 2 allreduce "${long[@]}"
end
is_code 6
has_err "--timeout"

case_is "__rank by hand"
run __rank
is_code 2

case_is "programs know their place"
run run -n 3 --tag-output -- sh -c \
  'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR ${MASTER_PORT:+port}'
is_code 0
[ "$(sort "$out")" = "$(for r in 0 1 2; do echo "[$r] $r/3 $r/3 0 127.0.0.1 port"; done)" ] ||
  fail "wrong places"

case_is "a program gets what -x says and no secret"
COLLCTL_TOKEN=hush run run -n 1 -x MARK=1 -- sh -c 'echo $MARK ${COLLCTL_TOKEN-none}; ls /proc/self/fd | wc -l'
is_code 0
has_out "1 none"
grep -qF hush "$out" && fail "the token was shown"

case_is "the first failing rank's exit code"
run run -n 3 -- sh -c '[ $RANK = 1 ] && exit 42; exec sleep 600'
is_code 42
has_err "rank 1"
has_err "exit code 42"

case_is "a program killed by a signal"
run run -n 2 -- sh -c '[ $RANK = 0 ] && kill -9 $$; exec sleep 600'
is_code 137
has_err "rank 0"
has_err "SIGKILL"

case_is "a program that does not exist"
run run -n 2 -- no-such-program
is_code 4
has_err "no-such-program"

case_is "a program that ignores SIGTERM"
run run -n 2 --grace 1 -- sh -c '[ $RANK = 0 ] && exit 3; trap "" TERM; sleep 600; exec sleep 600'
is_code 3

case_is "grandchildren of programs"
run run -n 1 -- sh -c 'setsid sleep 1000 & far=$!; sleep 1000 & echo $far $!; until [ "$(ps -o sid= -p $far)" -eq $far ]; do :; done'
is_code 0
all_gone $(cat "$out")

case_is "grandchildren when the launcher is killed"
begin run -n 1 -- sh -c 'sleep 1000 & echo $! $$; wait'
await -of "$launcher" line "$out" .
all="$(cat "$out") $(children | awk '{print $1}')"
kill -KILL $launcher
end 2>/dev/null
all_gone $all

case_is "equal outputs once"
run run -n 4 --gather -- sh -c 'echo $((RANK / 2))'
is_code 0
is_out "[0-1] 2 ranks
0
[2-3] 2 ranks
1"

case_is "standard input for rank 0, for all, for none"
seq 100000 >"$work/in"
"$collctl" run -n 2 --stdin 0 -- sh -c 'wc -c' <"$work/in" >"$out" 2>"$err"; rc=$?
is_code 0
[ "$(sort -n "$out" | tr '\n' ' ')" = "0 588895 " ] || fail "not for rank 0 alone"
"$collctl" run -n 3 --stdin all -- md5sum <"$work/in" >"$out" 2>"$err"; rc=$?
is_code 0
[ "$(sort -u "$out")" = "$(md5sum <"$work/in")" ] && [ "$(wc -l <"$out")" = 3 ] || fail "not for all"

case_is "binary output of one rank is unchanged"
head -c 5000000 /dev/urandom >"$work/bin"
"$collctl" run -n 1 -- cat "$work/bin" >"$out" 2>"$err"; rc=$?
is_code 0
cmp -s "$out" "$work/bin" || fail "bytes differ"

case_is "one file per rank"
run run -n 2 --output-dir "$work/ranks" -- sh -c 'echo out $RANK; echo err $RANK >&2'
is_code 0
is_out ""
[ "$(cat "$work/ranks/rank.1.out" "$work/ranks/rank.0.err")" = "out 1
err 0" ] || fail "wrong files"

case_is "a reader that goes away"
timeout -k 5 300 "$collctl" run -n 2 -- yes 2>"$err" | head -n 2 >"$out"
rc=${PIPESTATUS[0]}
is_code 141

case_is "a slow reader holds the ranks back and a signal still ends the job"
"$collctl" run -n 2 -- yes >"$work/much" 2>"$err" & launcher=$!
await -of "$launcher" proc 0 "^[0-9]+ $launcher . yes" 2
all=$found
kill -TERM $launcher
end
is_code 143
rm "$work/much"
all_gone $all
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

case_is "signals for programs are forwarded"
begin run -n 2 -- sh -c 'trap "echo got; exit 0" USR1; sleep 1000 & echo up; wait'
await -of "$launcher" line "$out" up 2
kill -USR1 $launcher
end
is_code 0
[ "$(grep -c got "$out")" = 2 ] || fail "not both ranks got it"

case_is "suspended and continued"
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

case_is "ranks joined by hand"
port=$((20000 + RANDOM % 12000))  # below those that the kernel hands out
for r in 2 1 0; do
  timeout -k 5 300 "$collctl" run --join 127.0.0.1:$port --rank $r --size 3 allreduce -b 8 -e 1K \
    >"$work/join.$r" 2>"$work/join.$r.err" </dev/null & joined[$r]=$!
done
for r in 0 1 2; do
  wait "${joined[$r]}"; rc=$?
  cp "$work/join.$r" "$out"; cp "$work/join.$r.err" "$err"
  is_code 0
  if [ $r = 0 ]; then has_out "3 CPU ranks"; else is_out ""; fi
done

case_is "groups of ranks joined by hand"
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
  if [ $r = 0 ]; then has_out "#   group 1 (ranks 1,3)"; else is_out ""; fi
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

conclude
