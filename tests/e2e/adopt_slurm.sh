#!/bin/bash
# Ranks that Slurm's srun starts on four hosts become one job of collctl: rank and size by SLURM_* and
# PMI_*, the meeting point by PMI-1 of srun --mpi=pmi2, or by a fixed address. A whole Slurm (munged,
# slurmctld, four slurmd) runs on the test rig. Usage: adopt_slurm.sh PATH/collctl
set -u
. "$(dirname "$0")/adopt_common.sh"
for tool in munged slurmctld slurmd srun salloc sbatch; do
  command -v $tool >/dev/null || [ -x /usr/sbin/$tool ] || rig_skip "$tool is not installed (slurm-wlm, munge)"
done
PATH=$PATH:/usr/sbin:/sbin
rig_up 4
begin_work

slurm=$work/slurm
mkdir -p "$slurm/state" "$slurm/munge"
chmod 755 "$slurm/munge"
head -c 1024 /dev/urandom >"$slurm/munge/key"
chmod 600 "$slurm/munge/key"
cat >"$slurm/slurm.conf" <<CONF
ClusterName=rig
SlurmctldHost=head($rig_network.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool.%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0
ReturnToService=2
KillWait=2
MpiDefault=none
NodeName=node[01-04] CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$slurm/slurm.conf
: >"$slurm/munge/log"
# The rig ends what runs in its namespaces.
rig_head munged --foreground --force --key-file="$slurm/munge/key" --socket="$slurm/munge/socket" \
  --pid-file="$slurm/munge/pid" --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" >"$slurm/munge/out" 2>&1 &
rig_head slurmctld -D -i >"$slurm/slurmctld.out" 2>&1 &
for i in 1 2 3 4; do
  mkdir -p "$slurm/spool.$(rig_name $i)"
  rig_node $i slurmd -D -N "$(rig_name $i)" >"$slurm/slurmd.$i.out" 2>&1 &
done
for _ in $(seq 900); do
  [ "$(rig_head sinfo -h -t idle -o %D 2>/dev/null)" = 4 ] && break
  sleep 0.1  # time is what is tested: Slurm tells nobody when its nodes are idle
done
if [ "$(rig_head sinfo -h -t idle -o %D 2>/dev/null)" != 4 ]; then
  rig_head sinfo 2>&1
  tail -n 5 "$slurm"/*.out "$slurm"/*.log "$slurm/munge/log"
  say "Slurm did not come up"
  exit 1
fi

slurm_runs() { # srun, salloc or sbatch with its options and command
  rig_head timeout -k 5 300 "$@" >"$out" 2>"$err" </dev/null
  rc=$?
}

case_is "srun --mpi=pmi2: two ranks on each of four hosts; uneven, three on one host and one on another"
slurm_runs srun --mpi=pmi2 -N4 -n8 "$work/rank" allreduce -b 8 -e 64K -f 8 --json
is_code 0
good_report 8 4
codes_are 8 0

printf '%s\n' node01 node01 node02 node01 >"$work/hostlist"
slurm_runs env "SLURM_HOSTFILE=$work/hostlist" srun --mpi=pmi2 -n4 -m arbitrary "$collctl" allgather -b 8 -e 4K --json
is_code 0
good_report 4 2
has_out '"host":"node01","ranks":[0,1,3]'

case_is "plain srun: no store, so an address and a token"
slurm_runs srun -N2 -n4 "$work/rank" allreduce -b 8 -e 8
codes_are 4 2
has_err "srun --mpi=pmi2"
rm -f "$work"/code.*
slurm_runs env "COLLCTL_COMM_ID=$(rig_address 1):29512" COLLCTL_TOKEN=a-token-of-the-tests srun -w 'node[01-02]' -N2 -n4 \
  "$work/rank" allreduce -b 8 -e 4K --json
codes_are 4 0
good_report 4 2

case_is "a killed rank ends all; srun is told to stop"
killed_rank slurm_runs srun --mpi=pmi2 -w 'node[01-02]' -N2 -n4

: >"$out"
slurm_runs srun --mpi=pmi2 -N4 -n4 "$work/idle" allreduce "${long[@]}" &
job=$!
await_ranks $job
rig_head scancel -u root || fail "scancel failed"
wait $job
nothing_left

case_is "an allocation's shell is a launcher, and hears of srun; so is a batch script, which has SLURM_PROCID=0"
slurm_runs salloc -N2 -n4 "$collctl" run -n 2 allreduce -b 8 -e 8
is_code 0
has_out "2 CPU ranks"
has_err "srun --mpi=pmi2 collctl run allreduce"

cat >"$work/batch" <<BATCH
#!/bin/sh
echo "procid \$SLURM_PROCID step \${SLURM_STEP_ID-none}"
"$collctl" run -n 2 allreduce -b 8 -e 8
srun --mpi=pmi2 "$collctl" allreduce -b 8 -e 8
BATCH
slurm_runs sbatch --wait -N2 -n4 -o "$out" -e "$err" "$work/batch"
is_code 0
has_out "procid 0"
has_out "2 CPU ranks,"
has_out "4 CPU ranks on 2 hosts"

case_is "programs are not launched by ranks; a step of one task may launch here all the same"
slurm_runs srun -N2 -n2 "$work/rank" run -- true
codes_are 2 2
has_err "is a rank already, by Slurm (SLURM_PROCID)"

slurm_runs srun -N1 -n1 "$collctl" run --launcher local -n 2 allreduce -b 8 -e 8
is_code 0
has_out "2 CPU ranks"
finish
