#!/bin/bash
# The pages (-o FILE.html) in a real browser without a network: who is at fault can be read, the matrix has its dark
# cells, light and dark, and hosts with hostile names run nothing.
# Usage: page.sh PATH/collctl [FOLDER, where pages and pictures stay]. 77 without a browser.
set -u
collctl=$(realpath "$1")
work=${2:-$(mktemp -d)}
mkdir -p "$work"
[ -n "${2:-}" ] || trap 'rm -rf "$work"' EXIT
failures=0
fail() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}
browser=
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then browser=$name && break; fi
done
[ -n "$browser" ] || { echo "skipped: no chromium and no google-chrome here to look at pages with"; exit 77; }
alone=()
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then alone=(unshare -n); fi

# A check of twelve hosts: node07 slow in both directions, nothing passes from node03 to node02, and two names that no
# host should have; a sweep with what was expected.
python3 - "$work" <<'PY'
import json, sys
hosts = ["node%02d" % i for i in range(1, 11)]
hosts += ["<script>document.title='owned'</script>", "\"><img src=x onerror=\"document.title='owned'\">"]
ends = [h + " eth0" for h in hosts]
n = len(hosts)
def speed(a, b):
    if a == b: return -1
    if (a, b) == (2, 1): return 0
    return 1.2 if 6 in (a, b) else 11.5 + 0.07 * ((3 * a + 5 * b) % 7)
def check(name, host, **more):
    return dict(name=name, host=host, peer=None, device=None, status="pass", measured=None, expected=None, unit=None,
                odd=False, message=None, remedy=None, kind="host", **more)
checks = []
for i, h in enumerate(hosts):
    checks.append(dict(check("node/allreduce", h), measured=3.1 + 0.01 * i, unit="GB/s"))
bad = dict(check("pairs/blame", "node07", code=1), status="fail", message="host node07: has 10 % of what others have",
           remedy="look at its NICs, cables, switch ports")
link = dict(check("pairs/blame", None, code=1), kind="link", status="fail", message="link node02 - node03: does not work",
            remedy="look at what is between them")
evil = dict(check("doctor/clock", hosts[10], code=1), status="fail", message=hosts[10] + ": its clock is off", remedy=hosts[11])
left = dict(check("cluster/hosts", "node02", code=8), status="not-tested", message="node02 took no part: a link of it is broken")
checks += [bad, link, evil, left]
culprits = [dict(kind="host", name="node07", confidence=0.95, evidence="20 of 21 measurements through it are bad"),
            dict(kind="link", name="node02 - node03", confidence=1, evidence="3 of 3 measurements through it are bad"),
            dict(kind="host", name=hosts[10], confidence=1, evidence="its clock")]
out = {"node07": "pairs", hosts[10]: "doctor"}
json.dump(dict(schema="collctl.check/1", level="quick", hosts=[dict(host=h, failed=out.get(h)) for h in hosts],
    suites=[dict(name=s, end="done", seconds=1, why=None) for s in ("doctor", "inventory", "node", "pairs", "cluster")],
    seconds=31.5, paths=dict(ends=ends, GBps=[[speed(a, b) for b in range(n)] for a in range(n)]), checks=checks,
    culprits=culprits, verdict=dict(ok=False, reasons=[dict(code="failed", message=c["message"], host=None, rank=None)
    for c in (bad, link, evil)])), open(sys.argv[1] + "/check.json", "w"))
PY
# Large: 120 ends, of which one is slow.
python3 - "$work" <<'PY'
import json, sys
n = 120
json.dump(dict(schema="collctl.check/1", level="quick", hosts=[dict(host="node%03d" % i, failed=None) for i in range(n)],
    suites=[dict(name="pairs", end="done", seconds=1, why=None)], seconds=1, checks=[], culprits=[], verdict=dict(ok=True, reasons=[]),
    paths=dict(ends=["node%03d mlx5_0:1" % i for i in range(n)],
               GBps=[[-1 if a == b else 2.0 if 77 in (a, b) else 24.0 + (a * b) % 5 * 0.1 for b in range(n)] for a in range(n)])),
    open(sys.argv[1] + "/large.json", "w"))
PY
"$collctl" run -n 2 --device cpu allreduce -b 1K -e 1M --iters 3 --quiet -o "$work/plain.json" >/dev/null || fail "no sweep"
python3 - "$work" <<'PY'
import json, sys
report = json.load(open(sys.argv[1] + "/plain.json"))
best = max(r["out_of_place"]["busbw_GBps"] for r in report["results"])
for r in report["results"]:
    r["expected"] = dict(time_us=1, busbw_GBps=best * 1.2 * min(1, r["bytes"] / 65536), efficiency=0.5, limited_by="memory", source="model")
