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
  has_out "# Verdict              : passed, but not everything"
  [ "$(lost_ranks)" = "$1" ] || fail "lost are '$(lost_ranks)', expected '$1'"
}
rows() { grep -c '^ *[0-9][0-9]* ' "$out"; }
few=(-b 64K -e 512K --iters 5 --warmup 1)

case_is "a rank is killed, whose data came over the network or was read out of its memory"
for op in "allgather --transport net" sendrecv; do
  # shellcheck disable=SC2086
  start 4 $op "${few[@]}"
  kill -KILL "${pids[2]}"
  finish_without 2
  is_incomplete 2
  has_out "3 ranks go on"
  [ "$(rows)" = 4 ] || fail "$(rows) rows of 4"
done

case_is "a stopped rank is lost after the operation's time, and does not wake up again"
start 3 allreduce --op-timeout 3 "${few[@]}"
kill -STOP "${pids[1]}"
finish_without 1
is_incomplete 1
has_out "does not move: stopped (state T)"

# One after another, each when the one before: was just killed; has been reaped; is told as lost; and the others work again.
case_is "at random moments, any ranks: exactly those who were killed are lost"
RANDOM=7
for round in $(seq 6); do
  start 5 allreduce --op-timeout 3600 --start-timeout 3600 "${few[@]}"
  victims=$(shuf -i 0-4 -n $((1 + RANDOM % 3)) --random-source=<(yes $round) | xargs)
  [ $round != 1 ] || victims="0 1" # rank 0, then the next rank 0
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

# By the report: each group, its rows, and how many ranks measured them where these were fewer than at first.
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

case_is "a whole group is lost, and a rank of another: that one goes on without it, the third as it was"
start 7 allreduce --split mod:3 "${few[@]}"
kill -KILL "${pids[2]}" "${pids[3]}" "${pids[5]}"
finish_without 2 3 5
is_incomplete "2 3 5"
[ "$(groups)" = "0: 4 2; 1: 4 0" ] || fail "groups: $(groups)"

conclude
