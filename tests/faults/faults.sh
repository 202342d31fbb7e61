#!/bin/bash
# Random faults against jobs on hosts in namespaces, from a seed: what must hold whatever breaks (faults.py says what).
# Usage: faults.sh PATH/collctl [RUNS] [SEED]. Exit 1 when something did not hold, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
. tests/e2e/ssh_rig.sh
rig_up 4
export COLLCTL_UNDER_TEST=$collctl RIG=$rig RIG_HEAD=$rig_head_pid RIG_NODES="${rig_pids[*]}" RIG_HOME=$rig_home \
  RIG_NETWORK=$rig_network
python3 tests/faults/faults.py "${2:-20}" "${3:-$RANDOM$RANDOM}"
