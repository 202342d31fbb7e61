#!/bin/bash
# What is said of hosts, on hosts in namespaces (ssh_rig.sh). The doctor: each case breaks something and asks whether it is
# named, with the right exit code. `topo -H`: which hosts are equal, which one is not and in what, who cannot be asked; what
# they look like comes from COLLCTL_TOPO_FILE in their sshd. Usage: doctor_topo.sh PATH/collctl [CASE-PATTERN]. Exit 1 when
# one failed, 77 where hosts cannot be made.
nodes=4
. "$(dirname "$(realpath "$0")")/remote_common.sh"
all='node[01-04]'
export COLUMNS=1000  # lines that patterns are held against are whole
doctor() { run doctor "$@"; }
topo() { run topo "$@"; }
# Patterns.
has_out() { grep -qE -- "$1" "$out" || fail "standard output lacks '$1'"; }
lacks_out() { ! grep -qE -- "$1" "$out" || fail "standard output has '$1'"; }
# A Python expression over the report r, and over c(name, host): the checks of a host.
holds() {
  python3 - "$out" "$1" <<'PY' || fail "it does not hold that $1"
import json, sys
r = json.load(open(sys.argv[1]))
def c(name, host=None, **more):
    return [x for x in r["checks"] if x["name"] == name and (host is None or x["host"] == host)
            and all(x[k] == v for k, v in more.items())]
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}

if case_is "four hosts in order"; then
  doctor -H "$all" --ssh-client libssh2 --json
  is_code 0
  holds 'r["schema"] == "collctl.doctor/1" and r["verdict"] == {"ok": True, "reasons": []} and r["culprits"] == []'
  holds '[h["host"] for h in r["hosts"]] == ["node01", "node02", "node03", "node04"] and all(h["reached"] for h in r["hosts"])'
  holds 'all(x["status"] == "pass" for x in r["checks"])'
  # Every ordered pair, by IPv4 and IPv6.
  holds 'len(c("reach")) == 4 * 3 * 2 and all(0 < x["measured"] < 3e6 and x["unit"] == "us" for x in c("reach"))'
  holds 'len({(x["host"], x["peer"]) for x in c("reach")}) == 12'
  # All share one kernel and clock.
  holds 'all(abs(x["measured"]) < 500 for x in c("clock")) and len(c("clock")) == 4'
  holds 'all(h["facts"]["binary_sha256"] == r["hosts"][0]["facts"]["binary_sha256"] for h in r["hosts"])'
  doctor -H "$all" --ssh-client openssh
  is_code 0
  has_out '^collctl doctor: 4 hosts$'
  has_out '^same on all hosts: version '
  has_out '^node04  .*  6/6 '
  has_out '^verdict: passed$'
  nothing_left
fi

if case_is "a host that has no name, one that is down, one without the address that data is to go to"; then
  rig_sshd_stop 2
  printf 'node[01-02]\nnode03 addr=10.83.0.77\nnode04\nnohost\n' >"$rig/hosts.txt"
  doctor --hostfile "$rig/hosts.txt" --json
  rig_sshd_start 2
  is_code 4
  holds '"resolve" in c("connect", "nohost")[0]["message"] and "check the spelling" in c("connect", "nohost")[0]["remedy"]'
  holds 'c("connect", "node02")[0]["status"] == "fail" and not r["hosts"][1]["reached"]'
  holds 'all((x["status"] == "pass") == (x["peer"] != "node03") for x in c("reach")) and {x["host"] for x in c("reach")} == {"node01", "node03", "node04"}'
  has_out 'node01 cannot reach node03 at 10.83.0.77: the host does not have this address'
  holds '{(x["kind"], x["name"]) for x in r["culprits"]} >= {("host", "node02"), ("launcher", "head")} and r["verdict"]["reasons"][0]["code"] == "launch"'
  nothing_left
fi

