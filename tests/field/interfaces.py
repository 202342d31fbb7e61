"""What else is on hosts, besides the network that they share."""
from faults import jumbo as make_jumbo
from registry import condition


def inner_bridge(name, address):
    """A bridge with a container on it, which is a network namespace."""
    return (f"ip link add {name} type bridge forward_delay 0; ip address add {address} dev {name}; ip link set {name} up;"
            f"ip netns add in-{name}; ip link add ve{name[:8]} type veth peer name eth0 netns in-{name};"
            f"ip link set ve{name[:8]} master {name} up; ip -n in-{name} link set eth0 up")


@condition("interfaces", "cni0")
def cni0(field, nodes):
    for i in nodes:
        field.on(i, inner_bridge("cni0", f"10.244.{i}.1/24"))


@condition("interfaces", "docker0")
def docker0(field, nodes):
    """The same address on all hosts."""
    for i in nodes:
        field.on(i, inner_bridge("docker0", "172.17.0.1/16"))


@condition("interfaces", "br-of-compose")
def br_of_compose(field, nodes):
    for i in nodes:
        field.on(i, inner_bridge(f"br-{i}f2a9c", "172.18.0.1/16"))


@condition("interfaces", "podman0")
def podman0(field, nodes):
    """Nothing runs there: it has no carrier."""
    for i in nodes:
        field.on(i, "ip link add podman0 type bridge; ip address add 10.88.0.1/16 dev podman0; ip link set podman0 up")


@condition("interfaces", "virbr0")
def virbr0(field, nodes):
    for i in nodes:
        field.on(i, "ip link add virbr0 type bridge; ip address add 192.168.122.1/24 dev virbr0; ip link set virbr0 up")


@condition("interfaces", "flannel")
def flannel(field, nodes):
    for i in nodes:
        field.on(i, f"ip link add flannel.1 type vxlan id 1 local {field.address(i)} dev eth0 dstport 8472 nolearning;"
                    f"ip address add 10.244.{i}.0/32 dev flannel.1; ip link set flannel.1 up")


@condition("interfaces", "calico")
def calico(field, nodes):
    """Ends of containers, each with a route and no bridge."""
    for i in nodes:
        for pod in ("cali1a2b", "cali3c4d"):
            field.on(i, f"ip netns add {pod}; ip link add {pod} type veth peer name eth0 netns {pod}; ip link set {pod} up;"
                        f"ip -n {pod} link set eth0 up")


@condition("interfaces", "bmc")
def bmc(field, nodes):
    """The USB NIC that leads to a host's BMC, with a link-local address, alike on all."""
    for i in nodes:
        field.on(i, "ip netns add bmc; ip link add enxbe3af2b6059f type veth peer name usb0 netns bmc;"
                    "ip address add 169.254.3.1/24 dev enxbe3af2b6059f; ip link set enxbe3af2b6059f up; ip -n bmc link set usb0 up")


@condition("interfaces", "tailscale", link="tun")
def tailscale(field, nodes):
    for i in nodes:
        field.on(i, f"ip tuntap add tailscale0 mode tun; ip address add 100.64.0.{i}/32 dev tailscale0; ip link set tailscale0 up")


@condition("interfaces", "dummy", link="dummy")
def dummy(field, nodes):
    for i in nodes:
        field.on(i, f"ip link add dummy0 type dummy; ip address add 10.255.0.{i}/32 dev dummy0; ip link set dummy0 up")


@condition("interfaces", "address-on-lo")
def address_on_lo(field, nodes):
    """A service's address, the same on all hosts."""
    for i in nodes:
        field.on(i, "ip address add 198.51.100.7/32 dev lo")


@condition("interfaces", "down")
def down(field, nodes):
    """A port with an address that nobody has switched on, and one without a cable."""
    for i in nodes:
        field.on(i, f"ip link add eth8 type veth peer name p8; ip address add 10.98.0.{i}/24 dev eth8;"
                    f"ip link add eth9 type veth peer name p9; ip address add 10.97.0.{i}/24 dev eth9; ip link set eth9 up")


