#!/bin/bash
# Slurm: looks at a node after a job, so that what the job left broken meets nobody else.
#   slurm.conf:  Epilog=/etc/slurm/slurm-epilog.sh
# On nodes that jobs share it says nothing while another job is there: times would be that job's.
set -u
collctl=${COLLCTL:-/usr/bin/collctl}
scontrol=${SCONTROL:-scontrol}
squeue=${SQUEUE:-squeue}
node=${SLURMD_NODENAME:-$(hostname -s)}

others=$("$squeue" --noheader --nodelist="$node" --states=running --format=%A 2>/dev/null | grep -vcx "${SLURM_JOB_ID:-0}")
[ "${others:-0}" -eq 0 ] || exit 0

line=$(timeout -k 5 120 "$collctl" check --level quick --only node --nagios 2>&1 </dev/null)
code=$?
line=$(tail -n 1 <<<"$line")
if [[ $line == "COLLCTL CRITICAL"* || $code = 124 || $code = 137 ]]; then
  line=${line:-"no answer in 120 s"}
  "$scontrol" update nodename="$node" state=drain reason="collctl: ${line%% | *} (after job ${SLURM_JOB_ID:-?})"
  echo "collctl: $node is drained: $line" >&2
fi
exit 0
