#!/usr/bin/env bash
# The binary holds code for every architecture asked for (without cuobjdump: for any), and stays below 60 MB.
# usage: check_cuda.sh PROGRAM ARCHITECTURE...
set -euo pipefail
program=$1
shift
bytes=$(stat -c %s "$program")
if [ "$bytes" -gt 60000000 ]; then
  echo "$bytes bytes: more than 60 MB"
  exit 1
fi
dump=$(command -v cuobjdump || echo /usr/local/cuda/bin/cuobjdump)
if [ ! -x "$dump" ]; then
  objdump -h "$program" | grep '[.]nv_fatbin' >/dev/null || { echo "no device code"; exit 1; }
  echo "holds device code (no cuobjdump to say for what)"
  exit 0
fi
held=$("$dump" --list-elf "$program" | grep -oE 'sm_[0-9]+[a-z]?' | sort -u)
echo "holds: ${held//$'\n'/ }"
for architecture in "$@"; do
  if ! grep -qx "sm_${architecture%-real}" <<<"$held"; then
    echo "no code for sm_$architecture"
    exit 1
  fi
done
