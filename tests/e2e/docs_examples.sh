#!/bin/bash
# The examples of README.md and docs/*.md, the files that documents name, and the scripts of docs/examples. Usage:
# docs_examples.sh PATH/collctl [--paste]. Every command stands behind "$ " in a block whose fence says how far it is tried here:
#   console         run as it stands; it ends with 0, unless "$ echo $?" behind it says otherwise
#   console judges  likewise, but machines differ: it ends with 0, or with 1
#   console hosts   needs hosts: run against a port where nobody listens, which is code 4
#   console gpus    needs GPUs: with --dry-run, so it ends with 0, or with 3 where there are none
#   console other   needs another launcher or system: its collctl command likewise
# ./dev is looked up in its help. Output below a command is compared by shape, "..." stands for any lines; --paste
# replaces it with today's.
set -u
# CPU ranks, on machines with GPUs as well.
export COLUMNS=100
if grep -qs 0x10de /sys/bus/pci/devices/*/vendor; then export CUDA_VISIBLE_DEVICES=-1; fi
root=$(realpath "$(dirname "$0")/../..")
collctl=$(realpath "$1")
paste=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0 examples=0
out=$work/out
fail() {
  printf 'FAILED: %s: %s\n' "$where" "$*"
  failures=$((failures + 1))
}
show() { head -n 15 "$out" | sed 's/^/    /'; }

# What pages find beside them, and hosts that refuse at once.
mkdir "$work/bin"
ln -s "$collctl" "$work/bin/collctl"
printf 'Host *\n  HostName 127.0.0.1\n  Port 1\n' >"$work/refusing"
furnish() {
  mkdir -p "$1"
  ln -s "$collctl" "$1/collctl"
  cp "$root/tests/topology/data/oci-bm-gpu-h100-8-topo.xml" "$1/node.xml"
  cp "$root/tests/topology/data/azure-ndv5-topo.xml" "$1/nd-v5.xml"
  printf 'node[01-02]   slots=8 rack=a\nnode[03-04]:8 rack=b user=ops port=2222\n!node02\n' >"$1/hosts"
  printf '#!/bin/sh\necho rank "$RANK"\n' >"$1/my_program"
  chmod +x "$1/my_program"
}
# run_it COMMAND: what it writes is in $out, its code in $rc.
run_it() {
  (cd "$folder" && PATH=$work/bin:$PATH timeout -k 5 240 bash -c "$1") >"$work/raw" 2>&1 </dev/null
  rc=$?
  sed "s/\\b$(hostname)\\b/node01/g; s/\\(node0*\\([0-9]*\\).*\\)127\.0\.0\.1:1:/\\110.83.0.\\2:22:/; s/ *$//" "$work/raw" >"$out"
}

# The shape of a line: of a table's row its size, of other lines the first words, or all where it is neither a
# comment nor has a figure. (Tables leave out columns that say the same in every row.)
shape() {
  local words
  read -ra words <<<"$1"
  if [ ${#words[@]} = 0 ]; then
    echo ""
  elif [[ ${words[0]} =~ ^[0-9.]+$ ]]; then
    echo "row ${words[0]}"
  elif [[ $1 == *" : "* ]]; then
    echo "${words[*]}" | sed 's/ : .*//'
  elif [[ $1 == "#"* || $1 =~ [0-9] ]]; then
    echo "${words[*]:0:3}" | sed 's/[0-9][0-9.]*/N/g'
  else
    echo "${words[*]}"
  fi
}
# Each line in $pasted has one of its shape in $out, in this order. The lines that were found are in $found.
compare() {
  local lines next=0 line at
  found=()
  mapfile -t lines <"$out"
  for line in "${pasted[@]}"; do
    if [[ $line == ... ]]; then
      found+=("...")
      continue
    fi
    for ((at = next; at < ${#lines[@]}; ++at)); do
      [ "$(shape "${lines[at]}")" = "$(shape "$line")" ] && break
    done
    if [ "$at" -lt ${#lines[@]} ]; then
      found+=("${lines[at]}")
      next=$((at + 1))
    elif [[ $line != "# note:"* ]]; then  # notes are about the machine
      fail "its output has no line such as: $line"
      show
      found+=("$line")
    fi
  done
}

# A command that needs GPUs or another launcher: its part from collctl on, with --dry-run; none when it has no such part.
without_hardware() {
  local command
  [[ $1 =~ (^|[[:space:]])(\./)?collctl[[:space:]]+([a-z-]+)(([[:space:]].*)?)$ ]] || return 1
  command=${BASH_REMATCH[3]}${BASH_REMATCH[4]}
  echo "collctl run --dry-run ${command#run }"
}

try() { # KIND COMMAND, then $pasted
  local kind=$1 command=$2 expected=0 listed word
  examples=$((examples + 1))
  where="$page: $command"
  if [[ $command =~ ^\./dev\ ([a-z]+( [a-z]+)?) ]]; then
    "$root/dev" help 2>&1 | grep -qE "(\./dev|\|) ${BASH_REMATCH[1]}\b" || fail "./dev help does not know it"
    return
  fi
  if [[ $command =~ ^apt-get\ install\ -y\ (.*)$ ]]; then
    read -ra listed <<<"${BASH_REMATCH[1]}"
    word=$(sed -n 's/^build_packages=(\(.*\))$/\1/p' "$root/dev")
    [ "${listed[*]}" = "$word" ] || fail "the packages that dev installs are: $word"
    return
  fi
  case $kind in
    console | judges) run_it "$command" ;;
    hosts)
      expected=4
      run_it "$(sed -E "s|^collctl [a-z-]+|& --ssh-config $work/refusing|; s|--soak [0-9a-z]+|--soak 1s|" <<<"$command")"
      grep -q "connection refused" "$out" || { fail "no host is said to refuse"; show; }
      ;;
    gpus | other)
      if ! command=$(without_hardware "$command"); then
        [[ $2 =~ ^(dnf|zypper|podman)\  ]] || fail "nothing of it can be tried"
        return
      fi
      run_it "$command"
      if [[ $command == *" --join "* ]]; then  # which has no placement
        expected=2
        grep -q "this one joins" "$out" || { fail "is refused"; show; }
      elif [ "$rc" = 3 ]; then
        expected=3
      fi
      ;;
    *) fail "no such kind of block: $kind" ;;
  esac
  expected=${code:-$expected}
  if [ "$rc" != "$expected" ] && ! { [ "$kind" = judges ] && [ "$rc" = 1 ]; }; then
    fail "ended with $rc, expected $expected"
    show
  fi
  case $kind in console | judges | hosts) compare ;; esac
}

