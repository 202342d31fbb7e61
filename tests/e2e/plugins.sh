#!/bin/bash
# Jobs and plans with external plugins: networks, which alone connect the ranks (--transport net) or reduce, and tuners
# (tests/fake_plugins). Of each interface the oldest and the newest version; all versions, and each call that fails:
# test_transport's and test_runtime_network's. Usage: plugins.sh PATH/collctl FOLDER-OF-THE-TESTS'-PLUGINS. Exit 1 when a
# case failed.
set -u
. "$(dirname "$0")/local_common.sh"
# Copies: processes of theirs are told from those of other tests by their path.
cp -r "$2" "$work/plugins"
plugins=$work/plugins
bench=(allreduce -b 4 -e 256K -f 16 --json)
odd=(COLLCTL_DEBUG=WARN)
hosts=()

ends_with() { [ "$codes" = "$1" ] || fail "exit codes are '$codes', expected '$1'"; }
lacks_out() { ! grep -qF -- "$1" "$out" || fail "standard output has '$1'"; }
right() {
  [ "$(grep -o '"wrong":[-0-9]*' "$out" | sort -u)" = '"wrong":0' ] || fail "data was wrong or not checked"
}
# Four ranks that meet by address; rank $odd_rank, when set, gets the variables of `odd` instead of those of `all`.
# `hosts`, when set, are the hosts that the ranks say they are on.
join() {
  local r pid pids=() port=$((29500 + RANDOM % 2000))
  : >"$out"; : >"$err"
  for r in 1 2 3 0; do
    local mine=("${all[@]}")
    [ "${odd_rank:-}" = $r ] && mine=("${odd[@]}")
    [ ${#hosts[@]} -gt 0 ] && mine+=("COLLCTL_HOSTID=${hosts[$r]}")
    env "${mine[@]}" COLLCTL_TOKEN=a-token-of-the-tests timeout -k 5 240 "$collctl" run \
      --join 127.0.0.1:$port --rank $r --size 4 "$@" </dev/null >>"$out" 2>>"$err" &
    pids+=($!)
  done
  codes=
  for pid in "${pids[@]}"; do wait "$pid"; codes="$codes$? "; done
}
one() {
  env "${all[@]}" timeout -k 5 240 "$collctl" "$@" </dev/null >"$out" 2>"$err"
  codes="$? "
}
# plan loads the plugin that is named, too.
plan() {
  all=("$@")
  one plan --nodes 2 --bytes 1M "${with[@]}"
  ends_with "0 "
}

# --- networks
for version in 6 12; do
  case_is "a job over a network plugin of version $version"
  all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake$version.so" COLLCTL_NET=wires)
  [ $version = 12 ] || all+=(FAKE_PLUGIN_NONSENSE=no-size) # one that does not say how much has arrived
  join "${bench[@]}" --transport net -v
  ends_with "0 0 0 0 "
  has_out '"via":"NET/Wires/'
  has_err "NET/Plugin : version $version begins"
  has_err "Using network Wires"
  has_err "NET/Wires : Using wire0 (10000 Mb/s), wire1 (10000 Mb/s), version $version of"
  for r in 0 1 2 3; do
    grep -q "^$(hostname):[0-9]*:[0-9]* \[$r\] COLLCTL INFO NET/Plugin : version" "$err" ||
      fail "no line of the plugin with rank $r and its host"
  done
  right
done

case_is "by NCCL's variable, and by name on the command line; one that there is not, and none"
all=("NCCL_NET_PLUGIN=$plugins/libnccl-net-fake12.so")
one run -n 2 "${bench[@]}" --transport net --net wires
ends_with "0 "
has_out '"via":"NET/Wires/'
for none in nowhere "$plugins/libnccl-net-nowhere.so"; do
  all=("NCCL_NET_PLUGIN=$none")
  one run -n 2 "${bench[@]}" --transport net
  ends_with "3 "
  has_err "NCCL_NET_PLUGIN=$none: network plugin '$none'"
done
all=(COLLCTL_NET=nowhere)
one run -n 2 "${bench[@]}" --transport net
ends_with "3 "
has_err "network 'nowhere', which is neither ib nor socket: network plugin 'nowhere': libnccl-net-nowhere.so"
all=(NCCL_NET_PLUGIN=none)
one run -n 2 "${bench[@]}" --transport net
ends_with "0 "

# Up to version 10 a plugin starts once in a process, which cannot be tried by threads.
case_is "a plugin that is named and fails at its start ends the job, unless another network is named"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake6.so" FAKE_PLUGIN_FAIL=init)
one run -n 2 "${bench[@]}" --transport net --net socket
ends_with "0 "
join "${bench[@]}" --transport net
ends_with "3 3 3 3 "
has_err "network plugin Wires"
has_err "init failed: system error (2); it said: init was to fail"
has_err "COLLCTL_NET_PLUGIN=none"

case_is "a rank without the plugin is named"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" COLLCTL_NET=wires)
odd_rank=3
join "${bench[@]}" --transport net
odd_rank=
has_err "has no network plugin, and rank"
has_err "rank 3"
case $codes in *0*) fail "exit codes are '$codes'" ;; esac

case_is "a plugin that fails in an operation ends the job with its word, one that never tells of a receive at the deadline"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" FAKE_PLUGIN_FAIL=isend:5)
join "${bench[@]}" --transport net
ends_with "5 5 5 5 "
has_err "isend failed: system error (2); it said: isend was to fail"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" FAKE_PLUGIN_NONSENSE=stuck-receive)
join "${bench[@]}" --transport net --op-timeout 3
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

# The rank that stands still is a head: the others wait for it in the network, which does not know it.
case_is "a rank that stands still inside a sum by the network is named by all"
all+=(COLLCTL_FAULT=stall:rank=2:channel=0:step=3)
join "${sums[@]}" --channels 1 --op-timeout 3
unset 'all[-1]'
ends_with "6 6 6 6 "
has_err "rank 2"

case_is "a network that fails in an operation ends the job with its word; without its plugin on a rank all refuse"
all+=(FAKE_PLUGIN_FAIL=iallreduce:5)
join "${sums[@]}"
unset 'all[-1]'
ends_with "5 5 5 5 "
has_err "network plugin Sums"
has_err "iallreduce failed: system error (2); it said: iallreduce was to fail"
odd_rank=3
join "${sums[@]}"
odd_rank=
ends_with "2 2 2 2 "
has_err "collnet needs in-network reduction, and there is none: rank 3 (host "
has_err "uses no network plugin"
hosts=()

case_is "plan says what the plugin is, and weighs its network where that reduces"
with=(--algo collnet)
plan "COLLCTL_NET_PLUGIN=$plugins/libnccl-net-reduces12.so"
has_out "# network plugin: Wires: wire0 (10000 Mb/s), wire1 (10000 Mb/s), version 12 of"
has_out "; it reduces (collnet)"
has_out " collnet "
with=(--json)
plan "COLLCTL_NET_PLUGIN=$plugins/libnccl-net-reduces12.so"
has_out '"network_plugin":{"used":true,"name":"Wires"'
has_out '"reduces":true'
with=(--net socket)
plan "COLLCTL_NET_PLUGIN=$plugins/libnccl-net-reduces12.so"
lacks_out plugin
with=(--net wires)
plan "COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so"
has_out "; it does not reduce: "
with=()
plan "COLLCTL_NET_PLUGIN=$plugins/libnccl-net-fake12.so" FAKE_PLUGIN_FAIL=init
has_out "# network plugin: none, the plan is without it: COLLCTL_NET_PLUGIN="
with=(--net nowhere)
plan
has_out "# network plugin: none, the plan is without it: network 'nowhere', which is neither ib nor socket"

# --- tuners
for version in 3 6; do
  case_is "a job with a tuner of version $version"
  all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake$version.so" FAKE_TUNER_PICK=1:0)
  join "${bench[@]}" -v
  ends_with "0 0 0 0 "
  right
  has_err "TUNER/Plugin : version $version begins"
  has_err "TUNER/Plugin : Using tuner plugin 'Scales' ("
  has_err "Tuning : allreduce of 1024 bytes by ring/ll, 1 channels: tuner: Ring/LL; ours: one-shot/simple, 1 channel, "
  has_out "\"tuner_plugin\":{\"name\":\"Scales\",\"version\":$version,"
  has_out '"tuner":{"followed":true,"wish":"Ring/LL","own":{"algorithm":"one-shot",'
  has_out '"algorithm":"ring","protocol":"ll"'
  lacks_out '"algorithm":"ring","protocol":"simple"'
done

case_is "a tuner by NCCL's variable and by name; the one of a network's plugin; one that there is not"
cp "$plugins/libnccl-tuner-fake5.so" "$work/libnccl-tuner-mine.so"
for name in mine libnccl-tuner-mine.so "$work/libnccl-tuner-mine.so"; do
  all=("LD_LIBRARY_PATH=$work" "NCCL_TUNER_PLUGIN=$name" FAKE_TUNER_PICK=1:2)
  one run -n 2 "${bench[@]}"
  ends_with "0 "
  right
  has_out '"algorithm":"ring","protocol":"simple"'
done
all=("LD_LIBRARY_PATH=$work" NCCL_TUNER_PLUGIN=nowhere)
one run -n 2 "${bench[@]}"
ends_with "3 "
has_err "NCCL_TUNER_PLUGIN=nowhere: libnccl-tuner-nowhere.so: "
has_err "NCCL_TUNER_PLUGIN=none goes without it"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-tuned12.so" FAKE_TUNER_PICK=0:2)
one run -n 2 "${bench[@]}" --transport net
ends_with "0 "
right
has_out '"via":"NET/Wires/'
has_out '"wish":"Tree/Simple"'
all+=(COLLCTL_TUNER_PLUGIN=none)
one run -n 2 "${bench[@]}" --transport net
ends_with "0 "
lacks_out '"tuner'

case_is "a rank whose tuner answers differently, is not there, or fails is named, with the plugin's word"
tuner=$plugins/libnccl-tuner-fake5.so
all=("COLLCTL_TUNER_PLUGIN=$tuner" FAKE_TUNER_PICK=1:2)
odd_rank=2
odd=("COLLCTL_TUNER_PLUGIN=$tuner" FAKE_TUNER_PICK=1:0)
join "${bench[@]}"
ends_with "2 2 2 2 "
has_err "answers differently on the ranks: allreduce of 4 bytes: ring/simple, 1 channels (tuner: Ring/Simple) on rank 0 ("
has_err "ring/ll, 1 channels (tuner: Ring/LL) on rank 2 ("
odd=(COLLCTL_DEBUG=WARN)
join "${bench[@]}"
ends_with "2 2 2 2 "
has_err "has the tuner plugin 'Scales' version 5, rank 2 ("
has_err ") has none"
odd=("COLLCTL_TUNER_PLUGIN=$tuner" FAKE_TUNER_FAIL=getCollInfo)
join "${bench[@]}"
ends_with "3 3 3 3 "
has_err "getCollInfo failed: system error (2); it said: getCollInfo was to fail"
odd_rank=

case_is "what a tuner wants and cannot have; buffers in windows that it is told of; a tuner for each group"
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake6.so" FAKE_TUNER_PICK=4:2)
one run -n 2 "${bench[@]}"
ends_with "3 "
has_out "it wants NVLS/Simple: there is no reduction by NVLink multicast here"
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so")
one run -n 2 allreduce -b 256K -e 256K --window --json -v
ends_with "0 "
right
has_err "TUNER/Plugin : registered buffers"
has_out '"straight":true'
all+=(FAKE_TUNER_PICK=1:2)
one run -n 4 allreduce -b 256K -e 256K --split 2 --window --json -v
ends_with "0 "
right
has_out '"algorithm":"ring","protocol":"simple"'
has_out '"straight":false'
[ "$(grep -c "TUNER/Plugin : version 4 begins" "$err")" = 8 ] || fail "not twice for each of four ranks"

case_is "a plan says a tuner's choice and ours"
with=(--wide)
plan "COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so" FAKE_TUNER_PICK=1:2
has_out "# tuner plugin 'Scales' ("
has_out "ring simple; tuner: Ring/Simple; ours: "
with=(--json)
plan "COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so" FAKE_TUNER_PICK=1:2
has_out '"tuner_plugin":{"name":"Scales","version":4,"library":"'
has_out '"tuner":{"followed":true,"wish":"Ring/Simple","own":{"algorithm":"'
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so" FAKE_TUNER_PICK=6:2)
one plan allgather --bytes 1M
ends_with "3 "
has_err "it wants PAT/Simple: there is no PAT here"

case_is "no process that reduces is left over"
await proc 0 "[0-9] $plugins/fake_reducer" 0

conclude
