#!/bin/bash
# Jobs over external network plugins, which alone connect the ranks (--transport net).
# Usage: net_plugin.sh PATH/collctl FOLDER-OF-THE-TESTS'-PLUGINS. Exit 1 when a case failed.
set -u
. "$(dirname "$0")/plugin_common.sh"
# Copies: processes of theirs are told from those of other tests by their path.
cp -r "$2" "$work/plugins"
plugins=$work/plugins
bench=(allreduce --transport net -b 4 -e 256K -f 16 --json)
odd=(COLLCTL_DEBUG=WARN)

# The oldest and the newest; all of them: transport's conformance, and collnet's unit tests.
for version in 6 12; do
  case_is "a job over a plugin of version $version"
  all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake$version.so" COLLCTL_NET=wires)
  join "${bench[@]}" -v
  ends_with "0 0 0 0 "
  has_out '"via":"NET/Wires/'
  has_err "NET/Plugin : version $version begins"
  for r in 0 1 2 3; do
    grep -q "^$(hostname):[0-9]*:[0-9]* \[$r\] COLLCTL INFO NET/Plugin : version" "$err" ||
      fail "no line of the plugin with rank $r and its host"
  done
  right
  all+=(FAKE_PLUGIN_FAIL=init)
  join "${bench[@]}"
  ends_with "3 3 3 3 "
  has_err "init failed: system error (2); it said: init was to fail"
done

case_is "a plugin that does not say how much has arrived"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake6.so" COLLCTL_NET=wires FAKE_PLUGIN_NONSENSE=no-size)
join "${bench[@]}"
ends_with "0 0 0 0 "
has_out '"via":"NET/Wires/'
right
join alltoall --transport net -b 4 -e 256K -f 16 --json
ends_with "0 0 0 0 "
right

case_is "by name on the command line"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so")
join "${bench[@]}" --net wires
ends_with "0 0 0 0 "
has_out '"via":"NET/Wires/'
all=()
join "${bench[@]}" --net nowhere
ends_with "3 3 3 3 "
has_err "network 'nowhere', which is neither ib nor socket"

case_is "by NCCL's variable, as the log tells it"
all=("NCCL_NET_PLUGIN=$plugins/libnccl-net-fake12.so")
join "${bench[@]}" -v
ends_with "0 0 0 0 "
has_err "Using network Wires"
has_err "NET/Wires : Using wire0 (10000 Mb/s), wire1 (10000 Mb/s), version 12 of"

case_is "a plugin that is named and fails at its start ends the job, unless another network is named"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" FAKE_PLUGIN_FAIL=init)
join "${bench[@]}" -v --net socket
ends_with "0 0 0 0 "
join "${bench[@]}"
ends_with "3 3 3 3 "
has_err "network plugin Wires"
has_err "init failed: system error (2); it said: init was to fail"
has_err "COLLCTL_NET_PLUGIN=none"
for none in nowhere "$plugins/libnccl-net-nowhere.so"; do
  all=("NCCL_NET_PLUGIN=$none")
  join "${bench[@]}"
  ends_with "3 3 3 3 "
  has_err "NCCL_NET_PLUGIN=$none: network plugin '$none'"
done
all=(NCCL_NET_PLUGIN=none)
join "${bench[@]}"
ends_with "0 0 0 0 "

case_is "one that was asked for by name does not"
all=(COLLCTL_NET=nowhere)
join "${bench[@]}"
ends_with "3 3 3 3 "
has_err "network 'nowhere', which is neither ib nor socket: network plugin 'nowhere': libnccl-net-nowhere.so"

case_is "a rank without the plugin is named"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" COLLCTL_NET=wires)
odd_rank=3
join "${bench[@]}"
odd_rank=
has_err "has no network plugin, and rank"
has_err "rank 3"
case $codes in *0*) fail "exit codes are '$codes'" ;; esac

case_is "a plugin that fails in an operation ends the job with its word"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" FAKE_PLUGIN_FAIL=isend:5)
join "${bench[@]}"
ends_with "5 5 5 5 "
has_err "isend failed: system error (2); it said: isend was to fail"

case_is "a receive that the plugin never tells of ends the job at the deadline"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" FAKE_PLUGIN_NONSENSE=stuck-receive)
join "${bench[@]}" --op-timeout 3
case $codes in *0*) fail "exit codes are '$codes'" ;; esac  # who sees a peer go before its word says 5
has_err "waits for"

# Two hosts, whose only way to each other is the network that reduces: they give each other loopback addresses.
hosts=(one one two two)
sums=(allreduce --algo collnet -b 4 -e 256K -f 16 --json)
for version in 6 12; do
  case_is "sums by the network of a plugin of version $version"
  all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-reduces$version.so")
  join "${sums[@]}"
  ends_with "0 0 0 0 "
  has_out '"algorithm":"collnet"'
  has_out '"via":"COLLNET/Sums/'
  right
done

case_is "every type and operation, by the network"
join allreduce --algo collnet -b 40000 -e 40000 --dtype all --op all --iters 2 --warmup 1 --json
ends_with "0 0 0 0 "
right

case_is "a rank without the plugin is named, and all refuse"
odd_rank=3
join "${sums[@]}"
odd_rank=
ends_with "2 2 2 2 "
has_err "collnet needs in-network reduction, and there is none: rank 3 (host "
has_err "uses no network plugin"

# The rank that stands still is a head: the others wait for it in the network, which does not know it.
case_is "a rank that stands still inside a sum by the network is named by all"
all+=(COLLCTL_FAULT=stall:rank=2:channel=0:step=3)
join "${sums[@]}" --channels 1 --op-timeout 3
unset 'all[-1]'
ends_with "6 6 6 6 "
has_err "rank 2"

case_is "a network that fails in an operation ends the job with its word"
all+=(FAKE_PLUGIN_FAIL=iallreduce:5)
join "${sums[@]}"
ends_with "5 5 5 5 "
has_err "network plugin Sums"
has_err "iallreduce failed: system error (2); it said: iallreduce was to fail"

# plan loads the plugin that is named, too.
plan() { "$collctl" plan --nodes 2 --bytes 1M "$@" >"$out" 2>"$err" || fail "plan ended with $?"; }
case_is "plan says what the plugin is, and weighs its network where that reduces"
export COLLCTL_NET_PLUGIN=$plugins/libnccl-net-reduces12.so
plan --algo collnet
has_out "# network plugin: Wires: wire0 (10000 Mb/s), wire1 (10000 Mb/s), version 12 of"
has_out "; it reduces (collnet)"
has_out " collnet "
plan --json
has_out '"network_plugin":{"used":true,"name":"Wires"'
has_out '"reduces":true'
plan --net socket
grep -q plugin "$out" && fail "a plugin with --net socket"
export COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so
plan --net wires
has_out "; it does not reduce: "
FAKE_PLUGIN_FAIL=init plan
has_out "# network plugin: none, the plan is without it: COLLCTL_NET_PLUGIN="
unset COLLCTL_NET_PLUGIN
plan --net nowhere
has_out "# network plugin: none, the plan is without it: network 'nowhere', which is neither ib nor socket"

case_is "no process that reduces is left over"
await proc 0 "[0-9] $plugins/fake_reducer" 0

conclude
