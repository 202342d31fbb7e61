#!/bin/bash
# Sockets over several interfaces: hosts in namespaces (ssh_rig.sh) with two rails besides eth0.
# Usage: socket_interfaces.sh PATH/collctl [CASE]. Exit 77 where hosts cannot be made.
nodes=2
. "$(dirname "$0")/remote_common.sh"

# A bridge for each rail: eth1 and eth2 of node I are 10.84.0.I and 10.85.0.I, fd84::I and fd85::I.
for rail in 1 2; do
  rig_head ip link add "rail$rail" type bridge forward_delay 0 mcast_snooping 0 &&
    rig_head ip link set "rail$rail" up || exit 1
  for ((i = 1; i <= nodes; i++)); do
    rig_head ip link add "r$rail-$i" type veth peer name "eth$rail" netns "${rig_pids[$i]}" &&
      rig_head ip link set "r$rail-$i" master "rail$rail" up &&
      rig_node "$i" ip address add "10.$((83 + rail)).0.$i/24" dev "eth$rail" &&
      rig_node "$i" ip address add "fd$((83 + rail))::$i/64" dev "eth$rail" nodad &&
      rig_node "$i" ip link set "eth$rail" up || exit 1
  done
done
stage

# over LIST ARGS...: a job of two hosts with a rank each, as JSON, with these interfaces
over() {
  local names=$1
  shift
  COLLCTL_SOCKET_IFNAME=$names run run -H 'node[01-02]:1' --json "$@"
}
short=(allreduce -b 4M -e 4M --iters 2 --warmup 1)
# Reads the report: `links`, and `ways`: by channel the interfaces of either end. The program is on descriptor 9.
report() {
  python3 - "$out" 2>>"$err" <<PY || fail "the report is not as expected"
import json, sys
report = json.load(open(sys.argv[1]))
links = report["links"]
ways = {}
for l in links:
  if "from_nic" in l: ways.setdefault(l["channel"], set()).add((l["from_nic"], l["to_nic"]))
assert all(r[p]["wrong"] == 0 for r in report["results"] for p in ("out_of_place", "in_place") if p in r)
$(cat /dev/fd/9)
PY
}
# Each channel has one pair of interfaces, and these are all pairs: FROM:TO...
ways_are() {
  report 9<<PY
assert ways and all(len(pairs) == 1 for pairs in ways.values()), ways
found = {"%s:%s" % pair for pairs in ways.values() for pair in pairs}
assert found == set("$*".split()), found
PY
}
sent_by() { rig_node "$1" ip -s -j link show "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["tx"]["bytes"])'; }
# A port of a rail's bridge: host, rail, and "down" (no carrier at either end), or "lost" (packets vanish there)
cut_off() {
  case $3 in
    down) rig_head ip link set "r$2-$1" down ;;
    lost) rig_head ip link set "r$2-$1" nomaster ;;
  esac
}
mend() { rig_head ip link set "r$2-$1" master "rail$2" up; }
# Subnets of eth1 and eth2: rail_addresses SUBNET1 SUBNET2, "10.84.0" for 10.84.0.I/24
rail_addresses() {
  local i rail
  for ((i = 1; i <= nodes; i++)); do
    for rail in 1 2; do
      rig_node "$i" ip -4 address flush dev "eth$rail"
      rig_node "$i" ip address add "${!rail}$i/24" dev "eth$rail" || exit 1
    done
  done
}

if case_is "two interfaces: channels take turns, and a large operation uses both; -v and the log say which"; then
  over eth1,eth2 "${short[@]}"
  is_code 0
  ways_are eth1:eth1 eth2:eth2
  report 9<<'PY'
assert ways[0] != ways[1], ways
assert {(l["from_nic"], l["via"]) for l in links} == {("eth1", "NET/Socket/0"), ("eth2", "NET/Socket/1")}, links
PY
  # A rank with one core still has a channel for each interface.
  COLLCTL_SOCKET_IFNAME=eth1,eth2 run run -H 'node[01-02]:1' -v --bind-to core "${short[@]}"
  is_code 0
  has_err "NET/Socket : Using [0]eth1:10.84.0.1<0> [1]eth2:10.85.0.1<0>"
  has_err "via NET/Socket/1"
  grep -q 'NET/Socket : rank 0 -> rank 1 channel [0-9]* : eth2, rank 1 (host node02) at 10.85.0.2:' "$err" || fail "no line of eth2"
  grep -Eq '^#   eth1 to eth1: channel' "$out" && grep -Eq '^#   eth2 to eth2: channel' "$out" || fail "no line of the header"
  nothing_left
