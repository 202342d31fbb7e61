#!/bin/bash
# Slurm: looks at a node before a job gets it, and drains it when something is broken.
#   slurm.conf:  Prolog=/etc/slurm/slurm-prolog.sh
#                PrologFlags=Alloc
# It runs as root on each node of the job, some seconds long. A node that is drained keeps the reason: sinfo -R.
set -u
collctl=${COLLCTL:-/usr/bin/collctl}
scontrol=${SCONTROL:-scontrol}
node=${SLURMD_NODENAME:-$(hostname -s)}

# One line for monitoring: OK, WARNING (not everything was tested), CRITICAL (broken) or UNKNOWN.
line=$(timeout -k 5 120 "$collctl" check --level quick --only doctor,inventory,node --nagios 2>&1 </dev/null)
code=$?
line=$(tail -n 1 <<<"$line")
# 124, 137: it hung.
if [[ $line == "COLLCTL CRITICAL"* || $code = 124 || $code = 137 ]]; then
  line=${line:-"no answer in 120 s"}
  "$scontrol" update nodename="$node" state=drain reason="collctl: ${line%% | *}"
  echo "collctl: $node is drained: $line" >&2
  exit 1 # the job is put back into the queue
fi
# Without a verdict, for example where collctl is missing, no job is held back.
[[ $line == "COLLCTL OK"* || $line == "COLLCTL WARNING"* ]] || echo "collctl: $node could not be checked: $line" >&2
exit 0
