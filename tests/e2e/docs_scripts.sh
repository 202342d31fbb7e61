# The scripts of docs/examples as they stand: Slurm's with a node that is fit and one that is not, what Kubernetes'
# files run, systemd's units, the gate. Sourced by docs_examples.sh, which says what `collctl`,
# `work`, `root`, `out` and `show` are.
examples=$root/docs/examples
fail() {
  printf 'FAILED: %s: %s\n' "$examples" "$*"
  show
  failures=$((failures + 1))
}
# A collctl that finds this node broken, one that cannot say, and a Slurm that writes down what it is told.
cat >"$work/broken" <<'SH'
#!/bin/sh
echo "COLLCTL CRITICAL: at fault: host a'b; \$(touch $OWNED) | seconds=1.0 hosts=1 bad=1"
exit 2
SH
printf '#!/bin/sh\necho COLLCTL UNKNOWN: no such option\nexit 3\n' >"$work/unknown"
cat >"$work/scontrol" <<'SH'
#!/bin/sh
for word; do printf '[%s]' "$word"; done >>"$(dirname "$0")/drained"
SH
printf '#!/bin/sh\n%s\n' 'echo 41' >"$work/squeue"
chmod +x "$work"/{broken,unknown,scontrol,squeue}
export SCONTROL=$work/scontrol SQUEUE=$work/squeue OWNED=$work/owned SLURMD_NODENAME=node07