fi

if case_is "small messages are spread over pairs of ranks"; then
  COLLCTL_SOCKET_IFNAME=eth1,eth2 run run -H 'node[01-02]:2' --json alltoall -b 1K -e 1K --iters 2 --warmup 1
  is_code 0
  report 9<<'PY'
one = {(l["from_nic"], l["to_nic"]) for l in links if l["channel"] == 0 and "from_nic" in l}
assert one == {("eth1", "eth1"), ("eth2", "eth2")}, one
PY
fi

if case_is "a prefix takes all three, by IPv6; without a name: the interface of the root's subnet"; then
  COLLCTL_SOCKET_FAMILY=AF_INET6 over eth "${short[@]}"
  is_code 0
  ways_are eth0:eth0 eth1:eth1 eth2:eth2
  run run -H 'node[01-02]:1' --json "${short[@]}"
  is_code 0
  ways_are eth0:eth0
fi

if case_is "both interfaces in one subnet: a rule by source address makes each send its share, without one there is a warning"; then
  for ((i = 1; i <= nodes; i++)); do rig_head ip link set "r2-$i" master rail1; done
  rail_addresses 10.84.0. 10.84.0.10
  over eth1,eth2 "${short[@]}"
  is_code 0
  has_err "eth1 and eth2 are in one subnet and this host's routes send by eth1 what comes from 10.84.0.101"
  for ((i = 1; i <= nodes; i++)); do
    rig_node "$i" sh -c "ip rule add from 10.84.0.10$i table 77 && ip route add 10.84.0.0/24 dev eth2 table 77" || exit 1
  done
  before=$(sent_by 1 eth2)
  over eth1,eth2 "${short[@]}"
  is_code 0
  lacks_err "are in one subnet"
  ways_are eth1:eth1 eth2:eth2
  (($(sent_by 1 eth2) - before > 4 << 20)) || fail "eth2 sent $(($(sent_by 1 eth2) - before)) bytes"
  for ((i = 1; i <= nodes; i++)); do
    rig_node "$i" ip rule del from "10.84.0.10$i"
    rig_head ip link set "r2-$i" master rail2
  done
  rail_addresses 10.84.0. 10.85.0.
fi

if case_is "routed subnets"; then
  rig_head sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
  for rail in 1 2; do
    for ((i = 1; i <= nodes; i++)); do
      rig_node "$i" ip -4 address flush dev "eth$rail"
      rig_head ip address add "10.$((83 + rail)).$i.254/24" dev "rail$rail"
      rig_node "$i" ip address add "10.$((83 + rail)).$i.1/24" dev "eth$rail"
      rig_node "$i" ip route add "10.$((83 + rail)).0.0/16" via "10.$((83 + rail)).$i.254" || exit 1
    done
  done
  over eth1,eth2 "${short[@]}"
  is_code 0
  ways_are eth1:eth1 eth2:eth2
  over =eth2 "${short[@]}"
  is_code 0
  ways_are eth2:eth2
  rail_addresses 10.84.0. 10.85.0.
fi

if case_is "one of two interfaces is cut during the run: the error names it"; then
  COLLCTL_SOCKET_IFNAME=eth1,eth2 begin run -H 'node[01-02]:1' --op-timeout 4 allreduce -b 4M -e 4M --iters 1000000 --check 0 --sync each
  await_running
  cut_off 2 2 down
  end
  is_code 6
  has_err "eth2"
  lacks_err "eth1"
  mend 2 2
  nothing_left
fi

if case_is "one of two interfaces leads nowhere from the start"; then
  cut_off 2 2 lost
  over eth1,eth2 --start-timeout 6 "${short[@]}"
  [ "$rc" != 0 ] || fail "it went well"
  has_err "eth2"
  mend 2 2
  nothing_left
fi
exit $((failures > 0))
