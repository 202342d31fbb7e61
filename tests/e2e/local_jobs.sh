#!/bin/bash
# Local jobs with the real binary: ranks that end, fail, hang or are killed; programs; signals; nothing
# left behind. Usage: local_jobs.sh PATH/collctl. Every case says what it expected; exit 1 when one
# failed.
set -u
. "$(dirname "$0")/local_common.sh"
is_out() { [ "$(cat "$out")" = "$1" ] || fail "standard output is not '$1'"; }
# Starts in the background; $launcher is its pid.
# A shell without job control starts background jobs with SIGINT ignored, which a job respects.
begin() { env --default-signal=INT "$collctl" "$@" >"$out" 2>"$err" </dev/null & launcher=$!; }
end() { wait "$launcher"; rc=$?; }
children() { ps -o pid=,args= --ppid "$launcher"; }
ranks() { children | awk '/__rank/ {print $1}'; }
# Waits until the ranks measure: all are there and use the processor's time.
await_ranks() {
  for _ in $(seq 1200); do
    [ "$(ranks | wc -l)" = "$1" ] && [ -s "$out" ] && sleep 0.3 && return
    sleep 0.05
  done
  fail "the ranks did not come up"
}
all_gone() { # pids: none may be alive half a minute from now, on a machine however slow
  for _ in $(seq 600); do
    local left=""
    for pid in "$@"; do
      case $(ps -o stat= -p "$pid" 2>/dev/null) in "" | Z*) ;; *) left="$left $pid" ;; esac
    done
    [ -z "$left" ] && return
    sleep 0.05
  done
  fail "still there:$left"
}
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
for how in "KILL allreduce" "SEGV allreduce" "KILL sendrecv" "KILL alltoall"; do
  read -r mode op <<<"$how"
  case_is "a rank killed by SIG$mode in $op"
  begin run -n 4 $op "${long[@]}"
  await_ranks 4
  pids=$(ranks); all=$(children | awk '{print $1}')
  victim=$(echo "$pids" | sed -n 3p)
  start=$SECONDS
  kill -$mode "$victim"
  end
  is_code 5
  has_err "rank 2 (pid $victim"
  has_err "(SIG$mode)"
  [ $((SECONDS - start)) -le 25 ] || fail "took $((SECONDS - start)) s"
  all_gone $all
done

for op in allreduce sendrecv; do
  case_is "a stopped rank in $op"
  begin run -n 4 --op-timeout 4 $op "${long[@]}"
  await_ranks 4
  all=$(children | awk '{print $1}'); victim=$(ranks | sed -n 3p)
  kill -STOP "$victim"
  end
  is_code 6
  has_err "rank 2 (pid $victim"
  has_err "stopped (state T)"
  has_err "for rank 2"
  all_gone $all
done

for op in allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv sendrecv hypercube barrier; do
  case_is "$op in groups"
  run run -n 6 "$op" --split 2 -b 1K -e 16K -f 16 --iters 3 --json
  is_code 0
  has_out '"groups":[{"ranks":[0,1],'
  has_out '"group":2,"group_ranks":2,'
done

case_is "groups by other rules, as threads, uneven, with windows"
for how in mod:2 and:0x1 or:0x1 host numa "3 --rank-mode thread" "mod:2 --window" "2 --sync each"; do
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

for mode in KILL STOP; do
  case_is "a rank of a group, SIG$mode"
  begin run -n 5 --op-timeout 4 allreduce --split 2 "${long[@]}"
  await_ranks 5
  all=$(children | awk '{print $1}'); victim=$(ranks | sed -n 4p)
  kill -$mode "$victim"
  end
  if [ $mode = KILL ]; then is_code 5; else is_code 6; fi
  has_err "rank 3 (pid $victim"
  has_err "group 1 (ranks 2-3)"
  all_gone $all
done

case_is "a rank stopped during start-up"
begin run -n 4 --start-timeout 5 allreduce "${long[@]}"
for _ in $(seq 2000); do
  victim=$(ranks | sed -n 2p)
  [ -n "$victim" ] && kill -STOP "$victim" 2>/dev/null && break
  sleep 0.005
done
all=$(children | awk '{print $1}')
end
is_code 6
has_err "rank 1"
has_err "stopped (state T)"
all_gone $all

for sig in INT TERM HUP; do
  case_is "SIG$sig to the launcher"
  begin run -n 3 allreduce "${long[@]}"
  await_ranks 3
  all=$(children | awk '{print $1}')
  kill -$sig $launcher
  end
  is_code $((128 + $(kill -l $sig)))
  all_gone $all
