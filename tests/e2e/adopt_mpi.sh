#!/bin/bash
# Ranks that Open MPI's mpirun and MPICH's mpiexec (Hydra) start on two hosts become one job of collctl: rank and size by
# OMPI_COMM_WORLD_* or PMI_RANK, the meeting point by libpmix or PMI-1. What follows from which variables: test_adopt. Usage:
# adopt_mpi.sh PATH/collctl
set -u
. "$(dirname "$0")/adopt_common.sh"
engines=
! command -v mpirun.openmpi >/dev/null || engines=mpirun
! command -v mpiexec.hydra >/dev/null || engines="$engines hydra"
[ -n "$engines" ] || rig_skip "neither openmpi-bin (mpirun.openmpi) nor mpich (mpiexec.hydra) is installed"
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
hydra() { # ranks per host, then options and the command
  local n=$1
  shift
  rig_head timeout -k 5 300 mpiexec.hydra -iface br0 -hosts "node01:$n,node02:$n" -n $((2 * n)) "$@" \
    >"$out" 2>"$err" </dev/null
  rc=$?
}

for start in $engines; do
  case $start in
    mpirun) name='openmpi ' variable=OMPI_COMM_WORLD_RANK title="Open MPI" waits=PMIx ;;
    hydra) name='mpich ' variable=PMI_RANK title=PMI waits=barrier_in ;;
  esac

  case_is "$start: two ranks on each, the direct form, a threshold that is not reached: all say so, rank 0 reports"
  $start 2 "$work/rank" allreduce -b 8 -e 64K -f 8 --json
  is_code 0
  good_report 4 2
  codes_are 4 0
  rm "$work"/code.*
  $start 2 "$work/rank" allreduce -b 1K -e 1K --min-busbw 100000 --json
  codes_are 4 1
  has_out '"ok":false'

  case_is "$start: beside the MPI that has started the ranks"
  # MPICH's UCX takes the hosts for one, which have one kernel.
  $start 1 env UCX_TLS=tcp,self "$work/rank" allreduce --vs mpi -b 8 -e 64K -f 8 --iters 5 --json
  codes_are 2 0
  good_report 2 2
  has_out "\"vs\":{\"name\":\"$name"

  case_is "$start: a wrong number of ranks is refused, and to launch programs by ranks"
  $start 1 "$work/rank" allreduce -n 3 -b 8 -e 8
  codes_are 2 2
  has_err "$title ($variable) has started 2"
  rm "$work"/code.*
  $start 1 "$work/rank" run -- true
  codes_are 2 2
  has_err "is a rank already, by $title ($variable)"

  case_is "$start: a rank that does not come is a deadline"
  mkfifo "$work/end.$start"
  $start 1 sh -c "[ \$$variable = 0 ] || exec cat '$work/end.$start'; '$work/rank' allreduce --start-timeout 2 -b 8 -e 8; : >'$work/end.$start'"
  codes_are 1 6
  has_err "$waits"
  nothing_left
done

case $engines in *hydra*)
  case_is "PMI over a port; env tells what was adopted"
  # The interface of that port has the same name on all hosts, so a node launches.
  cp "$rig/head/home/.ssh/id_ed25519" "$rig/head/home/.ssh/known_hosts" "$rig/node01/home/.ssh/"
  rig_node 1 timeout -k 5 300 mpiexec.hydra -iface eth0 -pmi-port -hosts node01:2,node02:2 -n 4 \
    "$work/rank" allgather -b 8 -e 4K -f 8 --json >"$out" 2>"$err" </dev/null
  rc=$?
  is_code 0
  good_report 4 2
  codes_are 4 0
  hydra 1 sh -c "[ \$PMI_RANK = 0 ] && exec '$collctl' env; exit 0"
  has_out "PMI (PMI_RANK)"
  has_out "PMI_SIZE" ;;
esac

case $engines in *mpirun*)
  case_is "a killed rank ends all; so does a killed mpirun"
  killed_rank mpirun 2
  : >"$out"
  mpirun 2 "$work/idle" allreduce "${long[@]}" &
  job=$!
  await_ranks $job
  kill -KILL "$(pgrep -P "$(pgrep -P $job)")" || fail "mpirun was not found"
  wait $job
  nothing_left

  case_is "PMIx without Open MPI's variables: rank and size are asked for; no colour in a pipe, though ranks have a terminal"
  mpirun 2 env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE TERM=xterm "$work/rank" allreduce -g 1 -b 8 -e 1K
  codes_are 4 0
  grep -q Verdict "$out" || fail "no verdict"
  ! grep -q $'\033' "$out" "$err" || fail "colours in a pipe"

  case_is "ranks started here inside a rank are no ranks of the engine"
  mpirun 1 "$collctl" run --launcher local -n 2 --gather -- sh -c 'echo ${OMPI_COMM_WORLD_RANK-none} ${PMIX_RANK-none}'
  is_code 0
  [ "$(grep -cx 'none none' "$out")" = 2 ] || fail "the engine's variables were handed on"

  case_is "a fixed address goes before PMIx, with a token only"
  mpirun 1 env "COLLCTL_COMM_ID=$(rig_address 1):29511" "$work/rank" allreduce -b 8 -e 1K --json
  codes_are 2 2
  has_err "COLLCTL_TOKEN"
  rm "$work"/code.*
  mpirun 1 env "COLLCTL_COMM_ID=$(rig_address 1):29511" COLLCTL_TOKEN=a-token-of-the-tests "$work/rank" allreduce -b 8 -e 1K --json
  codes_are 2 0
  good_report 2 2 ;;
esac
for missing in mpirun:openmpi-bin hydra:mpich; do
  case " $engines " in *" ${missing%:*} "*) ;; *) say "skipped: ranks of ${missing%:*} (${missing#*:} is not installed)" ;; esac
done
finish