@condition("interfaces", "no-cable")
def no_cable(field, nodes):
    """A port without a cable, as a real one is: its other end is elsewhere."""
    for i in nodes:
        field.on(i, f"ip netns add switch; ip link add eth7 type veth peer name p7 netns switch; ip address add 10.96.0.{i}/24 dev eth7;"
                    "ip link set eth7 up")


@condition("interfaces", "second-net", all=True, unlike=("mtu", "narrow", "blackhole", "slow-out", "slow-in", "slow-both"))
def second_net(field, nodes):
    """Another network that all hosts are on: rails are there, too."""
    field.on(0, "ip link add rail1 type bridge forward_delay 0 mcast_snooping 0; ip link set rail1 up")
    for i in nodes:
        field.on(0, f"ip link add r1-{i} type veth peer name eth1 netns {field.pid(i)}; ip link set r1-{i} master rail1 up")
        field.on(i, f"ip address add 10.84.0.{i}/24 dev eth1; ip link set eth1 up")
        field.ways.append((i, "eth1", f"r1-{i}"))
        field.rails[i].append("eth1")


@condition("interfaces", "same-net", all=True, unlike=("mtu", "narrow", "blackhole", "slow-out", "slow-in", "slow-both", "loss"))
def same_net(field, nodes):
    """A second card in the first one's subnet: the kernel sends by one and answers for both by either."""
    for i in nodes:
        field.on(0, f"ip link add s1-{i} type veth peer name eth1 netns {field.pid(i)}; ip link set s1-{i} master br0 up")
        second = f"{field.address(i).rpartition('.')[0]}.{100 + i}"
        field.on(i, f"ip address add {second}/24 dev eth1; ip link set eth1 up")
        field.ways.append((i, "eth1", f"s1-{i}"))


@condition("interfaces", "ipv4-only", unlike=("ipv6", "ipv6-only"))
def ipv4_only(field, nodes):
    for i in nodes:
        field.on(i, "ip -6 address flush dev eth0 scope global")


@condition("interfaces", "ipv6-only", all=True, unlike=("ipv4", "alias", "mixed", "own-127", "dead-address-first", "dead-ipv6-first", "late",
                                                       "flannel", "own-127-first-of-all", "af-inet", "jump"))
def ipv6_only(field, nodes):
    field.hosts_file(*(f"{field.address6(i)} {field.name(i)} {field.within[i]}" for i in nodes))
    field.replace_addresses()
    for i in nodes:
        field.on(i, "ip -4 address flush dev eth0")


@condition("interfaces", "jumbo", all=True)
def jumbo(field, nodes):
    make_jumbo(field)


@condition("interfaces", "vlan", all=True, link="vlan", unlike=("mtu", "narrow", "blackhole"))
def vlan(field, nodes):
    for i in nodes:
        field.on(i, f"ip link add link eth0 name eth0.100 type vlan id 100; ip address add 10.100.0.{i}/24 dev eth0.100;"
                    "ip link set eth0.100 up")
        field.rails[i].append("eth0.100")


@condition("interfaces", "macvlan", link="macvlan")
def macvlan(field, nodes):
    """More addresses of the host's card: it stays one rail."""
    for i in nodes:
        field.on(i, f"ip link add link eth0 name net1 type macvlan mode bridge; ip address add 10.101.0.{i}/24 dev net1; ip link set net1 up")


@condition("interfaces", "bond", all=True, link="bond", unlike=("flannel",))
def bond(field, nodes):
    """The network's card is a port of a bond, which has the addresses."""
    for i in nodes:
        field.on(i, "ip link add bond0 type bond mode active-backup miimon 100; ip link set eth0 down; ip link set eth0 master bond0;"
                    f"ip link set bond0 up; ip address flush dev eth0; ip address add {field.address(i)}/24 dev bond0;"
                    f"ip address add {field.address6(i)}/64 dev bond0 nodad")
        field.nics[i] = field.rails[i] = ["bond0"]