json.dump(report, open(sys.argv[1] + "/sweep.json", "w"))
PY
"$collctl" run -n 3 --device cpu window-test --iters 2 --quiet -o "$work/window.html" >/dev/null || fail "no window-test"
"$collctl" rails --net socket --seconds 0 --quiet -o "$work/rails.html" >/dev/null || fail "no rails"
"$collctl" topo --from "$(dirname "$0")/../topology/data/oci-bm-gpu-h100-8-topo.xml" -o "$work/machine.svg" 2>/dev/null || fail "no machine"
for name in check large sweep; do
  "$collctl" report --exit-zero "$work/$name.json" -o "$work/$name.html" >/dev/null || fail "no page of $name.json"
done

# look PAGE SCHEME (0 dark, 1 light): PAGE-SCHEME.png
look() {
  "${alone[@]}" timeout -k 5 300 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
    --user-data-dir="$work/profile" --blink-settings=preferredColorScheme="$2" --window-size=1280,1900 \
    --screenshot="$work/$1-$2.png" "file://$work/$1.html" >"$work/browser.log" 2>&1 || fail "the browser did not draw $1"
}
text() {
  "${alone[@]}" timeout -k 5 300 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$work/profile" \
    --virtual-time-budget=2000 --dump-dom "file://$work/$1.html" 2>"$work/browser.log" >"$work/$1.dom" || fail "the browser did not read $1"
}
text check
grep -q '<title>collctl check: 12 hosts</title>' "$work/check.dom" || fail "a host's name ran in the page"
grep -qi '<script\|<img' "$work/check.dom" && fail "a host's name became markup"
for words in 'host node07</b>20 of 21' 'link node02 - node03</b>3 of 3' '&lt;script&gt;' 'From\|from rows to columns' 'node07 eth0'; do
  grep -q "$words" "$work/check.dom" || fail "the page lacks '$words'"
done
text large
grep -q '>node077 mlx5_0:1<' "$work/large.dom" || fail "the name of the slow end is not among those that are shown"
text sweep
grep -q 'expected bus bandwidth' "$work/sweep.dom" || fail "no line of what was expected"
look check 1
look check 0
# For those who look at them.
if [ -n "${2:-}" ]; then
  for page in large sweep window rails; do look "$page" 1; done
  for page in large sweep; do look "$page" 0; done
fi

# Colours of the pictures: the page's own, the broken cell's red, the last of the shades.
python3 - "$work" <<'PY' || failures=$((failures + 1))
import collections, struct, sys, zlib
def pixels(path):
    data = open(path, "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR": width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        if kind == b"IDAT": packed += body
        at += size + 12
    assert depth == 8 and colour in (2, 6)
    each = 3 if colour == 2 else 4
    raw, line, seen = zlib.decompress(packed), bytearray(width * each), collections.Counter()
    for y in range(height):
        start = y * (width * each + 1)
        how, now = raw[start], bytearray(raw[start + 1:start + 1 + width * each])
        for i in range(len(now)):
            a = now[i - each] if i >= each else 0
            b = line[i]
            c = line[i - each] if i >= each else 0
            if how == 1: now[i] = (now[i] + a) & 255
            elif how == 2: now[i] = (now[i] + b) & 255
            elif how == 3: now[i] = (now[i] + (a + b) // 2) & 255
            elif how == 4:
                p = a + b - c
                pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
                now[i] = (now[i] + (a if pa <= pb and pa <= pc else b if pb <= pc else c)) & 255
        line = now
        if y % 2 == 0:
            for x in range(0, width, 2): seen[tuple(now[x * each:x * each + 3])] += 1
    return seen
bad = 0
for name, page, far in (("check-1", (255, 255, 255), (0x0c, 0x3d, 0x75)), ("check-0", (0x14, 0x18, 0x1e), (0xee, 0xf6, 0xff))):
    seen = pixels("%s/%s.png" % (sys.argv[1], name))
    for what, colour in (("background", page), ("broken cell", (0xc4, 0x16, 0x2a)), ("shade of what is far off", far)):
        if seen[colour] < 20:
            print("FAILED: %s.png has no %s %s: %s" % (name, what, colour, seen.most_common(4)))
            bad = 1
sys.exit(bad)
PY
[ "$failures" = 0 ] || exit 1
echo "pages: all passed"
