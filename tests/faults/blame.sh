#!/bin/bash
# Who is named by `collctl check`: hosts in namespaces, with faults put in from a seed (blame.py says which).
# Usage: blame.sh PATH/collctl [RUNS] [SEED] [HOSTS]. Exit 1 when somebody was wrongly named or not, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
. tests/e2e/ssh_rig.sh
rig_up "${4:-5}"
export COLLCTL_UNDER_TEST=$collctl RIG=$rig RIG_HEAD=$rig_head_pid RIG_NODES="${rig_pids[*]}" RIG_HOME=$rig_home \
  RIG_NETWORK=$rig_network
python3 tests/faults/blame.py "${2:-10}" "${3:-$RANDOM$RANDOM}"