done

case_is "the launcher killed by SIGKILL"
begin run -n 3 allreduce "${long[@]}"
await_ranks 3
all=$(children | awk '{print $1}')
kill -KILL $launcher
end 2>/dev/null
is_code 137
all_gone $all

case_is "a job longer than --timeout"
run run -n 2 --timeout 2 allreduce "${long[@]}"
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
run run -n 3 -- sh -c '[ $RANK = 1 ] && exit 42; sleep 60'
is_code 42
has_err "rank 1"
has_err "exit code 42"

case_is "a program killed by a signal"
run run -n 2 -- sh -c '[ $RANK = 0 ] && kill -9 $$; sleep 60'
is_code 137
has_err "rank 0"
has_err "SIGKILL"

case_is "a program that does not exist"
run run -n 2 -- no-such-program
is_code 4
has_err "no-such-program"

case_is "a program that ignores SIGTERM"
run run -n 2 --grace 1 -- sh -c '[ $RANK = 0 ] && exit 3; trap "" TERM; while :; do sleep 0.1; done'
is_code 3

case_is "grandchildren of programs"
run run -n 1 -- sh -c 'setsid sleep 1000 & echo $!; sleep 1000 & echo $!; sleep 0.2'
is_code 0
all_gone $(cat "$out")

case_is "grandchildren when the launcher is killed"
begin run -n 1 -- sh -c 'sleep 1000 & echo $! $$; wait'
for _ in $(seq 1200); do [ -s "$out" ] && break; sleep 0.05; done
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
timeout 60 "$collctl" run -n 2 -- yes 2>"$err" | head -n 2 >"$out"
rc=${PIPESTATUS[0]}
is_code 141

case_is "a slow reader holds the ranks back and a signal still ends the job"
"$collctl" run -n 2 -- yes >"$work/fifo.out" 2>"$err" & launcher=$!
sleep 0.3; all=$(children | awk '{print $1}'); kill -TERM $launcher; end
is_code 143
all_gone $all
mkfifo "$work/fifo"
sleep 100 <"$work/fifo" & reader=$!
"$collctl" run -n 2 -- yes >"$work/fifo" 2>"$err" & launcher=$!
sleep 1; all=$(children | awk '{print $1}'); kill -TERM $launcher
for _ in $(seq 1200); do kill -0 $launcher 2>/dev/null || break; sleep 0.05; done
kill -0 $launcher 2>/dev/null && { fail "the job hangs on its blocked output"; kill -KILL $launcher; }
end 2>/dev/null
is_code 143
kill $reader 2>/dev/null
wait $reader 2>/dev/null
all_gone $all

case_is "signals for programs are forwarded"
begin run -n 2 -- sh -c 'trap "echo got; exit 0" USR1; echo up; while :; do sleep 0.05; done'
for _ in $(seq 1200); do [ "$(grep -c up "$out")" = 2 ] && break; sleep 0.05; done
kill -USR1 $launcher
end
is_code 0
[ "$(grep -c got "$out")" = 2 ] || fail "not both ranks got it"

case_is "suspended and continued"
begin run -n 2 -- sh -c 'echo $$; while [ ! -e "$0" ]; do sleep 0.1; done' "$work/go"
for _ in $(seq 1200); do [ "$(wc -l <"$out")" = 2 ] && break; sleep 0.05; done
kill -TSTP $launcher
for _ in $(seq 600); do
  states=$(ps -o stat= -p "$launcher,$(tr '\n' ',' <"$out" | sed 's/,$//')" | cut -c1 | tr -d '\n')
  [ "$states" = TTT ] && break
  sleep 0.05
done
[ "$states" = TTT ] || fail "states are $states, expected TTT"
kill -CONT $launcher
touch "$work/go"
end
is_code 0

case_is "ranks joined by hand"
port=$((20000 + RANDOM % 12000))  # below those that the kernel hands out
for r in 2 1 0; do
  timeout 60 "$collctl" run --join 127.0.0.1:$port --rank $r --size 3 allreduce -b 8 -e 1K \
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
  for r in 3 2 1 0; do
    timeout 60 "$collctl" run --join 127.0.0.1:$1 --rank $r --size 4 allreduce --split mod:2 "${@:2}" \
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
join_groups $((port + 3)) --op-timeout 10 "${long[@]}"
for _ in $(seq 400); do [ -s "$work/join.0" ] && sleep 0.5 && break; sleep 0.05; done
pkill -KILL -P "${joined[3]}" -x collctl
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
