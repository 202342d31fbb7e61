"""How hosts are called, and how names resolve."""
import pathlib

from registry import condition


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


@condition("naming", "mixed", all=True)
def mixed(field, nodes):
    """Each host in another way."""
    ways = (fqdn, ipv4, upper, alias, ipv6)
    for i in nodes:
        ways[i % len(ways)](field, [i])


@condition("naming", "user", all=True)
def user(field, nodes):
    field.login = "root@"


@condition("naming", "upper")
def upper(field, nodes):
    for i in nodes:
        field.given[i] = field.within[i] = field.name(i).upper()


@condition("naming", "capital")
def capital(field, nodes):
    """Names in mixed case."""
    for i in nodes:
        field.given[i] = field.within[i] = field.name(i).capitalize()


@condition("naming", "alike", all=True)
def alike(field, nodes):
    """Cloned images; of one boot here, which real ones are not."""
    for i in nodes:
        field.on(i, "hostname localhost")
        field.of_host[i]["COLLCTL_HOSTID"] = str(i)
        field.sshd(i, f"SetEnv COLLCTL_HOSTID={i} CUDA_VISIBLE_DEVICES=-1")


@condition("naming", "twice", all=True, healthy=True, unlike=("ipv6-only",), commands=("check", "doctor"))
def twice(field, nodes):
    """The first host is in the list by another name, too: nobody's fault but the list's."""
    field.more = [field.address(1)]
    field.clear = (1,), f"{field.name(1)} and {field.address(1)} are one host"
    field.at_fault = "launcher"


@condition("naming", "other-user", all=True)
def other_user(field, nodes):
    """Not root; the binary is sent to its own cache."""
    field.login = "tester@"
    for i in nodes:
        field.on(i, f"rm -rf {field.home}/.cache")


# How names resolve -----------------------------------------------------------------------------------------------------
@condition("resolution", "own-127")
def own_127(field, nodes):
    """Debian and Ubuntu give a host's own name a loopback address."""
    for i in nodes:
        own = field.name(i)
        field.own_hosts_file(i, lambda text, own=own: f"127.0.1.1 {own}.rack7.cluster.test {own} {own.upper()}\n" + text)


@condition("resolution", "own-127-first-of-all")
def own_127_all(field, nodes):
    """The same, and cloud images that give it 127.0.0.1 and ::1, too."""
    for i in nodes:
        field.own_hosts_file(i, lambda text, own=field.name(i): f"127.0.0.1 {own}\n::1 {own}\n" + text)


@condition("resolution", "own-name-unknown")
def own_name_unknown(field, nodes):
    """A host that cannot resolve what it calls itself."""
    for i in nodes:
        field.on(i, f"hostname ip-10-83-0-{i}")


@condition("resolution", "peers-unknown", all=True, commands=("run", "check", "rails", "doctor", "topo", "window"))
def peers_unknown(field, nodes):
    """Only the launcher knows the hosts' names."""
    for i in nodes:
        field.own_hosts_file(i, lambda text: "127.0.0.1 localhost\n")


@condition("resolution", "search", all=True, unlike=("ipv4", "ipv6", "alias", "mixed", "upper", "capital", "fqdn", "peers-unknown"))
def search(field, nodes):
    """Names that a domain of the resolver's list completes, and not the first."""
    domain = "rack7.cluster.test"
    field.names_by_dns({f"{field.name(i)}.{domain}": field.address(i) for i in nodes}, f"nowhere.test {domain}")


@condition("resolution", "dead-address-first", unlike=("ipv4", "ipv6", "alias", "mixed"))
def dead_address_first(field, nodes):
    """A name with several addresses of which the first leads nowhere."""
    field.hosts_file(*(f"{field.address(i)[:-len(str(i))]}{200 + i} {field.given[i]}" for i in nodes), first=True)
    for i in nodes:
        field.on(0, f"ip route add unreachable {field.address(i)[:-len(str(i))]}{200 + i}/32")


@condition("resolution", "dead-ipv6-first", unlike=("ipv4", "ipv6", "alias", "mixed"))
def dead_ipv6_first(field, nodes):
    """A record of IPv6 for a host without IPv6."""
    field.hosts_file(*(f"2001:db8::{i} {field.given[i]}" for i in nodes), first=True)


@condition("resolution", "late", all=True, healthy=True, commands=("join", "torchrun"))
def late(field, nodes):
    """In Kubernetes the name of rank 0 resolves some seconds after the others have begun."""
    name = "job-0.ranks"
    for i in nodes[1:]:
        field.own_hosts_file(i, lambda text: text)
        field.looked_up.append(pathlib.Path(field.folder, f"hosts.{i}"))
    field.within[1] = name
    field.hosts_file(f"{field.address(1)} {name}")

    def known():
        for i in nodes[1:]:
            path = pathlib.Path(field.folder, f"hosts.{i}")
            path.write_text(path.read_text() + f"{field.address(1)} {name}\n")
    field.then.append(known)
