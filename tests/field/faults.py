"""The one fault of a field."""
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


@condition("fault", "blackhole", one=True)
def blackhole(field, nodes):
    """Nothing of what it sends to the next host arrives."""
    for tool, address in (("iptables", field.address(nodes[0])), ("ip6tables", field.address6(nodes[0]))):
        field.on(field.other, f"{tool} -A INPUT -s {address} -j DROP")


@condition("fault", "cores", one=True, cgroup="cpu")
def cores(field, nodes):
    """A fifth of a core for all that the host runs."""
    field.limit(nodes[0], "cpu", cores=0.2)


@condition("fault", "mtu", one=True, unlike=("jumbo",))
def mtu(field, nodes):
    """All hosts say 9000, and the port of one passes 1500. Its way to the launcher is of 1500."""
    jumbo(field)
    field.on(0, f"ip link set v{nodes[0]} mtu 1500 && ip link set br0 mtu 9000")
    for to, via in ((f"{field.address(nodes[0])}/32", ""), (f"{field.address6(nodes[0])}/128", "-6")):
        field.on(0, f"ip {via} route add {to} dev br0 mtu lock 1500 advmss 1400")


def jumbo(field):
    for i in field.nodes:
        field.on(0, f"ip link set v{i} mtu 9000")
        field.on(i, "ip link set eth0 mtu 9000")
    field.on(0, "ip link set br0 mtu 9000")
