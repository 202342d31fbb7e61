"""The one fault of a field."""
import os
import subprocess

from registry import condition


@condition("fault", "none")
def none(field, nodes):
    pass


@condition("fault", "slow-out", one=True)
def slow_out(field, nodes):
    field.make_slow(nodes[0], "out")


@condition("fault", "slow-in", one=True)
def slow_in(field, nodes):
    field.make_slow(nodes[0], "in")


@condition("fault", "slow-both", one=True)
def slow_both(field, nodes):
    field.make_slow(nodes[0], "out")
    field.make_slow(nodes[0], "in")


@condition("fault", "loss", one=True)
def loss(field, nodes):
    """A twentieth of what comes to it is lost on the way."""
    field.on(nodes[0], "iptables -A INPUT -i eth0 -m statistic --mode random --probability 0.05 -j DROP;"
                       "ip6tables -A INPUT -i eth0 -p tcp -m statistic --mode random --probability 0.05 -j DROP")


@condition("fault", "blackhole", one=True)
def blackhole(field, nodes):
    """Nothing of what it sends to the next host arrives."""
    for tool, address in (("iptables", field.address(nodes[0])), ("ip6tables", field.address6(nodes[0]))):
        field.on(field.other, f"{tool} -A INPUT -s {address} -j DROP")


@condition("fault", "cores", one=True, cgroup="cpu")
def cores(field, nodes):
    """A fifth of a core for all that the host runs."""
    field.limit(nodes[0], "cpu", cores=0.2)


@condition("fault", "busy", one=True, cgroup="cpuset", unlike=("one-core",))
def busy(field, nodes):
    """Its only processor is another process's as well; the other hosts share the rest."""
    last = os.cpu_count() - 1
    for node in field.nodes:
        field.limit(node, "cpuset", processors=str(last) if node == nodes[0] else f"0-{last - 1}")
    hog = subprocess.Popen(["taskset", "-c", str(last), "sh", "-c", "while :; do :; done"])
    field.healing.append(lambda: (hog.kill(), hog.wait()))


@condition("fault", "mtu", one=True, unlike=("jumbo",))
def mtu(field, nodes):
    """All hosts say 9000, and the port of one passes 1500; not on the way to the launcher, of which SSH is. By what the host drops:
    a veth lets segments pass that are still in one piece, however large."""
    jumbo(field)
    for peer in field.nodes:
        for tool, address in (("iptables", field.address(peer)), ("ip6tables", field.address6(peer))):
            if peer != nodes[0]:
                large = "-m length --length 1501:65535 -j DROP"
                field.on(nodes[0], f"{tool} -A INPUT -s {address} {large}; {tool} -A OUTPUT -d {address} {large}")


@condition("fault", "narrow", one=True, unlike=("jumbo",))
def narrow(field, nodes):
    """Its interfaces have a smaller MTU than their peers', which no path is slow for."""
    for node, interface, _ in field.ways:
        if node == nodes[0]:
            field.on(node, f"ip link set {interface} mtu 1400")


def jumbo(field):
    for i in field.nodes:
        field.on(0, f"ip link set v{i} mtu 9000")
        field.on(i, "ip link set eth0 mtu 9000")
    field.on(0, "ip link set br0 mtu 9000")
