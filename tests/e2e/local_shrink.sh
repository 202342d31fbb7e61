#!/bin/bash
# --on-loss shrink on this host, with the real binary: ranks are killed, stopped, several at once, while the others form anew, at
# random moments; the others go on. Usage: local_shrink.sh PATH/collctl. The data is checked. Exit 1 when a case failed.
set -u
. "$(dirname "$0")/local_common.sh"
report=$work/report.json
begin() { # $1 ranks, then the rest of the line
  local n=$1
  shift
  "$collctl" run -n "$n" --on-loss shrink -o "$report" "$@" >"$out" 2>"$err" </dev/null &
  launcher=$!
  for _ in $(seq 1200); do
    grep -q '(us)' "$out" && break
    kill -0 "$launcher" 2>/dev/null || break
    sleep 0.05
  done
  all=$(ps -o pid= --ppid "$launcher")
  mapfile -t pids < <(ps -o pid=,args= --ppid "$launcher" | awk '/__rank/ { print $1 }')
  [ "${#pids[@]}" = "$n" ] || fail "${#pids[@]} ranks are there"
}
end() {
  for _ in $(seq 1800); do kill -0 "$launcher" 2>/dev/null || break; sleep 0.1; done
  ! kill -0 "$launcher" 2>/dev/null || { fail "the job did not end"; kill -INT "$launcher"; }
  wait "$launcher"
  rc=$?
  for _ in $(seq 100); do
    left=
    for pid in $all; do
      case $(ps -o stat= -p "$pid" 2>/dev/null) in "" | Z*) ;; *) left="$left $pid" ;; esac
    done
    [ -n "$left" ] || return
    sleep 0.1
  done
  fail "still there:$left"
}
lost_ranks() { grep -o '"lost":\[{.*' "$report" | grep -o '"ranks":\[[0-9,]*\],"host"' | grep -o '[0-9]*' | sort -n | xargs; }
is_incomplete() { # $1: exactly those are lost; $2: what is said of the data
  is_code 8
  has_out "Out of bounds values : ${2:-0 OK}"
  has_out "# Verdict              : incomplete"
  [ "$(lost_ranks)" = "$1" ] || fail "lost are '$(lost_ranks)', expected '$1'"
}
rows() { grep -c '^ *[0-9][0-9]* ' "$out"; }
few=(-b 64K -e 512K --iters 600 --warmup 1)

for op in allreduce sendrecv alltoall barrier "allgather --transport net" "reduce --root 1"; do
  case_is "a rank is killed in $op"
  # shellcheck disable=SC2086
  if [ "$op" = barrier ]; then begin 4 barrier --iters 300000; else begin 4 $op "${few[@]}"; fi
  kill -KILL "${pids[2]}"
  end
  if [ "$op" = barrier ]; then is_incomplete 2 "not checked"; else is_incomplete 2; fi
  has_out "rank 2 (pid ${pids[2]}"
  has_out "3 ranks go on"
  [ "$op" = barrier ] || [ "$(rows)" = 4 ] || fail "$(rows) rows of 4"
done

case_is "rank 0 is killed, then the next rank 0"
begin 4 allreduce "${few[@]}"
kill -KILL "${pids[0]}"
for _ in $(seq 200); do grep -q '^# lost' "$out" && break; sleep 0.01; done
kill -SEGV "${pids[1]}"
end
is_incomplete "0 1"
[ "$(rows)" = 4 ] || fail "$(rows) rows of 4"

case_is "several at once"
begin 6 allreduce "${few[@]}"
kill -KILL "${pids[0]}" "${pids[3]}" "${pids[5]}"
end
is_incomplete "0 3 5"

case_is "a stopped rank is lost after the operation's time, and does not wake up again"
begin 3 allreduce --op-timeout 3 "${few[@]}"
kill -STOP "${pids[1]}"
end
is_incomplete 1
has_out "does not move: stopped (state T)"

case_is "a rank is stopped while the others form anew"
begin 4 allreduce --op-timeout 3 --start-timeout 6 "${few[@]}"
kill -STOP "${pids[1]}"
kill -KILL "${pids[2]}"
end
is_incomplete "1 2"

case_is "of a lost root nothing more is measured"
begin 3 broadcast --root all "${few[@]}"
kill -KILL "${pids[0]}"
end
is_incomplete 0
has_out "nothing more was measured of root 0"

