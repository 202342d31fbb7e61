#!/bin/bash
# Makes hosts in namespaces and runs a script of this folder there, from a seed: `faults` (what must hold whatever breaks) or
# `blame` (whom `collctl check` names).
# Usage: on_hosts.sh PATH/collctl faults|blame [RUNS] [SEED] [HOSTS]. Exit 1 when something did not hold, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
. tests/e2e/ssh_rig.sh
case $2 in faults) hosts=4 ;; *) hosts=5 ;; esac
rig_up "${5:-$hosts}"
# Hosts have their own /tmp, which hides a clone that lies there.
install -m 755 "$collctl" "$rig/collctl"
export COLLCTL_UNDER_TEST=$rig/collctl RIG=$rig RIG_HEAD=$rig_head_pid RIG_NODES="${rig_pids[*]}" RIG_HOME=$rig_home \
  RIG_NETWORK=$rig_network
python3 "tests/faults/$2.py" "${3:-20}" "${4:-$RANDOM$RANDOM}"
