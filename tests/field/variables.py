"""NCCL's variables, as sites and public launch scripts set them."""
import pathlib

from registry import condition

MEASURED = ("run", "check", "rails", "doctor", "window", "join", "torchrun")

# name, variables, and what is with that alone
HARMLESS = {
    "ifname-eth0": {"NCCL_SOCKET_IFNAME": "eth0"},
    "ifname-exact": {"NCCL_SOCKET_IFNAME": "=eth0"},
    "not-docker": {"NCCL_SOCKET_IFNAME": "^docker0"},
    "not-lo-docker": {"NCCL_SOCKET_IFNAME": "^lo,docker,virbr,veth"},
    "ib-disable": {"NCCL_IB_DISABLE": "1"},
    "ib-of-dgx": {"NCCL_IB_HCA": "=mlx5_0,mlx5_3", "NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106", "NCCL_IB_TIMEOUT": "22"},
    "not-nvls": {"NCCL_ALGO": "^NVLS,NVLSTree"},
    "ring": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"},
    "debug": {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
    "sockets": {"NCCL_NET": "Socket", "NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "2"},
    "aws": {"FI_PROVIDER": "efa", "NCCL_TUNER_PLUGIN": "none", "NCCL_BUFFSIZE": "8388608", "NCCL_P2P_NET_CHUNKSIZE": "524288"},
    "af-inet": {"NCCL_SOCKET_FAMILY": "AF_INET"},
    "no-p2p": {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_CROSS_NIC": "1", "NCCL_ASYNC_ERROR_HANDLING": "1"},
}
UNLIKE = {"ifname-eth0": ("bond", "second-net"), "ifname-exact": ("bond", "second-net"), "af-inet": ("ipv6-only", "ipv6")}


def set_variables(values):
    def apply(field, nodes):
        field.environment.update(values)
        if "NCCL_SOCKET_IFNAME" in values and not values["NCCL_SOCKET_IFNAME"].startswith("^"):
            field.rails = {i: ["eth0"] for i in field.nodes}
    apply.__doc__ = " ".join(f"{key}={value}" for key, value in values.items())
    return apply


for row, harmless in HARMLESS.items():
    condition("variables", row, all=True, commands=MEASURED, unlike=UNLIKE.get(row, ()))(set_variables(harmless))


@condition("variables", "site-file", all=True, commands=MEASURED)
def site_file(field, nodes):
    """A site's file of settings."""
    path = pathlib.Path(field.folder, "nccl.conf")
    path.write_text("# of this site\nNCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME=^docker0\n")
    field.environment["NCCL_CONF_FILE"] = str(path)


@condition("variables", "ifname-nowhere", all=True, healthy=True, commands=("run", "rails", "window"), unlike=("not-docker", "site-file"))
def ifname_nowhere(field, nodes):
    """The name that another cluster had."""
    field.environment["NCCL_SOCKET_IFNAME"] = "ib0"
    field.clear = (2, 3), r"NCCL_SOCKET_IFNAME[\s\S]*ib0|ib0[\s\S]*NCCL_SOCKET_IFNAME"