# script CODE DRAINED NAME: which must end with that code, and drain or not.
script() {
  rm -f "$work/drained"
  "$examples/$3" >"$out" 2>&1
  local rc=$? drained=no
  [ ! -e "$work/drained" ] || drained=yes
  [ "$rc/$drained" = "$1/$2" ] || fail "$3: code $rc, drained: $drained; expected $1, $2"
}
for file in "$examples"/*.sh; do bash -n "$file" || fail "$file is no shell script"; done
if command -v shellcheck >/dev/null; then
  shellcheck "$examples"/*.sh >"$out" || fail "shellcheck"
else
  echo "skipped: shellcheck of the scripts, it is not here"
fi
# Slurm's variables are those of a prolog.
export SLURM_JOB_ID=41 SLURM_JOB_NODELIST=node07 SLURM_NNODES=1
COLLCTL=$collctl script 0 no slurm-prolog.sh
COLLCTL=$collctl script 0 no slurm-epilog.sh
COLLCTL=$work/broken script 1 yes slurm-prolog.sh
grep -qF "[update][nodename=node07][state=drain][reason=collctl: COLLCTL CRITICAL: at fault: host a'b; \$(touch $OWNED)]" "$work/drained" ||
  fail "drained with other words: $(cat "$work/drained")"
COLLCTL=$work/broken script 0 yes slurm-epilog.sh
COLLCTL=$work/unknown script 0 no slurm-prolog.sh
COLLCTL=/no/such/collctl script 0 no slurm-prolog.sh
# Another job on the node: the epilog says nothing.
printf '#!/bin/sh\n%s\n' 'echo 41; echo 42' >"$work/squeue"
COLLCTL=$work/broken script 0 no slurm-epilog.sh
# A history in which node07 has failed and is well again: it is resumed if collctl has drained it, and nobody else has.
export HISTORY_DIR=$work/history SINFO=$work/sinfo
printf '#!/bin/sh\necho "$REASON"\n' >"$SINFO"
chmod +x "$SINFO"
COLLCTL_FAULT=corrupt:rank=0 "$collctl" check --device cpu --level quick -e 1K --only node --quiet --history "$HISTORY_DIR" >"$out" 2>&1
REASON="collctl check: it is slow" COLLCTL=$collctl script 0 no slurm-resume.sh
"$collctl" check --device cpu --level quick -e 1K --only node --quiet --history "$HISTORY_DIR" >"$out" 2>&1
REASON="collctl check: it is slow" COLLCTL=$collctl script 0 yes slurm-resume.sh
grep -q 'state=resume' "$work/drained" || fail "resumed with other words: $(cat "$work/drained")"
REASON="a disk is being replaced" COLLCTL=$collctl script 0 no slurm-resume.sh
COLLCTL=/no/such/collctl script 1 no slurm-resume.sh
unset HISTORY_DIR SINFO
[ ! -e "$OWNED" ] || fail "what a check said was run"
unset SLURM_JOB_ID SLURM_JOB_NODELIST SLURM_NNODES SLURMD_NODENAME

# The command of a container in a Kubernetes file, the NUMBERth with that key.
command_of() {
  python3 - "$1" "$2" <<'PY'
import sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    spec = document.get("spec", {})
    spec = spec.get("template", {}).get("spec", spec)
    for container in spec.get(sys.argv[2], []):
        print("\0".join(container["command"]), end="\0")
        sys.exit(0)
sys.exit(1)
PY
}
if python3 -c 'import yaml' 2>/dev/null; then
  python3 -c 'import sys, yaml; [list(yaml.safe_load_all(open(f))) for f in sys.argv[1:]]' "$examples"/*.yaml || fail "a file is no YAML"
  mapfile -d '' -t words < <(command_of "$examples/kubernetes-init.yaml" initContainers)
  PATH=$work/bin:$PATH timeout 240 "${words[@]}" >"$out" 2>&1 || fail "kubernetes-init.yaml: the container ends with $?"
  mapfile -d '' -t words < <(command_of "$examples/kubernetes-job.yaml" containers)
  token=$("$collctl" token)
  pids=()
  for index in 0 1 2 3; do
    PATH=$work/bin:$PATH COLLCTL_SIZE=4 JOB_COMPLETION_INDEX=$index COLLCTL_COMM_ID=127.0.0.1:29487 COLLCTL_TOKEN=$token \
      timeout 240 "${words[@]}" >"$work/pod$index" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || fail "kubernetes-job.yaml: a pod ends with $?"; done
  grep -q 'Verdict *: passed' "$work/pod0" || { cp "$work/pod0" "$out"; fail "kubernetes-job.yaml: no verdict"; }
else
  echo "skipped: the Kubernetes files, no python3-yaml here"
fi

if command -v systemd-analyze >/dev/null; then
  mkdir "$work/units"
  sed "s,/usr/bin/collctl,$collctl," "$examples/collctl-check.service" >"$work/units/collctl-check.service"
  cp "$examples/collctl-check.timer" "$work/units"
  systemd-analyze verify "$work/units/collctl-check.timer" "$work/units/collctl-check.service" >"$out" 2>&1 || fail "systemd-analyze verify"
  # Of other units on this machine it may say something.
  ! grep -q 'collctl-check' "$out" || fail "systemd-analyze has something to say"
else
  echo "skipped: systemd-analyze verify, it is not here"
fi
line=$(sed -n 's/^ExecStart=//p' "$examples/collctl-check.service")
line=${line//\/usr\/bin\/collctl/$collctl}
line=${line//\/var\/lib\/collctl/$work}
TEXTFILES=$work bash -c "$line" >"$out" 2>&1
rc=$?
[ $rc = 0 ] || [ $rc = 8 ] || [ $rc = 1 ] || fail "what the unit starts ends with $rc"
grep -q '^collctl_exit_code{report="check"} '$rc'$' "$work/collctl.prom" || fail "no file for node_exporter"

# The gate, with a check of this host alone in place of one of hosts: a baseline, then no worse, then worse.
cat >"$work/gated" <<SH
#!/bin/bash
if [ "\$1" = check ]; then shift 3; exec "$collctl" check --device cpu --only node "\$@"; fi
exec "$collctl" "\$@"
SH
chmod +x "$work/gated"
gate() { COLLCTL=$work/gated GATE_BELOW=$1 "$examples/ci-gate.sh" hosts "$work/baseline.json" "$work" >"$out" 2>&1; }
gate 0.0001 || fail "the gate makes no baseline"
gate 0.0001 || fail "the gate does not open"
grep -q '<testsuites' "$work/check.xml" || fail "no JUnit"
python3 - "$work/baseline.json" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
for check in report["checks"]:
    if check["unit"] == "GB/s": check["measured"] *= 1e6
json.dump(report, open(sys.argv[1], "w"))
PY
gate 0.5 && fail "the gate opens for what is slower"
