"""The table of conditions: a public case becomes a row here. A row has its kind, of which a field has some (field.py says how
many), and what it does to a field; `nodes` are the hosts that it is on. What it changes in what must be seen it says in the
field: which names, which interfaces count, or the one clear error with which commands end."""
import dataclasses


@dataclasses.dataclass
class Condition:
    name: str
    kind: str
    apply: object
    one: bool = False          # on one host, always
    unlike: tuple = ()         # not beside these
    commands: tuple = ()       # only these commands are about it; empty: all


CONDITIONS = {}


def condition(kind, name, **more):
    def add(function):
        CONDITIONS[name] = Condition(name, kind, function, **more)
        return function
    return add


# How hosts are called ---------------------------------------------------------------------------------------------------
@condition("naming", "short")
def short(field, nodes):
    pass


@condition("naming", "fqdn")
def fqdn(field, nodes):
    for i in nodes:
        name = f"{field.name(i)}.rack7.cluster.test"
        field.hosts_file(f"{field.address(i)} {name}")
        field.known_as(i, name)
        field.given[i] = field.within[i] = name


@condition("naming", "own-fqdn")
def own_fqdn(field, nodes):
    """Hosts that call themselves by more than the list does."""
    for i in nodes:
        field.on(i, f"hostname {field.name(i)}.rack7.cluster.test")


@condition("naming", "ipv4")
def ipv4(field, nodes):
    for i in nodes:
        field.given[i] = field.within[i] = field.address(i)


@condition("naming", "ipv6")
def ipv6(field, nodes):
    for i in nodes:
        field.given[i] = field.within[i] = field.address6(i)


@condition("naming", "alias")
def alias(field, nodes):
    """Names that only the SSH configuration knows."""
    for i in nodes:
        field.ssh_config(f"Host gpu-{i}\n  HostName {field.address(i)}\n")
        field.given[i] = f"gpu-{i}"


@condition("naming", "user")
def user(field, nodes):
    field.login = "root@"


@condition("naming", "upper")
def upper(field, nodes):
    for i in nodes:
        field.given[i] = field.within[i] = field.name(i).upper()


@condition("naming", "alike")
def alike(field, nodes):
    """Cloned images; of one boot here, which real ones are not."""
    for i in nodes:
        field.on(i, "hostname localhost")
        field.sshd(i, f"SetEnv COLLCTL_HOSTID={i} CUDA_VISIBLE_DEVICES=-1")


# Faults ----------------------------------------------------------------------------------------------------------------
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


@condition("fault", "none")
def none(field, nodes):
    pass