if case_is "another MTU, no room in /dev/shm, few files: each is said of its host"; then
  mtu=$(rig_node 3 ip -o link show eth0 | sed 's/.* mtu \([0-9]*\) .*/\1/')
  rig_node 3 ip link set eth0 mtu 1300
  rig_node 4 mount -o remount,size=1m /dev/shm
  rig_node 1 sh -c 'printf "#!/bin/sh\nulimit -n 1024\nexec sh -c \"\$SSH_ORIGINAL_COMMAND\"\n" > /run/few && chmod 755 /run/few'
  rig_sshd_conf 1 'ForceCommand /run/few'
  doctor -H "$all"
  is_code 1
  has_out '^node03 .* eth0 MTU 1300[^!]* !'
  has_out "^  network: node03: eth0 on 10.83.0.0/.* has MTU 1300.*, most hosts have MTU $mtu"
  has_out '^    -> give all interfaces of a network one MTU'
  has_out '^node04 .* 1 MiB !'
  has_out '^  shm: node04: /dev/shm has 1 MiB free of 1 MiB'
  has_out '^  files: node01: '
  [ "$(sed -n '/^failed:/,/^$/p' "$out" | grep -c '^  [a-z]')" = 3 ] || fail "more or less than three failures"
  doctor -H "$all" --json
  is_code 1
  holds '{(x["host"], x["name"]) for x in r["checks"] if x["status"] == "fail"} == {("node01", "files"), ("node03", "network"), ("node04", "shm")}'
  holds 'c("network", "node03", status="fail")[0]["device"] == "eth0" and c("network", "node03", status="fail")[0]["odd"]'
  rig_node 3 ip link set eth0 mtu "$mtu"
  rig_node 4 mount -o remount,size=1g /dev/shm
  rig_sshd_reset 1
fi

if case_is "two hosts do not reach each other"; then
  rig_node 2 ip route add unreachable "$(rig_address 3)/32"
  rig_node 2 ip -6 route add unreachable "$(rig_address6 3)/128"
  doctor -H "$all" --json
  is_code 1
  holds '{(x["host"], x["peer"]) for x in c("reach", status="fail")} == {("node02", "node03"), ("node03", "node02")}'
  holds 'all(x["measured"] == "no-route" for x in c("reach", "node02", status="fail"))'
  holds 'all(x["measured"] in ("timeout", "no-route") for x in c("reach", "node03", status="fail"))'
  holds '{x["name"] for x in r["culprits"]} == {"node02 -> node03", "node03 -> node02"} and r["culprits"][0]["kind"] == "link"'
  rig_node 2 ip route del unreachable "$(rig_address 3)/32"
  rig_node 2 ip -6 route del unreachable "$(rig_address6 3)/128"
fi

# Root is not held to this limit; the other user has nothing else running.
if case_is "a port that passes smaller frames than all hosts say"; then
  # The bridge hands on to node03 what is small, and what the kernel has not put together from many; SSH keeps below that.
  rig_node 3 ip route replace "$rig_network.254/32" dev eth0 mtu lock 500
  nsenter -t "$rig_head_pid" -n ip route replace "$(rig_address 3)/32" dev br0 mtu lock 500
  for i in $(seq $nodes); do rig_node $i ip link set eth0 gso_max_segs 1; done
  nsenter -t "$rig_head_pid" -n ip link set v3 mtu 700
  doctor -H "$all" --json
  is_code 1
  holds '{(x["host"], x["peer"]) for x in c("reach", status="fail")} == {(a, b) for k in ("node01", "node02", "node04") for a, b in ((k, "node03"), ("node03", k))}'
  holds 'all(x["measured"] == "mtu" for x in c("reach", status="fail"))'
  holds '[(x["kind"], x["name"]) for x in r["culprits"]] == [("host", "node03")]'
  has_out "small packets are answered, 12 KiB at once are not"
  nsenter -t "$rig_head_pid" -n ip link set v3 mtu 1500
  nsenter -t "$rig_head_pid" -n ip route del "$(rig_address 3)/32"
  rig_node 3 ip route del "$rig_network.254/32"
  for i in $(seq $nodes); do rig_node $i ip link set eth0 gso_max_segs 65535; done
fi

if case_is "few processes may be started"; then
  rig_node 1 sh -c 'printf "#!/bin/bash\nulimit -u 30\nexec sh -c \"\$SSH_ORIGINAL_COMMAND\"\n" > /run/fewer && chmod 755 /run/fewer'
  rig_sshd_conf 1 'ForceCommand /run/fewer'
  for i in 1 2; do rig_node $i sh -c "mkdir -p '$rig_home/of-tester' && chown 4711 '$rig_home/of-tester'"; done
  doctor -H tester@node01,tester@node02 --remote-path '~/of-tester/collctl'
  is_code 1
  has_out '^  nproc: node01: [0-9]+ of the 30 processes and threads that this user may have are in use'
  has_out 'ulimit -u'
  rig_sshd_reset 1
  rig_node 1 rm -rf "$rig_home/of-tester"  # root runs nothing out of another user's folder
  doctor -H root@node01,tester@node02 --remote-path '~/of-tester/collctl'
  is_code 0
