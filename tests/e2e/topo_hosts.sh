#!/bin/bash
# `topo -H` with the real binary on hosts in namespaces (ssh_rig.sh): which hosts are equal, which one is not and in
# what, who cannot be asked. Hosts here share one machine; what they should look like comes from COLLCTL_TOPO_FILE in their
# sshd. Usage: topo_hosts.sh PATH/collctl [CASE-PATTERN]. Exit 1 when one failed, 77 where hosts cannot be made.
set -u
collctl=$(realpath "$1")
only=${2:-}
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/ssh_rig.sh
nodes=4
rig_up $nodes
failures=0
out=$rig/out err=$rig/err
all='node[01-04]'

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  sed 's/^/    out: /' "$out" | cut -c1-300 | head -30
  sed 's/^/    err: /' "$err" | cut -c1-600 | head -20
  failures=$((failures + 1))
}
topo() { rig_head timeout -k 5 240 "$collctl" topo "$@" >"$out" 2>"$err" </dev/null; rc=$?; }
is_code() { [ "$rc" = "$1" ] || fail "exit code $rc, expected $1"; }
has_out() { grep -qE -- "$1" "$out" || fail "standard output lacks '$1'"; }
lacks_out() { ! grep -qE -- "$1" "$out" || fail "standard output has '$1'"; }
# A Python expression over the report r.
holds() {
  python3 - "$out" "$1" <<'PY' || fail "it does not hold that $1"
import json, sys
r = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else 1)
PY
}
case_is() {
  case=$1
  [ -z "$only" ] || [[ $case == *$only* ]] || return 1
  say "- $case"
}
nothing_left() {
  local i left
  for i in $(seq $nodes); do
    left=$(rig_leftover "$i" 300)
    [ -z "$left" ] || fail "on node $i there is still: $left"
  done
}
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

if case_is "two hosts are equal"; then
  topo -H 'node[01-02]'
  is_code 0
  has_out '^# 2 hosts: all equal$'
  has_out '^node01, node02:$'
  has_out 'switch  00fe:e0:00\.0  gen5 x16 48 GB/s$'
  has_out 'H100  00fe:e2:00\.0  gen5 x16 48 GB/s'
  nothing_left
fi

if case_is "one of three has a narrow link"; then
  topo -H 'node[01-03]'
  is_code 1
  has_out '^# 3 hosts: 2 different machines$'
  has_out '^node01, node02:$'
  has_out '^node03: 1 difference from node01$'
  has_out '^  ! GPU H100 00fe:e2:00\.0: link width x16 -> x8$'
  topo -H 'node[01-03]' --json
  is_code 1
  holds 'r["schema"] == "collctl.topo-hosts/1" and [h["host"] for h in r["hosts"]] == ["node01", "node02", "node03"]'
  holds '[g["hosts"] for g in r["groups"]] == [["node01", "node02"], ["node03"]]'
  holds 'r["groups"][0]["differences"] == [] and r["groups"][1]["differences"] == ["GPU H100 00fe:e2:00.0: link width x16 -> x8"]'
  holds 'all(h["topo"]["schema"] == "collctl.topo/1" and h["topo"]["source"] == "live" for h in r["hosts"])'
  nothing_left
fi

if case_is "a host is down"; then
  rig_sshd_stop 4
  for client in libssh2 openssh; do
    topo -H "$all" --ssh-client $client
    is_code 4
    has_out '^# 4 hosts: 2 different machines, 1 could not be asked$'
    has_out '^FAIL node04: cannot connect .*refused'
    has_out '^node03: 1 difference from node01$'
  done
  topo -H "$all" --json
  is_code 4
  holds '"topo" not in r["hosts"][3] and r["hosts"][3]["error"]["code"] == "launch" and "refused" in r["hosts"][3]["error"]["message"]'
  rig_sshd_start 4
  nothing_left
fi

if case_is "a host's own topology file is wrong"; then
  echo '<system version="1"><cpu>' >"$rig/two.xml"
  topo -H 'node[01-03]'
  is_code 4
  has_out '^FAIL node02: .*two\.xml:1:'
  machine 16 2 >"$rig/two.xml"
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
  topo -H "$all" --diff "$rig/golden"
  is_code 0
  machine 8 2 >"$rig/two.xml"
  topo -H "$all" --diff "$rig/golden" --json
  is_code 1
  holds '[h["status"] for h in r["hosts"]] == ["pass", "fail", "pass", "pass"]'
  holds 'any("x8" in d or "8" in d for d in r["hosts"][1]["differences"])'
  machine 16 2 >"$rig/two.xml"
  # One machine as it should be: serial numbers do not count. And a host without a file is not tested.
  topo -H node01,node02 --diff "$rig/golden/node01.xml"
  is_code 0
  topo -H node01,node03 --diff "$rig/golden/node01.xml"
  is_code 1
  rm "$rig/golden/node03.xml"
  topo -H "$all" --diff "$rig/golden"
  is_code 8
  topo -H node01 -o "$rig/all.svg"
  is_code 2
  nothing_left
fi

if case_is "what is about one machine is refused with hosts"; then
  topo -H node01 --graph
  is_code 2
  grep -q 'topo: -H excludes --graph' "$err" || fail "standard error does not say so"
fi

if [ $failures -gt 0 ]; then
  say "$failures checks failed"
  exit 1
fi
say "topo of all hosts: all cases passed"
