#!/bin/bash
# Ranks that MPICH's mpiexec (Hydra) starts on two hosts become one job of collctl: rank and size by
# PMI_RANK, the meeting point by PMI-1. Usage: adopt_mpich.sh PATH/collctl
set -u
. "$(dirname "$0")/adopt_common.sh"
command -v mpiexec.hydra >/dev/null || rig_skip "mpich (mpiexec.hydra) is not installed"
rig_up 2
begin_work

hydra() { # ranks per host, then options and the command
  local n=$1
  shift
  rig_head timeout -k 5 300 mpiexec.hydra -iface br0 -hosts "node01:$n,node02:$n" -n $((2 * n)) "$@" \
    >"$out" 2>"$err" </dev/null
  rc=$?
}

two_on_each hydra
below_threshold hydra

case_is "PMI over a port"
# The interface of that port has the same name on all hosts, so a node launches.
cp "$rig/head/home/.ssh/id_ed25519" "$rig/head/home/.ssh/known_hosts" "$rig/node01/home/.ssh/"
rig_node 1 timeout -k 5 300 mpiexec.hydra -iface eth0 -pmi-port -hosts node01:2,node02:2 -n 4 \
  "$work/rank" allgather -b 8 -e 4K -f 8 --json >"$out" 2>"$err" </dev/null
rc=$?
is_code 0
good_report 4 2
codes_are 4 0

case_is "a wrong number of ranks is refused"
hydra 1 "$work/rank" allreduce -n 3 -b 8 -e 8
codes_are 2 2
has_err "PMI (PMI_RANK) has started 2"

case_is "beside the MPI that has started the ranks, on two hosts"
# Its UCX takes the hosts for one, which have one kernel.
hydra 1 -genv UCX_TLS tcp,self "$work/rank" allreduce --vs mpi -b 8 -e 64K -f 8 --iters 5 --json
codes_are 2 0
good_report 2 2
has_out '"vs":{"name":"mpich '

case_is "programs are not launched by ranks"
hydra 1 "$work/rank" run -- true
codes_are 2 2
has_err "is a rank already, by PMI (PMI_RANK)"

case_is "a rank that does not come is a deadline"
mkfifo "$work/end"
hydra 1 sh -c "[ \$PMI_RANK = 0 ] || exec cat '$work/end'; '$work/rank' allreduce --start-timeout 2 -b 8 -e 8; : >'$work/end'"
codes_are 1 6
has_err "barrier_in"
nothing_left

case_is "env tells what was adopted"
hydra 1 sh -c "[ \$PMI_RANK = 0 ] && exec '$collctl' env; exit 0"
has_out "PMI (PMI_RANK)"
has_out "PMI_SIZE"
finish
