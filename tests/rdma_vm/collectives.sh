#!/bin/bash
# Collectives over NET/IB on the kernel's own verbs: soft-RoCE in a virtual machine (tests/rdma_vm/run), all cases in
# one boot. Usage: collectives.sh PATH/collctl [--more | GROUP...]: without a group the quick ones, --more all others;
# the groups are the functions group_... below. Exit 77: skipped, with the reason.
set -u
here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
collctl=$(realpath "$1")
shift
if [ ! -e /run/vm/settings ]; then
  limit=400
  [ $# = 0 ] || limit=1200
  exec "$here/run" --timeout $limit --share "$(dirname "$collctl")" "$here/collectives.sh" "$collctl" "$@"
fi

. "$here/fabric.sh"
export COLLCTL_TOKEN=a-token-of-the-tests
work=$(mktemp -d)
out=$work/out err=$work/err wire=$work/wire
failures=0 begun=$SECONDS

say() { printf '%s\n' "$*"; }
fail() {
  say "FAILED: $case: $*"
  local file
  for file in "$out" "$err" "$wire".[0-9]; do [ ! -e "$file" ] || sed "s|^|    ${file##*/}: |" "$file" | cut -c1-300 | tail -n 30; done
  failures=$((failures + 1))
}
case_is() {
  case=$1
  say "- $case [$((SECONDS - begun)) s]"
  rm -f "$out"* "$err" "$wire".*
}
has_err() { grep -qE -- "$1" "$err" || fail "standard error lacks '$1'"; }
# A number that a tool printed; what is no number must not compare as 0.
is_number() { [[ $1 =~ ^[0-9]+$ ]] || { fail "'$1' is no number ($2)"; return 1; }; }

# The devices that the ranks of host 0, 1, ... use. One element: all ranks are on host 0.
devices=(rxe0 rxe1)
settings=()  # variables of all ranks
started=()
job_seconds=100
# begin RANKS ARGS...: starts the ranks, in blocks over the hosts, in the background.
begin() {
  local ranks=$1 hosts=${#devices[@]} r host
  shift
  : >"$err"
  started=()
  for ((r = 0; r < ranks; r++)); do
    host=$((r * hosts / ranks))
    fabric_on $host timeout -k 5 "$job_seconds" env "${settings[@]}" "COLLCTL_IB_HCA=${devices[$host]}" "$collctl" run \
      --join 10.78.0.1:29400 --rank $r --size "$ranks" --transport net --net ib -v "$@" --json \
      >"$out.$r" 2>>"$err" </dev/null &
    started+=($!)
  done
}
end() {
  local pid
  codes=
  for pid in "${started[@]}"; do
    wait "$pid"
    codes="$codes$? "
  done
  cp "$out.0" "$out"
}
codes_are() { [ "$codes" = "$1" ] || fail "exit codes are '$codes', expected '$1'"; }
job() { begin "$@"; end; }
# Waits until all ranks measure.
await_measuring() {
  for _ in $(seq 600); do
    [ "$(grep -c 'Init COMPLETE' "$err")" = "${#started[@]}" ] && sleep 0.5 && return
    sleep 0.1
  done
  fail "the ranks did not come up"
}
await_port() { # device
  for _ in $(seq 300); do
    grep -q ACTIVE "/sys/class/infiniband/rxe$1/ports/1/state" && return
    sleep 0.1
  done
  fail "rxe$1 does not come up again"
}
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# Rank 0 reports one run of N ranks whose data was checked and right, every link of it NET/IB; the log names just
# the devices that were to be used, and those have received packets since received_before was noted.
note_received() { received_before=$(for d in rxe0 rxe1; do counter $d rcvd_pkts; done); }
good() { # ranks
  local wanted named device now before i=0
  codes_are "$(printf '0 %.0s' $(seq "$1"))"
  grep -q '"schema":"collctl.bench/1"' "$out" && grep -qF "\"ranks\":$1," "$out" && grep -q '"ok":true' "$out" || fail "no good report"
  # A barrier has no data, a soak only a verdict.
  grep -qE '"op":"(barrier|soak)"' "$out" || [ "$(grep -o '"wrong":[-0-9]*' "$out" | sort -u)" = '"wrong":0' ] ||
    fail "data was wrong or not checked"
  [ -z "$(grep -o '"via":"[^"]*"' "$out" | grep -v '"via":"NET/IB/')" ] || fail "a link is not over NET/IB"
  grep -q '"via":"NET/IB/' "$out" || fail "no link is over NET/IB"
  wanted=$(printf '%s\n' "${devices[@]}" | tr ',' '\n' | sort -u)
  named=$(sed -n 's|.*NET/IB: \([a-z0-9_]*\) Port 1 qpn [0-9].*|\1|p' "$err" | sort -u)
  [ "$named" = "$wanted" ] || fail "the log names the devices '$named', expected '$wanted'"
  for device in rxe0 rxe1; do
    i=$((i + 1))
    before=$(sed -n ${i}p <<<"$received_before") now=$(counter $device rcvd_pkts)
    is_number "$before" counter && is_number "$now" counter || continue
    case $'\n'$wanted$'\n' in
      *$'\n'$device$'\n'*) [ "$now" -gt "$before" ] || fail "$device has received nothing" ;;
      *) [ "$now" = "$before" ] || fail "$device has received packets and was not to be used" ;;
    esac
  done
}
small=(-b 8 -e 32K -f 64 --iters 2 --warmup 1)
all_kinds() { # ranks, what
  case_is "$2: operations of all kinds"
  note_received
  job "$1" soak --ops 60 --seed 5 -e 32K
  good "$1"
}

# What the devices given send, from here to wire_end.
wire_begin() { # device numbers
  local i
  watchers=()
  for i in "$@"; do
    python3 "$here/wire.py" "roce$i" "$wire.$i" &
    watchers+=($!)
  done
  for i in "$@"; do
    for _ in $(seq 600); do [ -e "$wire.$i.ready" ] && break; sleep 0.1; done
    [ -e "$wire.$i.ready" ] || fail "nobody watches roce$i"
  done
}
wire_end() {
  local pid
  for pid in "${watchers[@]}"; do kill -TERM "$pid"; done
  for pid in "${watchers[@]}"; do wait "$pid" || fail "wire.py failed"; done
}
sent() { sed -n "s/^$1 //p" "$wire.${2:-0}"; } # fact [device]

group_wire() {
  case_is "what is on the wire: RoCE v2 between IPv4 addresses, whole MTUs, the traffic class"
  note_received
  settings=(COLLCTL_IB_TC=104)
  wire_begin 0
  job 2 allreduce "${small[@]}"
  wire_end
  settings=()
  good 2
  [ "$(sent addresses)" = "10.77.0.1>10.77.0.2" ] || fail "packets are between $(sent addresses)"
  [ -z "$(sent ipv6)$(sent roce_v1)" ] || fail "there are packets of other kinds"
  [ "$(sent tos)" = 104 ] || fail "the traffic class is $(sent tos), expected 104"
  # An interface of 4200 bytes carries payloads of 4096.
  [ "$(sent largest_payload)" = 4096 ] || fail "payloads are up to $(sent largest_payload) bytes"
}

group_soak() {
  local i counts
  case_is "random operations of all kinds while packets are lost"
  settings=(COLLCTL_IB_TIMEOUT=14)
  for i in 0 1; do fabric_loss $i 2; done
  job 2 soak --ops 40 --seed 3
  settings=()
  codes_are "0 0 "
  for i in 0 1; do
    counts=($(fabric_counts $i))
    say "  rxe$i: ${counts[0]:-?} packets sent, ${counts[1]:-?} dropped"
    is_number "${counts[0]:-}" sent && is_number "${counts[1]:-}" dropped && [ "${counts[1]}" -gt 0 ] ||
      fail "no packet of rxe$i was dropped"
    fabric_loss $i 0
  done
}

long=(-b 64K -e 64K --iters 1000000 --check 0)
group_down() {
  case_is "a port goes down"
  settings=(COLLCTL_IB_TIMEOUT=16 COLLCTL_IB_RETRY_CNT=3 COLLCTL_IB_PORT_DOWN_TIMEOUT=0.5)
  begin 2 allreduce "${long[@]}"
  await_measuring
  fabric_cable 1 down
  end
  settings=()
  codes_are "5 5 "
  has_err 'rxe1:1.*down'
  grep -v ' COLLCTL ' "$err" | sed 's/^/  /'
  fabric_cable 1 up
  await_port 1
}

group_silent() {
  case_is "ports that hear nothing: as many tries as were asked for, as far apart"
  settings=(COLLCTL_IB_TIMEOUT=16 COLLCTL_IB_RETRY_CNT=3)
  begin 2 allreduce "${long[@]}"
  await_measuring
  wire_begin 0 1
  for i in 0 1; do fabric_drop $i 100; done
  end
  wire_end
  for i in 0 1; do fabric_drop $i 0; done
  settings=()
  codes_are "5 5 "
  grep -v ' COLLCTL ' "$err" | sed 's/^/  /'
  # The one that aborted says from which device and to which queue pair.
  local retries_over='rxe([01]):1 QP [0-9]+ -> rank [01] \(host host[01]\) rxe[01]:1 QP ([0-9]+):.*status 12.* after 4 tries of 0.268 s'
  has_err "$retries_over"
  [[ $(<"$err") =~ $retries_over ]] || return
  local tries  # how often, then the gaps in ms
  tries=($(sent "tries_to_${BASH_REMATCH[2]}" "${BASH_REMATCH[1]}"))
  say "  rxe${BASH_REMATCH[1]} to QP ${BASH_REMATCH[2]}: sent ${tries[0]:-?} times, ${tries[*]:1} ms apart"
  # The first and 3 more; 4.096 us x 2^16 = 268 ms apart, by a clock of 4 ms. The first wait began with an earlier packet.
  [ "${tries[0]:-}" = 4 ] || fail "the packet was sent ${tries[0]:-?} times, expected 4"
  local gap
  for gap in "${tries[@]:2}"; do
    [ "$gap" -ge 264 ] || fail "sent again after $gap ms, expected 268"
  done
}

group_forever() {
  case_is "ports that hear nothing, for an adapter that tries for ever: the deadline of the run names the peer"
  # A retry count of 7, the default, means for ever to soft-RoCE.
  settings=(COLLCTL_IB_TIMEOUT=14)
  begin 2 allreduce "${long[@]}" --op-timeout 4
  await_measuring
  for i in 0 1; do fabric_drop $i 100; done
  local since=$SECONDS
  end
  for i in 0 1; do fabric_drop $i 0; done
  settings=()
  say "  ended after $((SECONDS - since)) s"
  codes_are "6 6 "
  grep -v ' COLLCTL ' "$err" | sed 's/^/  /'
  has_err 'rank [01] waits for (data from )?rank [01].*no progress for 4 s'
  # The deadline, and what a slow machine takes to say so.
  [ $((SECONDS - since)) -le 60 ] || fail "it took $((SECONDS - since)) s"
}

group_mtu() {
  case_is "devices of different MTUs use the smaller one"
  fabric_mtu 1 1500
  note_received
  wire_begin 0
  job 2 allreduce "${small[@]}"
  wire_end
  good 2
  # 1500 bytes of Ethernet carry payloads of 1024.
  [ "$(sent largest_payload)" = 1024 ] || fail "payloads are up to $(sent largest_payload) bytes, expected 1024"
  has_err 'rxe0 Port 1 qpn [0-9]+ mtu 1024'
  has_err 'rxe1 Port 1 qpn [0-9]+ mtu 1024'
  fabric_mtu 1 4200
}

group_gid() {
  case_is "the address that is asked for: link-local"
  note_received
  settings=(COLLCTL_IB_GID_INDEX=0)
  wire_begin 0
  job 2 allreduce "${small[@]}"
  wire_end
  settings=()
  good 2
  [ -z "$(sent ipv4)$(sent roce_v1)" ] && is_number "$(sent ipv6)" ipv6 || fail "packets are not IPv6"
}

group_announce() {
  case_is "large messages are announced apart where packets may overtake each other"
  note_received
  settings=(COLLCTL_IB_ADAPTIVE_ROUTING=1 COLLCTL_IB_QPS_PER_CONNECTION=2)
  wire_begin 0
  job 2 allreduce -b 128K -e 128K --iters 2 --warmup 1
  wire_end
  settings=()
  good 2
  # Messages above 8 KiB: a plain write, then an empty one with the announcement.
  [ -z "$(sent write_last_immediate)" ] || fail "a large message carries its own announcement"
  is_number "$(sent empty_announcement)" announcements
}

group_one_sided() {
  case_is "one-sided operations on windows: RDMA writes, reads and immediates"
  job_seconds=300  # all its stages; an emulated machine takes 20 s where nothing else runs
  job 2 window-test --iters 1
  job_seconds=100
  codes_are "8 8 "  # collectives between windows need one team, and are the only check that was not made
  grep -q '"schema":"collctl.window-test/1"' "$out" || fail "no report"
  grep -oE '\{"name":"[^"]*"[^}]*"status":"[^"]*"' "$out" | grep -v '"status":"pass"$' >"$work/left"
  [ "$(wc -l <"$work/left")" = 1 ] && grep -q '"name":"collectives".*"status":"not-tested"$' "$work/left" ||
    fail "not only collectives were left out: $(cat "$work/left")"
  [ "$(grep -o '"path":"[^"]*"' "$out" | sort -u)" = '"path":"NET/IB/0"' ] || fail "not every pair is over NET/IB"
}

# All collectives, drawn by lot (60 by this seed are of all ten kinds), in one job for each shape: starting a job takes
# longer than what it does.
group_collectives() {
  all_kinds 2 "2 ranks, 2 devices"
  all_kinds 4 "4 ranks, 2 devices"
  devices=(rxe0)
  all_kinds 2 "2 ranks, 1 device"
  all_kinds 4 "4 ranks, 1 device"
  devices=(rxe0,rxe1 rxe0,rxe1)
  case_is "2 ranks with 2 devices each"
  note_received
  job 2 allreduce "${small[@]}"
  good 2
  devices=(rxe0 rxe1)
}

quick=(wire soak down)
others=(silent forever mtu gid announce one_sided collectives)
case ${1:-} in
  "") set -- "${quick[@]}" ;;
  --more) set -- "${others[@]}" ;;
esac
for group in "$@"; do "group_$group"; done
rm -rf "$work"
say "$failures failures, $((SECONDS - begun)) s"
[ "$failures" = 0 ]