fi

if case_is "the launcher is interrupted"; then
  rig_blackhole 3 on
  begin doctor -H "$all"
  for i in 1 2 4; do await_on $i "$agent"; done
  kill -INT "$launcher"
  end
  rig_blackhole 3 off
  is_code 130
  nothing_left
fi

# Two GPUs and a NIC below a switch, at addresses that no host has: they stay devices of their class. Given: the width
# of the second one's link, the NIC's GUID.
machine() {
  cat <<XML
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="00fe:e0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="00fe:e1:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="00fe:e2:00.0" count="18" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="00fe:e2:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="$1">
        <gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="00fe:e1:00.0" count="18" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="00fe:e3:00.0" class="0x020000" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x$2" maxconn="131072" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
XML
}
machine 16 1 >"$rig/one.xml"
machine 16 2 >"$rig/two.xml" # another GUID: the same machine all the same
machine 8 3 >"$rig/three.xml"
for i in 1 2 3 4; do
  name=$(sed -n "${i}p" <<<$'one\ntwo\nthree\none')
  rig_sshd_conf $i "SetEnv COLLCTL_TOPO_FILE=$rig/$name.xml"
done

if case_is "of three hosts two are equal and one has a narrow link"; then
  topo -H 'node[01-03]'
  is_code 1
  has_out '^# 3 hosts: 2 different machines$'
  has_out '^node01, node02:$'
  has_out 'switch  00fe:e0:00\.0  gen5 x16 48 GB/s$'
  has_out 'H100  00fe:e2:00\.0  gen5 x16 48 GB/s'
  has_out '^node03: 1 difference from node01$'
  has_out '^  ! GPU H100 00fe:e2:00\.0: link width x16 -> x8$'
fi

if case_is "a host is down, another's own topology file is wrong: the others are told apart all the same"; then
  echo '<system version="1"><cpu>' >"$rig/two.xml"
  rig_sshd_stop 4
  topo -H "$all" --ssh-client openssh --json
  rig_sshd_start 4
  machine 16 2 >"$rig/two.xml"
  is_code 4
  holds 'r["schema"] == "collctl.topo-hosts/1" and [h["host"] for h in r["hosts"]] == ["node01", "node02", "node03", "node04"]'
  holds '[g["hosts"] for g in r["groups"]] == [["node01"], ["node03"]]'
  holds 'r["groups"][0]["differences"] == [] and r["groups"][1]["differences"] == ["GPU H100 00fe:e2:00.0: link width x16 -> x8"]'
  holds 'all(h["topo"]["schema"] == "collctl.topo/1" and h["topo"]["source"] == "live" for h in (r["hosts"][0], r["hosts"][2]))'
  holds '"topo" not in r["hosts"][1] and "two.xml:1:" in r["hosts"][1]["error"]["message"]'
  holds '"topo" not in r["hosts"][3] and r["hosts"][3]["error"]["code"] == "launch" and "refused" in r["hosts"][3]["error"]["message"]'
  nothing_left
fi

if case_is "an inventory: a file of each host, pictures, a matrix; what has changed since"; then
  topo -H "$all" --save "$rig/golden" -o "$rig/golden/%h.svg" --matrix
  is_code 1 # node03 is not as the others
  for host in node01 node04; do
    grep -q '<system' "$rig/golden/$host.xml" || fail "no topology file of $host"
    grep -q '</svg>' "$rig/golden/$host.svg" || fail "no picture of $host"
  done
  has_out '^# node01:$'
  topo -H 'node[03-04]' --diff "$rig/golden"
  is_code 0
  machine 8 2 >"$rig/two.xml"
  topo -H "$all" --diff "$rig/golden" --json
  is_code 1
  holds '[h["status"] for h in r["hosts"]] == ["pass", "fail", "pass", "pass"]'
  holds 'any("x8" in d or "8" in d for d in r["hosts"][1]["differences"])'
  machine 16 2 >"$rig/two.xml"
  # One machine as it should be: serial numbers do not count. And a host without a file is not tested.
  topo -H node02 --diff "$rig/golden/node01.xml"
  is_code 0
  topo -H node01,node03 --diff "$rig/golden/node01.xml"
  is_code 1
  rm "$rig/golden/node03.xml"
  topo -H 'node[03-04]' --diff "$rig/golden"
  is_code 8
  nothing_left
fi

[ $failures = 0 ] || { say "$failures failed"; exit 1; }
say "all passed"