case_is "one alone is no job: as without shrinking"
begin 2 allreduce "${few[@]}"
kill -KILL "${pids[1]}"
end
is_code 5
has_err "rank 1 (pid ${pids[1]}"

case_is "without the option a loss ends the job"
begin 4 allreduce --on-loss abort "${few[@]}"
kill -KILL "${pids[2]}"
end
is_code 5
has_err "rank 2 (pid ${pids[2]}"

case_is "Ctrl-C while a rank is waited for"
begin 3 allreduce --op-timeout 20 "${few[@]}"
kill -STOP "${pids[1]}"
kill -KILL "${pids[2]}"
sleep 0.3
kill -TERM "$launcher"
end
is_code 143

case_is "the time of the whole job counts on"
begin 4 allreduce --op-timeout 20 --timeout 4 -b 1M -e 1M --iters 1000000 --check 0
kill -STOP "${pids[1]}"
kill -KILL "${pids[2]}"
end
is_code 6
has_err "(--timeout)"

case_is "at random moments, any ranks"
RANDOM=7
for round in $(seq 12); do
  begin 5 allreduce --op-timeout 3 --start-timeout 6 "${few[@]}"
  victims=$(shuf -i 0-4 -n $((1 + RANDOM % 3)) --random-source=<(yes $round) | sort -n | xargs)
  for v in $victims; do
    sleep 0.0$((RANDOM % 10))
    kill -KILL "${pids[$v]}" 2>/dev/null || true
  done
  end
  # Who is killed when all is done is not missed.
  case $rc in
    0 | 8 | 5) ;;
    *) fail "round $round: exit code $rc" ;;
  esac
  for r in $(lost_ranks); do
    case " $victims " in *" $r "*) ;; *) fail "round $round: rank $r is lost, killed were $victims" ;; esac
  done
  [ $rc != 8 ] || [ "$(rows)" = 4 ] || fail "round $round: $(rows) rows of 4"
  [ $rc != 8 ] || has_out "Out of bounds values : 0 OK"
done

# By the report: group, its rows, and how many of them were measured by how many ranks fewer than it began with.
groups() {
  python3 - "$report" <<'PYTHON'
import json, sys
found = {}
for row in json.load(open(sys.argv[1]))["results"]:
    rows, fewer = found.setdefault(row["group"], (set(), set()))
    rows.add(row["bytes"])
    fewer.add(row.get("ranks", 0))
print("; ".join(f"{group}: {len(rows)} {max(fewer)}" for group, (rows, fewer) in sorted(found.items())))
PYTHON
}

case_is "a rank of a group is lost: its group goes on without it, the others as they were"
begin 6 allreduce --split mod:2 "${few[@]}"
kill -KILL "${pids[2]}"
end
is_incomplete 2
[ "$(groups)" = "0: 4 2; 1: 4 0" ] || fail "groups: $(groups)"

case_is "a whole group is lost"
begin 5 allreduce --split mod:2 "${few[@]}"
kill -KILL "${pids[1]}" "${pids[3]}"
end
is_incomplete "1 3"
case $(groups) in "0: 4 0" | "0: 4 0; 1: "[0-4]" 0") ;; *) fail "groups: $(groups)" ;; esac

case_is "rank 0 and one of another group are lost"
begin 6 allreduce --split 3 "${few[@]}"
kill -KILL "${pids[0]}" "${pids[5]}"
end
is_incomplete "0 5"
has_out "group"

case_is "what cannot be combined is refused by name"
refused() { # the words that are named, then the line
  local word=$1
  shift
  run run -n "${ranks:-4}" --on-loss shrink "$@"
  is_code 2
  has_err "$word"
  has_err "--on-loss shrink"
}
refused --split broadcast --split 2
refused --window allreduce --window
refused --stragglers allreduce --stragglers
refused --trace allreduce --trace "$work/trace.json"
refused --save-baseline allreduce --save-baseline "$work/baseline"
refused "--rank-mode thread" --rank-mode thread allreduce
refused hypercube hypercube
refused soak soak
COLLCTL_TOKEN=a-long-enough-secret RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 ranks=2 \
  refused "another launcher" --launcher adopt allreduce
run run -n 2 --on-loss shrink -- true
is_code 2
has_err "no meaning with a program"

conclude
