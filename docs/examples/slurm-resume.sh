#!/bin/bash
# Slurm: resumes nodes that collctl has drained and that have passed a check since. From cron, after the check:
#   collctl check --hostfile /etc/collctl/hosts --history /var/lib/collctl/history; slurm-resume.sh
# Nodes that somebody else has drained, for another reason, stay as they are.
set -u
collctl=${COLLCTL:-/usr/bin/collctl}
scontrol=${SCONTROL:-scontrol}
sinfo=${SINFO:-sinfo}
history=${HISTORY_DIR:-/var/lib/collctl/history}

# Failures of other nodes are no error here. From JSON, as words of a finding could look like a line for Slurm.
trend=$("$collctl" report --exit-zero --json --trend "$history") || exit 1
nodes=$(python3 -c 'import json, sys; print(*json.load(sys.stdin)["resume"], sep="\n")' <<<"$trend") || exit 1
for node in $nodes; do
  # A list of nodes, or an option, is none of ours.
  [[ $node =~ ^[A-Za-z0-9_][A-Za-z0-9._-]*$ ]] || continue
  reason=$("$sinfo" --noheader --nodes="$node" --format=%E)
  [[ $reason == collctl* ]] || continue
  "$scontrol" update nodename="$node" state=resume && echo "collctl: $node is resumed; it was drained: $reason"
done
