#!/bin/bash
# --on-loss shrink on this host, with the real binary: ranks are killed, stopped, several at once, while the others form anew, at
# random moments; the others go on. Usage: local_shrink.sh PATH/collctl. The data is checked. Exit 1 when a case failed.
set -u
. "$(dirname "$0")/local_common.sh"
report=$work/report.json
# Every row is measured again until $work/go is there: so long the job goes on, whoever is lost.
export COLLCTL_UNTIL=$work/go
start() { # $1 ranks, then the rest of the line
  rm -f "$work/go" "$report"
  begin run -n "$1" --on-loss shrink -o "$report" "${@:2}"
  await_ranks "$1"
}
# Once each of these ranks is told as lost the others come to the end.
finish_without() {
  local rank
  for rank in "$@"; do await -of "$launcher" line "$out" "rank $rank \\(pid ${pids[$rank]}"; done
  touch "$work/go"
  end
  all_gone $all
}
lost_ranks() { grep -o '"lost":\[{.*' "$report" | grep -o '"ranks":\[[0-9,]*\],"host"' | grep -o '[0-9]*' | sort -n | xargs; }
is_incomplete() { # $1: exactly those are lost; $2: what is said of the data
  is_code 8
  has_out "Out of bounds values : ${2:-0 OK}"
  has_out "# Verdict              : incomplete"
  [ "$(lost_ranks)" = "$1" ] || fail "lost are '$(lost_ranks)', expected '$1'"
}
rows() { grep -c '^ *[0-9][0-9]* ' "$out"; }
few=(-b 64K -e 512K --iters 5 --warmup 1)

for op in "allgather --transport net" sendrecv; do
  case_is "a rank is killed in $op"
  # shellcheck disable=SC2086
  start 4 $op "${few[@]}"
  kill -KILL "${pids[2]}"
  finish_without 2
  is_incomplete 2
  has_out "3 ranks go on"
  [ "$(rows)" = 4 ] || fail "$(rows) rows of 4"
done

case_is "a rank is killed in barrier, of which no data is checked"
start 4 barrier --iters 5
kill -KILL "${pids[2]}"
finish_without 2
is_incomplete 2 "not checked"

case_is "rank 0 is killed, then the next rank 0"
start 4 allreduce "${few[@]}"
kill -KILL "${pids[0]}"
await -of "$launcher" line "$out" '^# lost'
kill -SEGV "${pids[1]}"
finish_without 0 1
is_incomplete "0 1"
[ "$(rows)" = 4 ] || fail "$(rows) rows of 4"

case_is "a stopped rank is lost after the operation's time, and does not wake up again"
start 3 allreduce --op-timeout 3 "${few[@]}"
kill -STOP "${pids[1]}"
finish_without 1
is_incomplete 1
has_out "does not move: stopped (state T)"

case_is "a rank is stopped while the others form anew"
start 4 allreduce --op-timeout 3 --start-timeout 6 "${few[@]}"
kill -STOP "${pids[1]}"
kill -KILL "${pids[2]}"
finish_without 1 2
is_incomplete "1 2"

case_is "of a lost root nothing more is measured"
start 3 broadcast --root all "${few[@]}"
kill -KILL "${pids[0]}"
finish_without 0
is_incomplete 0
has_out "nothing more was measured of root 0"

case_is "one alone is no job: as without shrinking"
start 2 allreduce "${few[@]}"
kill -KILL "${pids[1]}"
end
is_code 5
has_err "rank 1 (pid ${pids[1]}"

case_is "Ctrl-C while a rank is waited for"
start 3 allreduce --op-timeout 3600 "${few[@]}"
kill -STOP "${pids[1]}"
kill -KILL "${pids[2]}"
await -of "$launcher" proc 0 "^[0-9]+ $launcher . .*__rank" 2
kill -TERM "$launcher"
end
is_code 143
all_gone $all

case_is "the time of the whole job counts on"
start 4 allreduce --op-timeout 3600 --timeout 30 "${few[@]}"
kill -STOP "${pids[1]}"
kill -KILL "${pids[2]}"
end
is_code 6
has_err "(--timeout)"
all_gone $all

# One after another, each when the one before: was just killed; has been reaped; is told as lost; and the others work again.
case_is "at random moments, any ranks: exactly those who were killed are lost"
RANDOM=7
for round in $(seq 6); do
  start 5 allreduce --op-timeout 3600 --start-timeout 3600 "${few[@]}"
  victims=$(shuf -i 0-4 -n $((1 + RANDOM % 3)) --random-source=<(yes $round) | xargs)
  left=5
  for v in $victims; do
    kill -KILL "${pids[$v]}"
    left=$((left - 1))
    case $((RANDOM % 4)) in
      1) await -of "$launcher" proc 0 "^[0-9]+ $launcher . .*__rank" $left ;;
      2) await -of "$launcher" line "$out" "rank $v \(pid ${pids[$v]}" ;;
      3) await -of "$launcher" line "$out" "rank $v \(pid ${pids[$v]}" -- moves "$launcher" 1 ;;
    esac
  done
  # shellcheck disable=SC2086
  finish_without $victims
  is_incomplete "$(tr ' ' '\n' <<<"$victims" | sort -n | xargs)"
  [ "$(rows)" = 4 ] || fail "round $round, $victims killed: $(rows) rows of 4"
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
start 6 allreduce --split mod:2 "${few[@]}"
kill -KILL "${pids[2]}"
finish_without 2
is_incomplete 2
[ "$(groups)" = "0: 4 2; 1: 4 0" ] || fail "groups: $(groups)"

case_is "a whole group is lost"
start 5 allreduce --split mod:2 "${few[@]}"
kill -KILL "${pids[1]}" "${pids[3]}"
finish_without 1 3
is_incomplete "1 3"
[ "$(groups)" = "0: 4 0" ] || fail "groups: $(groups)"

case_is "what cannot be combined is refused by name"
unset COLLCTL_UNTIL
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
