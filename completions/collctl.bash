# bash completion for collctl; made by: collctl completion bash
_collctl_list() {
  local before=
  [[ $current != *,* ]] || before=${current%,*},
  COMPREPLY=($(compgen -P "$before" -W "$1" -- "${current##*,}"))
}
_collctl_hosts() {
  {
    awk '!/^[|@#]/ {n = split($1, names, ","); for (i = 1; i <= n; ++i) print names[i]}' \
      ~/.ssh/known_hosts /etc/ssh/ssh_known_hosts
    awk 'tolower($1) == "host" {for (i = 2; i <= NF; ++i) if ($i !~ /[*?!]/) print $i}' ~/.ssh/config
  } 2>/dev/null | sed 's/^\[//; s/\]:[0-9]*$//' | sort -u
}
_collctl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} word i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W 'run allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv moe-dispatch moe-combine hot-expert sendrecv hypercube barrier window-test rails topo plan report doctor check status env token version completion man help --help --version' -- "$current"))
    return
  elif [ "$command" = help ]; then
    COMPREPLY=($(compgen -W 'run allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv moe-dispatch moe-combine hot-expert sendrecv hypercube barrier window-test rails topo plan report doctor check status env token version completion man' -- "$current"))
    return
  fi
  # After -- the words are a program and its arguments.
  for ((i = 2; i < COMP_CWORD; ++i)); do
    if [ "${COMP_WORDS[i]}" = -- ]; then
      if [ $((i + 1)) -eq "$COMP_CWORD" ]; then
        COMPREPLY=($(compgen -c -f -- "$current"))
      else
        COMPREPLY=($(compgen -f -- "$current"))
      fi
      return
    fi
  done
  case $previous in
    -n|--ranks) COMPREPLY=(); return ;;
    -N|--ranks-per-host) COMPREPLY=(); return ;;
    --map-by) COMPREPLY=($(compgen -W 'slot host' -- "$current")); return ;;
    --rank-mode) COMPREPLY=($(compgen -W 'process thread' -- "$current")); return ;;
    --bind-to) COMPREPLY=($(compgen -W 'none core numa device' -- "$current")); return ;;
    -x|--env) COMPREPLY=(); return ;;
    --timeout) COMPREPLY=(); return ;;
    --start-timeout) COMPREPLY=(); return ;;
    --op-timeout) COMPREPLY=(); return ;;
    --on-loss) COMPREPLY=($(compgen -W 'abort shrink' -- "$current")); return ;;
    --grace) COMPREPLY=(); return ;;
    --output-dir) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --stdin) COMPREPLY=($(compgen -W 'none 0 all' -- "$current")); return ;;
    --launcher) COMPREPLY=($(compgen -W 'ssh local adopt' -- "$current")); return ;;
    --join) COMPREPLY=(); return ;;
    --rank) COMPREPLY=(); return ;;
    --size) COMPREPLY=(); return ;;
    --token-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    -H|--hosts) _collctl_list "$(_collctl_hosts)"; return ;;
    --hostfile) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --ssh-config) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --ssh-client) COMPREPLY=($(compgen -W 'auto libssh2 openssh' -- "$current")); return ;;
    --ssh-user) COMPREPLY=(); return ;;
    --ssh-port) COMPREPLY=(); return ;;
    -i|--identity) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --known-hosts) COMPREPLY=($(compgen -W 'strict accept-new off' -- "$current")); return ;;
    --connect-timeout) COMPREPLY=(); return ;;
    --fanout) COMPREPLY=(); return ;;
    --tree-width) COMPREPLY=(); return ;;
    --stage) COMPREPLY=($(compgen -W 'auto never always' -- "$current")); return ;;
    --remote-path) COMPREPLY=(); return ;;
    --binary-for) COMPREPLY=(); return ;;
    --allow-missing) COMPREPLY=(); return ;;
    -b|--min-bytes) COMPREPLY=(); return ;;
    -e|--max-bytes) COMPREPLY=(); return ;;
    -f|--step-factor) COMPREPLY=(); return ;;
    --step-bytes) COMPREPLY=(); return ;;
    -d|--dtype) _collctl_list 'int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 float8e4m3 float8e5m2 all'; return ;;
    --op) _collctl_list 'sum prod min max avg all'; return ;;
    -r|--root) COMPREPLY=($(compgen -W 'all' -- "$current")); return ;;
    --iters) COMPREPLY=(); return ;;
    -w|--warmup) COMPREPLY=(); return ;;
    --sync) COMPREPLY=($(compgen -W 'block each' -- "$current")); return ;;
    -m|--agg-iters) COMPREPLY=(); return ;;
    -a|--average) COMPREPLY=(); return ;;
    --split) COMPREPLY=(); return ;;
    --cuda-graph) COMPREPLY=(); return ;;
    --vs) COMPREPLY=($(compgen -W 'nccl mpi' -- "$current")); return ;;
    --vs-config) _collctl_list 'default ring ring-ll ring-ll128 ring-simple tree tree-ll tree-ll128 tree-simple registered symmetric best'; return ;;
    --trace) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --misalign) COMPREPLY=(); return ;;
    -c|--check) COMPREPLY=($(compgen -W '0 1' -- "$current")); return ;;
    --in-place) COMPREPLY=($(compgen -W '0 1 both' -- "$current")); return ;;
    --min-busbw) COMPREPLY=(); return ;;
    --max-latency) COMPREPLY=(); return ;;
    --min-efficiency) COMPREPLY=(); return ;;
    --thresholds) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --baseline) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --save-baseline) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --budget) COMPREPLY=(); return ;;
    --message) COMPREPLY=(); return ;;
    --seconds) COMPREPLY=(); return ;;
    --pair-timeout) COMPREPLY=(); return ;;
    --memory) COMPREPLY=($(compgen -W 'host gpu both auto' -- "$current")); return ;;
    --below) COMPREPLY=(); return ;;
    -o|--output) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --level) COMPREPLY=($(compgen -W 'quick standard full' -- "$current")); return ;;
    --only) _collctl_list 'doctor inventory node gpus pairs gpu-net cluster traffic nccl burn counters'; return ;;
    --skip) _collctl_list 'doctor inventory node gpus pairs gpu-net cluster traffic nccl burn counters'; return ;;
    --with) _collctl_list 'nccl'; return ;;
    --expect) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --record) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --replay) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --floors) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --soak) COMPREPLY=(); return ;;
    --history) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --history-keep) COMPREPLY=(); return ;;
    --burn) COMPREPLY=(); return ;;
    --write-hosts) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --algo) _collctl_list 'ring tree tree-split pairwise doubling rooted-tree bruck halving one-shot two-shot collnet all'; return ;;
    --proto) _collctl_list 'simple ll ll128 all'; return ;;
    --channels) COMPREPLY=(); return ;;
    --transport) COMPREPLY=($(compgen -W 'loopback p2p shm net' -- "$current")); return ;;
    --p2p) COMPREPLY=($(compgen -W 'auto read write' -- "$current")); return ;;
    --net) COMPREPLY=(); return ;;
    --device) COMPREPLY=($(compgen -W 'cpu cuda auto' -- "$current")); return ;;
    --from) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --save) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --assume) COMPREPLY=($(compgen -W 'v100 a100 a100-pcie a800 h100 h100-pcie h800 h200 b200 l40s l4 a10g a10 t4' -- "$current")); return ;;
    --assume-nic) COMPREPLY=(); return ;;
    --diff) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --xml) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --bytes) COMPREPLY=(); return ;;
    --nodes) COMPREPLY=(); return ;;
    --format) COMPREPLY=($(compgen -W 'table json jsonl csv nccl-tests' -- "$current")); return ;;
    --host) COMPREPLY=(); return ;;
    --last) COMPREPLY=(); return ;;
    --color) COMPREPLY=($(compgen -W 'auto always never' -- "$current")); return ;;
    --help) COMPREPLY=($(compgen -W 'all launch hosts sizes measure choices output general examples exit-codes' -- "$current")); return ;;
  esac
  case $command in
    run)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --stdin --gather --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --budget --message --seconds --pair-timeout --memory --all-nics --below --output -o --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      else
        COMPREPLY=($(compgen -W 'allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv moe-dispatch moe-combine hot-expert sendrecv hypercube barrier window-test rails' -- "$current"))
      fi ;;
    allreduce)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    allgather)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    reducescatter)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    broadcast)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    reduce)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    gather)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    scatter)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    alltoall)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    alltoallv)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    moe-dispatch)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    moe-combine)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    hot-expert)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    sendrecv)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    hypercube)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    barrier)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --on-loss --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --min-bytes -b --max-bytes -e --step-factor -f --step-bytes --plateau --dtype -d --op --root -r --iters --warmup -w --sync --agg-iters -m --average -a --split --cuda-graph --vs --vs-config --window --stragglers --trace --misalign --check -c --in-place --min-busbw --max-latency --min-efficiency --thresholds --baseline --save-baseline --algo --proto --channels --transport --p2p --net --integrity --recalibrate --device --json --csv --format --output -o --plot --wide --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    window-test)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --grace --tag-output --no-tag-output --output-dir --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --iters --budget --transport --net --integrity --device --json --output -o --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    rails)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --rank-mode --bind-to --env -x --timeout --start-timeout --op-timeout --grace --dry-run --launcher --join --rank --size --token-file --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --tree-width --stage --remote-path --binary-for --allow-missing --message --seconds --pair-timeout --memory --all-nics --min-bytes -b --max-bytes -e --below --output -o --net --json --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    topo)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--timeout --start-timeout --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --stage --remote-path --binary-for --from --save --assume --assume-nic --matrix --graph --diff --strict --output -o --xml --nodes --json --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    plan)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--min-bytes -b --step-factor -f --step-bytes --channels --net --from --assume --assume-nic --max-bytes -e --bytes --nodes --algo --proto --verbose -v --json --output -o --wide --quiet --color --help -h' -- "$current"))
      else
        COMPREPLY=($(compgen -W 'allreduce allgather reducescatter broadcast reduce gather scatter alltoall sendrecv barrier alltoallv hypercube moe-dispatch moe-combine hot-expert' -- "$current"))
      fi ;;
    report)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--json --csv --output -o --wide --exit-zero --diff --below --trend --host --last --color --help -h' -- "$current"))
      else
        COMPREPLY=($(compgen -f -- "$current"))
      fi ;;
    doctor)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--timeout --start-timeout --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --stage --remote-path --binary-for --expect --record --replay --json --output -o --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    check)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ranks -n --ranks-per-host -N --map-by --oversubscribe --bind-to --env -x --timeout --start-timeout --op-timeout --grace --hosts -H --hostfile --ssh-config --ssh-client --ssh-user --ssh-port --identity -i --known-hosts --connect-timeout --fanout --stage --remote-path --binary-for --min-efficiency --thresholds --baseline --save-baseline --below --level --min-bytes -b --max-bytes -e --only --skip --with --list --budget --expect --floors --soak --history --history-keep --burn --write-hosts --nagios --net --integrity --device --json --output -o --quiet --verbose -v --color --help -h' -- "$current"))
      fi ;;
    status)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--ras --json --output -o --color --help -h' -- "$current"))
      fi ;;
    env)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--json --color --help -h' -- "$current"))
      fi ;;
    token)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--color --help -h' -- "$current"))
      fi ;;
    version)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--json --color --help -h' -- "$current"))
      fi ;;
    completion)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--color --help -h' -- "$current"))
      else
        COMPREPLY=($(compgen -W 'bash zsh fish' -- "$current"))
      fi ;;
    man)
      if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W '--color --help -h' -- "$current"))
      else
        COMPREPLY=($(compgen -d -- "$current"))
      fi ;;
  esac
}
complete -o filenames -F _collctl collctl
