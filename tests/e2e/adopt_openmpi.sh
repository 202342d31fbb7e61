#!/bin/bash
# Ranks that Open MPI's mpirun starts on two hosts become one job of collctl: rank and size by
# OMPI_COMM_WORLD_*, the meeting point by libpmix. Usage: adopt_openmpi.sh PATH/collctl
set -u
. "$(dirname "$0")/adopt_common.sh"
command -v mpirun.openmpi >/dev/null || rig_skip "openmpi-bin (mpirun.openmpi) is not installed"
rig_up 2
begin_work

mpirun() { # ranks per host, then the command
  local n=$1
  shift
  rig_head timeout -k 5 300 mpirun.openmpi --allow-run-as-root --host "node01:$n,node02:$n" -n $((2 * n)) \
    --bind-to none --mca btl_tcp_if_include "$rig_network.0/24" --mca oob_tcp_if_include "$rig_network.0/24" \
    "$@" >"$out" 2>"$err" </dev/null
  rc=$?
}

engine_cases mpirun

case_is "mpirun killed: nothing is left"
mpirun 2 "$work/idle" allreduce "${long[@]}" &
job=$!
await_ranks $job
kill -KILL "$(pgrep -P "$(pgrep -P $job)")" || fail "mpirun was not found"
wait $job
nothing_left

case_is "a wrong number of ranks is refused"
mpirun 1 "$work/rank" allreduce -n 3 -b 8 -e 8
codes_are 2 2
has_err "Open MPI (OMPI_COMM_WORLD_RANK) has started 2"

case_is "beside the MPI that has started the ranks, on two hosts"
mpirun 1 "$work/rank" allreduce --vs mpi -b 8 -e 64K -f 8 --iters 5 --json
codes_are 2 0
good_report 2 2
has_out '"vs":{"name":"openmpi '

case_is "programs are not launched by ranks"
mpirun 1 "$work/rank" run -- true
codes_are 2 2
has_err "is a rank already, by Open MPI (OMPI_COMM_WORLD_RANK)"

case_is "a rank that does not come is a deadline"
mkfifo "$work/end"
mpirun 1 sh -c "[ \$OMPI_COMM_WORLD_RANK = 0 ] || exec cat '$work/end'; '$work/rank' allreduce --start-timeout 2 -b 8 -e 8; : >'$work/end'"
codes_are 1 6
has_err "PMIx"
nothing_left

case_is "nccl-tests' -g 1 is the rank that each process is; no colour in a pipe, though ranks have a terminal"
mpirun 1 env TERM=xterm "$work/rank" allreduce -g 1 -b 8 -e 8
codes_are 2 0
grep -q Verdict "$out" || fail "no verdict"
! grep -q $'\033' "$out" "$err" || fail "colours in a pipe"

case_is "two engines that disagree"
mpirun 1 env RANK=5 WORLD_SIZE=9 "$work/rank" allreduce -b 8 -e 8
codes_are 2 2
has_err "disagree"
has_err "WORLD_SIZE='9'"

case_is "PMIx without Open MPI's variables: rank and size are asked for"
mpirun 2 env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE "$work/rank" allreduce -b 8 -e 1K --json
codes_are 4 0
good_report 4 2

case_is "ranks started here inside a rank are no ranks of the engine"
mpirun 1 "$collctl" run --launcher local -n 2 --gather -- sh -c 'echo ${OMPI_COMM_WORLD_RANK-none} ${PMIX_RANK-none}'
is_code 0
[ "$(grep -cx 'none none' "$out")" = 2 ] || fail "the engine's variables were handed on"

case_is "a fixed address goes before PMIx, with a token only"
mpirun 1 env "COLLCTL_COMM_ID=$(rig_address 1):29511" "$work/rank" allreduce -b 8 -e 1K --json
codes_are 2 2
has_err "COLLCTL_TOKEN"
case_is "a fixed address and a token"
mpirun 1 env "COLLCTL_COMM_ID=$(rig_address 1):29511" COLLCTL_TOKEN=a-token-of-the-tests "$work/rank" allreduce -b 8 -e 1K --json
codes_are 2 0
good_report 2 2
finish
