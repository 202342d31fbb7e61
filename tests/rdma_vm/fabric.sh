# RDMA devices and hosts inside the virtual machine of tests/rdma_vm/run; sourced by its init and by
# the tests that run there.
#
# Device rxeI sits on the interface roceI, 10.77.0.(I+1)/24, one end of a cable to a switch. Kernels of
# Debian 12 serve RDMA only on interfaces of the first network namespace, so all roceI are there; packets
# from one to another still pass both cables and the switch. hostI is a network and UTS namespace with
# the address 10.78.0.(I+1)/24 on a network of its own; every host sees all devices.
#
#   fabric_up N MTU            what run has done before the command starts
#   fabric_on I CMD...         runs CMD on host I
#   fabric_mtu I BYTES         of device I's interface (RDMA uses the next lower of 256..4096, less headers)
#   fabric_loss I PERCENT      so many of the packets that device I sends are lost; 0: none
#   fabric_counts I            "SENT DROPPED" packets since fabric_loss
#   fabric_drop I PERCENT      so many of the packets to device I are lost, in the switch
#   fabric_port I up|down      device I's interface
#   fabric_cable I up|down     the switch's end of its cable: the port goes down, the interface stays up
fabric_host() { echo "host$1"; }
fabric_device() { echo "rxe$1"; }

# One address must not answer for another, nor take the short way through the kernel.
fabric_separate() {
  local scope
  for scope in all default; do
    echo 1 >/proc/sys/net/ipv4/conf/$scope/arp_ignore
    echo 2 >/proc/sys/net/ipv4/conf/$scope/arp_announce
    echo 1 >/proc/sys/net/ipv4/conf/$scope/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$scope/rp_filter
    echo 0 >/proc/sys/net/ipv6/conf/$scope/accept_dad
  done
}

fabric_up() {
  local count=$1 mtu=$2 i
  fabric_separate
  ip netns add switch || return
  for ((i = 0; i < count; i++)); do ip netns add "$(fabric_host $i)" || return; done
  {
    echo "link set lo up"
    for ((i = 0; i < count; i++)); do
      echo "link add roce$i mtu $mtu type veth peer name port$i mtu $mtu netns switch"
      echo "link set roce$i up"
      echo "addr add 10.77.0.$((i + 1))/24 dev roce$i"
      echo "link add host$i netns switch type veth peer name eth0 netns $(fabric_host $i)"
    done
  } | ip -batch - || return
  {
    echo "link add rdma mtu $mtu type bridge"
    echo "link add hosts type bridge"
    for ((i = 0; i < count; i++)); do
      echo "link set port$i master rdma up"
      echo "link set host$i master hosts up"
    done
    echo "link set rdma up"
    echo "link set hosts up"
  } | ip -n switch -batch - || return
  for ((i = 0; i < count; i++)); do
    printf '%s\n' "link set lo up" "link set eth0 up" "addr add 10.78.0.$((i + 1))/24 dev eth0" |
      ip -n "$(fabric_host $i)" -batch - || return
    rdma link add "$(fabric_device $i)" type rxe netdev roce$i || return
  done
}

fabric_on() {
  local host
  host=$(fabric_host "$1")
  shift
  ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}

fabric_mtu() { ip link set "roce$1" mtu "$2"; }
fabric_port() { ip link set "roce$1" "$2"; }
fabric_cable() { ip -n switch link set "port$1" "$2"; }

fabric_loss() { tc qdisc replace dev "roce$1" root handle 1: netem limit 100000 loss "$2%"; }
fabric_drop() { ip netns exec switch tc qdisc replace dev "port$1" root handle 1: netem limit 100000 loss "$2%"; }
fabric_counts() { tc -s qdisc show dev "roce$1" | sed -n 's/^ Sent .* bytes \([0-9]*\) pkt (dropped \([0-9]*\),.*/\1 \2/p'; }
