#!/bin/bash
# `run rails` with the real binary: NICs of two hosts against each other. RDMA ports are the adapters of
# tests/fake_verbs, a host is a process with a host identity of its own; interfaces are those of network namespaces.
# Usage: rails.sh PATH/collctl FOLDER-OF-THE-STAND-IN [FOLDER-OF-STAND-INS-FOR-DRIVERS]
set -u
collctl=$(realpath "$1")
fabric=${2:-} drivers=${3:-}
export CUDA_VISIBLE_DEVICES=-1 COLLCTL_TOKEN=a-token-of-the-tests
work=$(mktemp -d)
spaces=()
finish() {
  local space
  for space in "${spaces[@]}"; do ip netns del "$space" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT
failures=0 runs=0
out=$work/out err=$work/err

fail() {
  echo "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-400 | head -40
  sed 's/^/    err: /' "$err" | cut -c1-400 | head -20
  failures=$((failures + 1))
}
case_is() { case=$1; echo "- $case"; }
. "$(dirname "$0")/await.sh"
is_code() { [ "$codes" = "$1" ] || fail "exit codes are '$codes', expected '$1'"; }
has_out() { grep -qE -- "$1" "$out" || fail "standard output lacks '$1'"; }
lacks_out() { ! grep -qE -- "$1" "$out" || fail "standard output has '$1'"; }
has_err() { grep -qE -- "$1" "$err" || fail "standard error lacks '$1'"; }
# A Python expression over the report r; ways(word) are the ways that end so, as "nic>nic" of hosts 0 and 1 with the
# sending host before.
holds() {
  python3 - "$out" "$1" <<'PY' || fail "it does not hold that $1"
import json, sys
r = json.load(open(sys.argv[1]))
def ways(word):
    found = set()
    for p in r["pairs"]:
        columns = r["hosts"][p["to"]]["nics"]
        for k, c in enumerate(p["cells"]):
            if c["end"] == word:
                found.add("%d %s>%s" % (p["from"], r["hosts"][p["from"]]["nics"][k // len(columns)]["name"],
                                        columns[k % len(columns)]["name"]))
    return found
kinds = {f["kind"] for f in r["findings"]}
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}
# Two ranks on two hosts; ${on_0[@]} and ${on_1[@]} are what runs before the command on each, ${both[@]} variables.
on_0=(env COLLCTL_HOSTID=zero FAKE_VERBS_HOST=0)
on_1=(env COLLCTL_HOSTID=one FAKE_VERBS_HOST=1)
both=() at=127.0.0.1
rails() {
  local port=$((29500 + RANDOM % 3000)) other
  rm -f "$FAKE_VERBS_WORLD"
  runs=$((runs + 1))
  env "${both[@]}" "${on_1[@]}" timeout -k 5 300 "$collctl" run --join $at:$port --rank 1 --size 2 rails "$@" \
    >"$work/out1" 2>"$work/err1" </dev/null & other=$!
  env "${both[@]}" "${on_0[@]}" timeout -k 5 300 "$collctl" run --join $at:$port --rank 0 --size 2 rails "$@" \
    >"$out" 2>"$err" </dev/null
  codes=$?
  wait $other
  codes="$codes $?"
}
export FAKE_VERBS_WORLD=$work/world COLUMNS=1000

# GPUs of the stand-in for CUDA, whose memory the adapters reach or do not.
memory_of_gpus() {
  # The drivers have a libibverbs of their own, which only lists devices.
  local with_gpus=(LD_LIBRARY_PATH=$fabric:$drivers:$LD_LIBRARY_PATH FAKE_CUDA=2 CUDA_VISIBLE_DEVICES=0,1)
  case_is "GPU memory by GPUDirect, held back until it is flushed, beside host memory"
  export FAKE_VERBS_DEVICES=fake_0:ib:dmabuf,fake_1:ib:dmabuf
  both=("${with_gpus[@]}" FAKE_VERBS_HOLD_US=5000)
  rails --json --memory gpu --below 0
  is_code "0 0"
  holds 'r["memory"] == "gpu" and r["pairs"] == [] and r["verdict"]["ok"]'
  holds 'all(t[w]["end"] == "ok" and t[w]["GBps"] > 0 and t[w]["both_GBps"] > 0 and t["latency_us"] > 0 for t in r["memory_paths"] for w in ("there", "back"))'
  # Four of host memory (each port to that of its name first), two GPUs over two ports of each host, GPU to GPU.
  holds 'len([t for t in r["memory_paths"] if t["from_gpu"] == t["to_gpu"] == -1]) == 2 and len(r["memory_paths"]) == 2 + 8 + 2'
  holds 'all(t["there"]["out"]["way"] == ("host" if t["from_gpu"] < 0 else "gpudirect") and t["back"]["in"]["how"] in ("", "DMA-BUF") for t in r["memory_paths"])'

  case_is "GPU memory that the adapters of one host refuse"
  on_1+=(FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib)
  rails --json --memory gpu --below 0
  is_code "1 1"
  holds '[(c["kind"], c["name"]) for c in r["culprits"]] == [("host", r["hosts"][1]["host"])]'
  holds 'any(c["name"] == "gpudirect" and "no peer memory module" in c["message"] for c in r["checks"])'
  on_1=("${on_1[@]:0:3}")

  case_is "sizes of GPU memory, and a host without a GPU"
  export FAKE_VERBS_DEVICES=fake_0:roce:peermem
  rails --json --memory gpu --below 0 -b 8 -e 4M
  is_code "0 0"
  holds 'all([p["bytes"] for p in t["curve"]] == r["sizes"] and r["sizes"][0] == 8 and r["sizes"][-1] == 4 << 20 for t in r["memory_paths"])'
  on_1+=(FAKE_CUDA=0)
  rails --json --memory gpu --below 0
  is_code "8 8"
  holds 'any(c["status"] == "not-tested" and "it has no NVIDIA GPU" in c["message"] for c in r["checks"])'
  on_1=("${on_1[@]:0:3}") both=()
  export FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib
}

over_the_stand_in() {
  export LD_LIBRARY_PATH=$fabric${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

  case_is "InfiniBand: every port reaches every other, in JSON and as a table"
  export FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib:ports=2
  rails --json --below 0
  is_code "0 0"
  holds 'r["schema"] == "collctl.rails/1" and r["network"] == "ib" and not r["one_host"] and r["verdict"] == {"ok": True, "reasons": []}'
  holds '[n["name"] for n in r["hosts"][1]["nics"]] == ["fake_0:1", "fake_1:1", "fake_1:2"]'
  holds 'all(n["link"] == "InfiniBand" and n["rate_Gbps"] == 200 and n["mtu"] == 4096 and n["lid"] > 0 for h in r["hosts"] for n in h["nics"])'
  # Three ports against three, both ways.
  holds 'len(ways("ok")) == 18 and r["ways"] == r["good"] == 18 and r["findings"] == []'
  holds 'all(c["GBps"] > 0 and c["first_us"] > 0 for p in r["pairs"] for c in p["cells"])'
  holds 'r["recommended"] == "COLLCTL_IB_HCA==fake_0,fake_1:1,fake_1:2"'
  [ ! -s "$work/out1" ] || fail "rank 1 wrote to standard output"
  export FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib
  rails --below 0
  is_code "0 0"
  has_out '^collctl rails: 2 hosts, RDMA \(NET/IB\), messages of 1 MiB$'
  has_out 'fake_0:1, fake_1:1 InfiniBand 200 Gb/s MTU 4096$'
  has_out '^.* \\ .*  fake_0:1  fake_1:1$'
  has_out '^fake_1:1 +[0-9.]+ +[0-9.]+$'
  has_out '^8 of 8 paths pass: median [0-9.]+ GB/s, least [0-9.]+ GB/s$'
  has_out '^verdict: passed$'
  has_out "^export COLLCTL_IB_HCA='=fake_0,fake_1'\$"
  has_out "^export NCCL_IB_HCA='=fake_0,fake_1'\$"

  case_is "RoCE: the address that both ends use, and a recommended index"
  # The stand-in's tables are link-local v1 and v2, then IPv4 v1 and v2: the last is index 3.
  export FAKE_VERBS_DEVICES=fake_0:roce,fake_1:roce
  rails --json --below 0
  is_code "0 0"
  holds 'all(c["from_gid"] == c["to_gid"] == 3 and c["gid_type"] == "RoCE v2" for p in r["pairs"] for c in p["cells"])'
  holds 'r["recommended"] == "COLLCTL_IB_HCA==fake_0,fake_1 COLLCTL_IB_GID_INDEX=3"'

  case_is "addresses of which none fits another"
  # Host 0 offers only its IPv4 address, host 1 only its link-local one.
  on_0+=(COLLCTL_IB_GID_INDEX=3) on_1+=(COLLCTL_IB_GID_INDEX=1)
  rails --below 0
  is_code "1 1"
  has_out '^fake_0:1 +GID ! +GID !$'
  has_out '^  rail: .* fake_0:1 -> .* fake_1:1: no address \(GID\) of one port matches'
  has_out '^    -> give both ports an address of one kind'
  has_out '^verdict: FAILED.*: 8 of 8 paths between NICs fail$'
  lacks_out '^recommended'
  on_0=("${on_0[@]:0:3}") on_1=("${on_1[@]:0:3}")

  case_is "one port that nobody reaches, and one that is down"
  export FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib
  on_1+=(FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib:rail=9,fake_2:ib:down)
  rails --json --below 0 --pair-timeout 3
  is_code "1 1"
  holds 'ways("no-answer") == {"0 fake_0:1>fake_1:1", "0 fake_1:1>fake_1:1", "1 fake_1:1>fake_0:1", "1 fake_1:1>fake_1:1"}'
  holds 'len(ways("ok")) == 4 and kinds == {"no-answer"} and r["recommended"] == "COLLCTL_IB_HCA==fake_0"'
  holds '[(x["code"], x["message"]) for x in r["verdict"]["reasons"]] == [("failed", "4 of 8 paths between NICs fail")]'
  holds '[(x["kind"], x["name"].split(" ")[-1]) for x in r["culprits"]] == [("nic", "fake_1:1")]'
  holds 'r["hosts"][1]["unused"] == ["fake_2:1 is DOWN"]'
  on_1=("${on_1[@]:0:3}")

  case_is "large packets are lost on one port"
  on_1+=(FAKE_VERBS_DEVICES=fake_0:ib,fake_1:ib:mtu=1024)
  both=(FAKE_VERBS_FAULTS=drop:min_bytes=2000,device=fake_1,host=0,times=0,value=1000)
  rails --below 0 --pair-timeout 3
  is_code "1 1"
  has_out '^fake_0:1 +[0-9.]+ +[0-9.]+$'
  has_out '^fake_1:1 +> MTU 4096/4096 ! +> MTU 4096/1024 !$'
  has_out '^    -> small messages pass and large ones do not'
  has_out "^export COLLCTL_IB_HCA='=fake_0'\$"
  on_1=("${on_1[@]:0:3}")

  case_is "bytes that change on the way"
  both=(FAKE_VERBS_FAULTS=corrupt:min_bytes=2000,device=fake_0,host=0,times=0)
  rails --json --below 0
  is_code "7 7"
  holds 'ways("wrong-data") == {"0 fake_0:1>fake_0:1", "0 fake_0:1>fake_1:1"} and r["recommended"] == "COLLCTL_IB_HCA==fake_1"'
  both=()

  [ -n "$drivers" ] && memory_of_gpus

  case_is "one host: its ports loop back to each other"
  runs=$((runs + 1))
  rm -f "$FAKE_VERBS_WORLD"
  timeout -k 5 240 "$collctl" rails --below 0 >"$out" 2>"$err" </dev/null
  codes=$?
  is_code 0
  has_out '^there is only one host: its NICs loop back to each other$'
  has_out '^fake_1:1 +[0-9.]+ +[0-9.]+$'
}

# Two hosts with two cables, each a network of its own, and one for the ranks to meet.
make_hosts() {
  local i
  for i in 0 1; do
    ip netns add "$1$i" 2>/dev/null || return 1
    spaces+=("$1$i")
    ip -n "$1$i" link set lo up
  done
  for i in 0 1 2; do
    ip link add "eth$i" netns "${1}0" type veth peer name "eth$i" netns "${1}1" 2>/dev/null || return 1
    ip -n "${1}0" address add 10.84.$i.1/24 dev eth$i
    ip -n "${1}1" address add 10.84.$i.2/24 dev eth$i
    ip -n "${1}0" link set eth$i up
    ip -n "${1}1" link set eth$i up
  done
  # An interface counts when its cable does.
  for i in 0 1; do
    ip netns exec "$1$i" "$await_program" line /sys/class/net/eth0/operstate up -- line /sys/class/net/eth1/operstate up \
      -- line /sys/class/net/eth2/operstate up || return 1
  done
}

over_interfaces() {
  local name=collctl-rails-$$-
  if ! [ "$(id -u)" = 0 ] || ! command -v ip >/dev/null || ! make_hosts $name; then
    echo "skipped: NICs that are interfaces (network namespaces cannot be made here)"
    return
  fi
  on_0=(ip netns exec ${name}0 env COLLCTL_HOSTID=zero)
  on_1=(ip netns exec ${name}1 env COLLCTL_HOSTID=one)
  at=10.84.0.1

  case_is "interfaces: two networks beside each other, in JSON and as a table"
  both=("COLLCTL_SOCKET_IFNAME==eth1,eth2")
  rails --net socket --json --below 0 --pair-timeout 3
  is_code "0 0"
  holds 'r["network"] == "socket" and r["rail_only"] and r["good"] == 4 and [n["name"] for n in r["hosts"][0]["nics"]] == ["eth1", "eth2"]'
  holds 'all(n["mtu"] == 1500 and not n["rdma"] and n["address"].startswith("10.84.") for h in r["hosts"] for n in h["nics"])'
  holds 'len(ways("no-route")) == 4 and r["recommended"].startswith("COLLCTL_SOCKET_IFNAME==eth")'
  rails --net socket --below 0
  is_code "0 0"
  has_out 'eth1, eth2 Ethernet .*MTU 1500$'
  has_out '^eth1 +[0-9.]+ +no route$'

  case_is "interfaces: a way that swallows everything; a slow one"
  ip -n ${name}0 neighbor replace 10.84.2.2 lladdr 02:00:00:00:00:99 dev eth2 nud permanent
  rails --net socket --json --below 0 --pair-timeout 3
  is_code "1 1"
  holds 'ways("no-answer") >= {"0 eth2>eth2"} and r["recommended"] == "COLLCTL_SOCKET_IFNAME==eth1"'
  ip -n ${name}0 neighbor del 10.84.2.2 dev eth2

  # The others have a rate, too, which does not depend on how busy this machine is.
  rate() { tc -n "$name$1" qdisc replace dev "$2" root tbf rate "$3" burst 64k latency 300ms 2>/dev/null; }
  if rate 0 eth1 200mbit && rate 1 eth1 200mbit && rate 0 eth2 200mbit && rate 1 eth2 8mbit; then
    rails --net socket --json --below 0.2 --seconds 0.3 --message 64K
    is_code "1 1"
    holds '[(f["kind"], f["nic"]) for f in r["findings"]] == [("slow", "eth2")] and r["recommended"] == "COLLCTL_SOCKET_IFNAME==eth1"'
  else
    echo "skipped: a slow interface (no tc, or no tbf)"
  fi
}

# Ranks of this host, of which one is ended or stopped: as soon as all are there, or once they are connected. Whatever it is at
# then, the job names that one. A killed one is not noticed by a deadline.
one_rank_fails() {
  local how=$1 moment=$2 victim=$3 times=(--seconds 60 --op-timeout 200 --start-timeout 200) job launcher pids
  runs=$((runs + 1))
  [ "$how" = KILL ] || times=(--seconds 5 --op-timeout 3 --start-timeout 4)
  COLLCTL_SOCKET_IFNAME==lo timeout -k 5 300 "$collctl" run -n 4 rails --net socket --json "${times[@]}" \
    >"$out" 2>"$err" </dev/null &
  job=$!
  await -of $job proc 0 "^[0-9]+ $job . collctl"
  launcher=$found
  await -of $job proc 0 "^[0-9]+ $launcher . .*__rank" 4
  mapfile -t pids < <(tr -s ' ' '\n' <<<"$found" | sort -n)
  [ "$moment" = start ] || await -of $job status "$launcher" '("phase":"measure".*){4}'
  kill -"$how" "${pids[$victim]}" || fail "rank $victim is gone"
  wait $job
  codes=$?
  is_code "$([ "$how" = KILL ] && echo 5 || echo 6)"
  python3 - "$out" "$victim" "${pids[$victim]}" <<'PY' || fail "$how of rank $victim ($moment) blames another"
import json, sys
r = json.load(open(sys.argv[1]))
victim, pid = int(sys.argv[2]), sys.argv[3]
named = "rank %d (pid %s," % (victim, pid)
sys.exit(0 if r["schema"] == "collctl.error/1" and r["rank"] == victim and r["message"].startswith(named) else 1)
PY
}

over_local_ranks() {
  case_is "a rank that is killed or stopped is named, and nobody else"
  one_rank_fails KILL start 2
  one_rank_fails KILL connected 1
  one_rank_fails STOP connected 0
}

case=start
over_local_ranks
if [ -n "$fabric" ] && [ -e "$fabric/libibverbs.so.1" ]; then
  over_the_stand_in
else
  echo "skipped: NICs that are RDMA ports (no stand-in for libibverbs: libibverbs-dev is not installed)"
fi
over_interfaces

echo "rails: $runs runs, $failures failures"
[ $failures -eq 0 ]