# block KIND LINE...: its commands in turn. $pasted_block is the block with today's output.
block() {
  local kind=$1 lines=("${@:2}") at=0 command text
  pasted_block=()
  while [ "$at" -lt ${#lines[@]} ]; do
    text=${lines[at]}
    pasted_block+=("$text")
    at=$((at + 1))
    if [[ $text != "$ "* ]]; then
      fail "a block begins with a command: $text"
      return
    fi
    command=${text#"$ "}
    while [[ $command == *\\ ]]; do
      pasted_block+=("${lines[at]}")
      command="${command%\\} ${lines[at]}"
      at=$((at + 1))
    done
    command=$(sed 's/  *# .*$//' <<<"$command")
    pasted=()
    while [ "$at" -lt ${#lines[@]} ] && [[ ${lines[at]} != "$ "* ]]; do
      pasted+=("${lines[at]}")
      at=$((at + 1))
    done
    code=
    if [ "${lines[at]:-}" = "$ echo \$?" ]; then
      code=${lines[at + 1]}
    fi
    if [ "$command" = "echo \$?" ]; then
      pasted_block+=("${pasted[@]}")
      continue
    fi
    found=("${pasted[@]}")
    try "$kind" "$command"
    pasted_block+=("${found[@]}")
  done
}

cd "$root" || exit 1
for page in README.md docs/*.md; do
  where=$page
  folder=$work/pages/$page
  furnish "$folder"
  fence="" lines=() result=()
  while IFS= read -r line; do
    if [ -n "$fence" ] && [ "$line" = '```' ]; then
      case $fence in
        '```console') block console "${lines[@]}" ;;
        '```console '*) block "${fence#* }" "${lines[@]}" ;;
        *)
          pasted_block=("${lines[@]}")
          for text in "${lines[@]}"; do
            [[ $text =~ ^([[:space:]]*)(\$ |(\./)?collctl [a-z]) ]] && fail "a command outside of a console block: $text"
          done
          ;;
      esac
      result+=("$fence" "${pasted_block[@]}" "$line")
      fence="" lines=()
    elif [ -n "$fence" ]; then
      lines+=("$line")
    elif [[ $line == '```'* ]]; then
      fence=$line
    else
      result+=("$line")
      rest=$line
      while [[ $rest =~ \]\(([^\)#:]+)(#[^\)]*)?\)(.*)$ ]]; do
        rest=${BASH_REMATCH[3]}
        [ -e "$(dirname "$page")/${BASH_REMATCH[1]}" ] || fail "there is no ${BASH_REMATCH[1]}"
      done
    fi
  done <"$page"
  where=$page
  [ -z "$fence" ] || fail "a block without an end"
  if [ "$page" != README.md ]; then
    grep -qF "]($page)" README.md || fail "README.md does not lead there"
  fi
  if [ "$paste" = --paste ]; then
    printf '%s\n' "${result[@]}" >"$page"
  fi
done
# Sources that are named are there.
for page in README.md ARCHITECTURE.md CONTRIBUTING.md DECISIONS.md docs/*.md; do
  where=$page
  while read -r path; do
    compgen -G "${path%\*}*" >/dev/null || fail "there is no $path"
  done < <(grep -oE '`(base|cmd|kernels|launcher|runtime|topology|transport|tests|man|completions|cmake|docs)/[^` ]*`' "$page" | tr -d '`')
done
where="all pages"
[ "$examples" -ge 40 ] || fail "only $examples examples were found"
echo "$examples examples"
[ "$paste" = --paste ] || . tests/e2e/docs_scripts.sh
[ "$failures" = 0 ] || { echo "$failures failed"; exit 1; }
