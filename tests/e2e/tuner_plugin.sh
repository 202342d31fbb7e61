#!/bin/bash
# Jobs and plans with tuner plugins (tests/fake_plugins/tuner.h).
# Usage: tuner_plugin.sh PATH/collctl FOLDER-OF-THE-TESTS'-PLUGINS. Exit 1 when a case failed.
set -u
. "$(dirname "$0")/plugin_common.sh"
plugins=$(realpath "$2")
lacks_out() { ! grep -qF -- "$1" "$out" || fail "standard output has '$1'"; }
one() {
  env "${all[@]}" timeout -k 5 240 "$collctl" "$@" </dev/null >"$out" 2>"$err"
  codes="$? "
}
bench=(allreduce -b 4 -e 256K -f 16 --json)

for version in 3 6; do # the oldest and the newest; all of them: test_tuner
  case_is "a job with a tuner of version $version"
  all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake$version.so" FAKE_TUNER_PICK=1:0)
  join "${bench[@]}" -v
  ends_with "0 0 0 0 "
  right
  has_err "TUNER/Plugin : version $version begins"
  has_err "TUNER/Plugin : Using tuner plugin 'Scales' ("
  has_err "Tuning : allreduce of 1024 bytes by ring/ll, 1 channels: tuner: Ring/LL; ours: one-shot/simple, 1 channel, "
  has_out "\"tuner_plugin\":{\"name\":\"Scales\",\"version\":$version,"
  has_out '"tuner":{"followed":true,"wish":"Ring/LL","own":{"algorithm":"one-shot",'
  has_out '"algorithm":"ring","protocol":"ll"'
  lacks_out '"algorithm":"ring","protocol":"simple"'
done

case_is "by NCCL's variable and by name"
cp "$plugins/libnccl-tuner-fake5.so" "$work/libnccl-tuner-mine.so"
for name in mine libnccl-tuner-mine.so "$work/libnccl-tuner-mine.so"; do
  all=("LD_LIBRARY_PATH=$work" "NCCL_TUNER_PLUGIN=$name" FAKE_TUNER_PICK=1:2)
  one run -n 2 "${bench[@]}"
  ends_with "0 "
  right
  has_out '"algorithm":"ring","protocol":"simple"'
done
all=("LD_LIBRARY_PATH=$work" NCCL_TUNER_PLUGIN=nowhere)
one run -n 2 "${bench[@]}"
ends_with "3 "
has_err "NCCL_TUNER_PLUGIN=nowhere: libnccl-tuner-nowhere.so: "
has_err "NCCL_TUNER_PLUGIN=none goes without it"

case_is "the tuner of a network's plugin"
all=("COLLCTL_NET_PLUGIN=$plugins/libnccl-net-tuned12.so" FAKE_TUNER_PICK=0:2)
join "${bench[@]}" --transport net
ends_with "0 0 0 0 "
right
has_out '"via":"NET/Wires/'
has_out '"wish":"Tree/Simple"'
all+=(COLLCTL_TUNER_PLUGIN=none)
join "${bench[@]}" --transport net
ends_with "0 0 0 0 "
lacks_out '"tuner'

case_is "a tuner that answers differently on one rank is named"
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake5.so" FAKE_TUNER_PICK=1:2)
odd=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake5.so" FAKE_TUNER_PICK=1:0)
odd_rank=2
join "${bench[@]}"
ends_with "2 2 2 2 "
has_err "answers differently on the ranks: allreduce of 4 bytes: ring/simple, 1 channels (tuner: Ring/Simple) on rank 0 ("
has_err "ring/ll, 1 channels (tuner: Ring/LL) on rank 2 ("

case_is "a rank without the tuner is named"
odd=(COLLCTL_DEBUG=WARN)
join "${bench[@]}"
ends_with "2 2 2 2 "
has_err "has the tuner plugin 'Scales' version 5, rank 2 ("
has_err ") has none"

case_is "a call that fails on one rank ends the job with its word"
odd=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake5.so" FAKE_TUNER_FAIL=getCollInfo)
join "${bench[@]}"
ends_with "3 3 3 3 "
has_err "getCollInfo failed: system error (2); it said: getCollInfo was to fail"
odd=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake5.so" FAKE_TUNER_FAIL=init)
join "${bench[@]}"
ends_with "3 3 3 3 "
has_err "init failed: system error (2); it said: init was to fail"
odd_rank=

case_is "what it wants and cannot have"
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake6.so" FAKE_TUNER_PICK=4:2)
one run -n 2 "${bench[@]}"
ends_with "3 "
has_out "it wants NVLS/Simple: there is no reduction by NVLink multicast here"

case_is "it is told of buffers in windows, and goes before what is direct between them"
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so")
one run -n 2 allreduce -b 256K -e 256K --window --json -v
ends_with "0 "
right
has_err "TUNER/Plugin : registered buffers"
has_out '"straight":true'
all+=(FAKE_TUNER_PICK=1:2)
one run -n 2 allreduce -b 256K -e 256K --window --json
ends_with "0 "
right
has_out '"algorithm":"ring","protocol":"simple"'
has_out '"straight":false'

case_is "each group of --split has a tuner of its own"
one run -n 4 allreduce -b 1K -e 1K --split 2 --json -v
ends_with "0 "
right
[ "$(grep -c "TUNER/Plugin : version 4 begins" "$err")" = 8 ] || fail "not twice for each of four ranks"

case_is "a plan says its choice and ours"
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so" FAKE_TUNER_PICK=1:2)
one plan --nodes 2 --bytes 1M --wide
ends_with "0 "
has_out "# tuner plugin 'Scales' ("
has_out "ring simple; tuner: Ring/Simple; ours: "
one plan --nodes 2 --bytes 1M --json
has_out '"tuner_plugin":{"name":"Scales","version":4,"library":"'
has_out '"tuner":{"followed":true,"wish":"Ring/Simple","own":{"algorithm":"'
all=("COLLCTL_TUNER_PLUGIN=$plugins/libnccl-tuner-fake4.so" FAKE_TUNER_PICK=6:2)
one plan --op allgather --bytes 1M
ends_with "3 "
has_err "it wants PAT/Simple: there is no PAT here"

conclude
