#!/bin/bash
# Makes hosts in namespaces (tests/e2e/ssh_rig.sh) for one field and runs one.py on them.
# Usage: hosts.sh PATH/collctl HOSTS CACHE ONE'S-ARGUMENTS... CACHE: a folder in which the hosts' caches with the binary are kept
# from one field to the next; a way that the binary takes to hosts is not what is looked at here.
# Exit 1 when something did not hold, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1") hosts=$2 cache=$3
shift 3
cd "$(dirname "$(realpath "$0")")/../.." || exit 1
. tests/e2e/ssh_rig.sh
for tool in tc iptables; do command -v $tool >/dev/null || rig_skip "$tool is not installed"; done
rig_up "$hosts"
trap 'trap "" TERM INT HUP; exit 143' TERM INT HUP
install -m 755 "$collctl" "$rig/collctl"
export FIELD_BINARY=$rig/collctl RIG=$rig RIG_HEAD=$rig_head_pid RIG_NODES="${rig_pids[*]}" RIG_HOME=$rig_home \
  RIG_NETWORK=$rig_network RIG_NETWORK6=$rig_network6
if [ ! -d "$cache/collctl" ]; then
  rig_head timeout 240 "$rig/collctl" run -H node01:1 -- true </dev/null || exit 1
  mv "$rig/node01/home/.cache/collctl" "$cache"
fi
for ((i = 1; i <= hosts; i++)); do
  install -d -m 700 "$rig/$(rig_name "$i")/home/.cache"
  cp -al "$cache/." "$rig/$(rig_name "$i")/home/.cache" || exit 1
done
python3 tests/field/one.py "$@"
