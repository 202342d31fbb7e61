#!/bin/bash
# --vs mpi beside what is installed here, Open MPI and MPICH: CPU ranks of this host that their own launchers start.
# Usage: versus_mpi.sh PATH/collctl. Exit 77 where neither is installed.
set -u
. "$(dirname "$0")/local_common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
json() { python3 -c "import json; d = json.load(open('$out')); assert $1, d" 2>>"$err" || fail "not so: $1"; }
quick=(--iters 2 --warmup 1 --json)

case_is "ranks that MPI's launcher has not started: refused, with what to type"
mpis=
command -v mpirun.openmpi >/dev/null && mpis="openmpi"
command -v mpiexec.hydra >/dev/null && mpis="${mpis:+$mpis }mpich"
run run -n 3 allreduce --vs mpi
is_code 3
if [ -z "$mpis" ]; then
  has_err "--vs mpi: MPI not found"
  has_err "install Open MPI (openmpi-bin) or MPICH (mpich)"
  echo "skipped: neither Open MPI (mpirun.openmpi) nor MPICH (mpiexec.hydra) is installed"
  [ "$failures" = 0 ] && exit 77
  exit 1
fi
has_err "mpirun -n 3 collctl allreduce --vs mpi"

mpi_run() { # openmpi or mpich, ranks, then the command
  local which=$1 n=$2
  shift 2
  case $which in
    openmpi) set -- mpirun.openmpi --oversubscribe --bind-to none -n "$n" "$@" ;;
    mpich) set -- mpiexec.hydra -n "$n" "$@" ;;
  esac
  timeout -k 5 240 "$@" >"$out" 2>"$err" </dev/null
  rc=$?
  return $rc
}

# When the first rank leaves, MPICH's launcher may kill the others, and then ends with a code of its own: the
# words are what is checked there.
ends_with() {
  if [ "$mpi" = mpich ]; then
    [ "$rc" != 0 ] && [ "$rc" -lt 124 ] || fail "exit $rc"
  else
    is_code "$1"
  fi
}

collectives() { # that $mpi does beside us: both placements, the right bytes
  local op
  for op in "$@"; do
    mpi_run $mpi 2 "$collctl" $op --vs mpi -b 0 -e 40K -f 5000 "${quick[@]}"
    is_code 0
    json "d['op'] == '$op' and d['ranks'] == 2 and len(d['results']) == 3"
    json "all(r['vs']['name'].startswith('$mpi ') and r['vs']['time_us'] > 0 and r['vs']['ratio'] > 0 for r in d['results'][1:])"
    json "all(r[p]['wrong'] == 0 for r in d['results'] for p in ('out_of_place', 'in_place') if p in r)"
  done
}

for mpi in $mpis; do
  if [ $mpi = "${mpis%% *}" ]; then
    case_is "$mpi: every collective"
    collectives allreduce allgather reducescatter broadcast reduce gather scatter alltoall alltoallv sendrecv hypercube
    mpi_run $mpi 2 "$collctl" barrier --vs mpi "${quick[@]}"
    is_code 0
    json "d['results'][0]['vs']['time_us'] > 0"

    mpi_run $mpi 3 "$collctl" alltoallv --vs mpi -b 3K -e 3K -d float16,int8 --sync each "${quick[@]}"
    is_code 0
    json "all(r['vs']['time_us'] > 0 and r['out_of_place']['wrong'] == 0 for r in d['results'])"

    case_is "$mpi: groups, configurations of NCCL, a hypercube of three are refused; what it lacks is not measured, and that is told"
    for words in "-m 4" "--vs-config ring" "--integrity"; do
      # shellcheck disable=SC2086
      mpi_run $mpi 2 "$collctl" allreduce --vs mpi -b 1K -e 1K $words
      ends_with 2
      has_err "collctl: error:"
    done
    mpi_run $mpi 3 "$collctl" hypercube --vs mpi
    is_code 2
    has_err "hypercube of 3 ranks"
    mpi_run $mpi 2 "$collctl" allreduce --vs mpi -b 1K -e 1K -d float32,float16 "${quick[@]}"
    is_code 8
    json "'vs' in d['results'][0] and 'vs' not in d['results'][1]"
    json "d['vs_not_measured'] == [{'variant': 'default', 'reason': 'it has no float16'}]"

    case_is "$mpi: the table has its column and the ratio; a saved report as well"
    mpi_run $mpi 2 "$collctl" run allreduce --vs mpi -b 1K -e 1K --iters 2 -o "$work/saved.json"
    is_code 0
    has_out "# beside $mpi "
    has_out "Ratio to $mpi "
    grep -q ' mpi  ratio' "$out" || fail "no column"
    run report "$work/saved.json"
    is_code 0
    grep -q ' mpi  ratio' "$out" || fail "no column in the saved report"
  else
    case_is "$mpi: two collectives"
    collectives allreduce alltoallv
  fi

  case_is "$mpi: a rank that stops is a deadline; --timeout in the middle of MPI's operations"
  : >"$out" # the case before has such a line
  mpi_run $mpi 2 sh -c "echo \$\$ >>$work/pids; COLLCTL_UNTIL='$work/never' exec '$collctl' allreduce --vs mpi -b 8 -e 8 --op-timeout 2" &
  job=$!
  await -of $job line "$out" busbw
  kill -STOP "$(tail -1 "$work/pids")" || fail "no rank"
  wait $job
  rc=$?
  kill -KILL "$(tail -1 "$work/pids")" 2>/dev/null
  ends_with 6
  grep -qE 'MPI hangs, not collctl: allreduce did not return in time|no progress for 2 s' "$err" || fail "nobody says what hangs"
  rm -f "$work/pids"

  # More ranks than cores, which MPI's spin on: a few operations of its are seconds, ours are not.
  export OMPI_MCA_mpi_yield_when_idle=0
  op=allreduce
  [ $mpi = mpich ] || op=alltoallv
  mpi_run $mpi $(($(nproc) + 2)) sh -c "echo \$\$ >>$work/pids; exec '$collctl' $op --vs mpi -b 64K -e 4M --step-bytes 64 --timeout 3"
  ends_with 6
  has_err "did not end within 3 s (--timeout)"
  grep -qiE 'segmentation|signal (7|11)|SIGSEGV|SIGBUS' "$out" "$err" && fail "a rank was ended by a signal"
  all_gone $(cat "$work/pids")
  rm -f "$work/pids"
  unset OMPI_MCA_mpi_yield_when_idle
done

case_is "a libmpi that is not the launcher's; no MPI at all: what to install"
if [ "$mpis" = "openmpi mpich" ]; then
  mkdir "$work/lib"
  ln -s "$(ldconfig -p | awk '/libmpich.so.12 /{print $NF; exit}')" "$work/lib/libmpi.so.40"
  mpi_run openmpi 2 env LD_LIBRARY_PATH="$work/lib" "$collctl" allreduce --vs mpi -b 8 -e 8
  is_code 3
  has_err "made rank 0 of 1 out of rank"
else
  say "skipped: the libmpi of another MPI than the launcher's (only $mpis is installed)"
fi

mkdir "$work/none"
for name in libmpi.so.40 libmpi.so.20 libmpi.so.12 libmpich.so.12 libmpi.so; do : >"$work/none/$name"; done
LD_LIBRARY_PATH=$work/none run run -n 2 allreduce --vs mpi
is_code 3
has_err "--vs mpi: MPI not found"
has_err "install Open MPI (openmpi-bin) or MPICH (mpich)"
conclude
