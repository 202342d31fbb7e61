// Where ranks compute, by the real binary: never on cores silently where GPUs were to be expected.
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/cli/run_binary.h"
#include "tests/skip.h"

namespace devices_tests {

using nlohmann::json;

namespace {

bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

const std::string kJob = "{} allreduce -n 2 -b 8 -e 8 --iters 1 --warmup 0 ";

// The command where PCI shows two NVIDIA devices: a GPU, and its audio function.
Ran beside_gpu(const std::string& command) {
  return shell(
      "at=$(mktemp -d); trap 'rm -r $at' EXIT; mkdir $at/0000:4b:00.0 $at/0000:4b:00.1\n"
      "for f in 0 1; do echo 0x10de >$at/0000:4b:00.$f/vendor; done\n"
      "echo 0x030200 >$at/0000:4b:00.0/class; echo 0x040300 >$at/0000:4b:00.1/class\n"
      "unshare -rm sh -c \"mount --bind $at /sys/bus/pci/devices && " +
      command + "\"");
}

}  // namespace

TEST_CASE("ranks on cores say why, in text and JSON", "[cli]") {
  CHECK(says(shell(kJob).out, "# on CPU cores: CUDA_VISIBLE_DEVICES=-1, no GPU is to be used\n"));
  CHECK(says(shell(kJob, "CUDA_VISIBLE_DEVICES=").out, "# on CPU cores: CUDA_VISIBLE_DEVICES=,"));
  CHECK(says(shell(kJob + "--device cpu").out, "# on CPU cores: --device cpu\n"));
  const json report = json::parse(shell(kJob + "--device cpu --json").out);
  CHECK(report["device"] == "cpu");
  CHECK(report["device_reason"] == "--device cpu");
  const json windows = json::parse(shell("{} window-test -n 2 --device cpu --json").out);
  CHECK(windows["device_reason"] == "--device cpu");
}

TEST_CASE("GPUs that cannot be used are an error, not CPU ranks", "[cli]") {
  const Ran named = shell(kJob, "CUDA_VISIBLE_DEVICES=99");
  CHECK(named.code == 3);
  CHECK(named.out == "");
  CHECK(says(named.err, "CUDA_VISIBLE_DEVICES=99"));
  CHECK(says(named.err, "--device cpu"));
}

TEST_CASE("a GPU on PCI without a driver is an error, not CPU ranks", "[cli][may_skip]") {
  if (shell("unshare -rm true").code != 0)
    return collctl::test::skip("a GPU on PCI is shown in a mount namespace, and none is allowed");
  const std::string unset = "env -u CUDA_VISIBLE_DEVICES ";
  const Ran broken = beside_gpu(unset + kJob);
  CHECK(broken.code == 3);
  CHECK(broken.out == "");
  CHECK(says(broken.err, ": it has 1 NVIDIA GPU, of which none can be used: "));
  CHECK(says(broken.err, "--device cpu"));
  CHECK(beside_gpu(unset + "{} window-test -n 2").code == 3);
  CHECK(beside_gpu(unset + kJob + "--device cpu").code == 0);
  CHECK(beside_gpu(kJob).code == 0);
}

}  // namespace devices_tests
