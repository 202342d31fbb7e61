// Where ranks compute, by what their hosts have: automatic is GPUs, or cores where there are none;
// whatever lies between is an error that names the host.
#include "cmd/job/device_choice.h"

#include "tests/catch.h"

namespace job_device_choice_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

HostGpus with_gpus(const std::string& host, int usable, int there) {
  HostGpus gpus;
  gpus.host = base::saved_host(host);
  gpus.usable = usable;
  gpus.there = there;
  if (usable == 0 && there > 0) gpus.why_not = "no NVIDIA driver is loaded";
  return gpus;
}

HostGpus told(HostGpus gpus, const std::string& visible) {
  gpus.visible = visible;
  return gpus;
}

std::string refused(const std::vector<HostGpus>& hosts, const std::string& at_fault) {
  const auto choice = choose_device(DeviceRequest::automatic, hosts);
  REQUIRE_FALSE(choice.ok());
  CHECK(choice.error().code == ErrorCode::unavailable);
  CHECK(choice.error().host == at_fault);
  CHECK(choice.error().hint.find("--device cpu") != std::string::npos);
  CHECK(choose_device(DeviceRequest::cpu, hosts)->why == "--device cpu");
  return choice.error().message;
}

std::string why_cores(const std::vector<HostGpus>& hosts) {
  const auto choice = choose_device(DeviceRequest::automatic, hosts);
  REQUIRE(choice.ok());
  CHECK_FALSE(choice->on_gpus);
  return choice->why;
}

}  // namespace

TEST_CASE("automatic: cores where no host has a GPU, or none is wanted", "[cmd]") {
  CHECK(why_cores({with_gpus("a", 0, 0)}) == "this host has no NVIDIA GPU");
  CHECK(why_cores({with_gpus("a", 0, 0), with_gpus("b", 0, 0)}) == "no host has an NVIDIA GPU");
  for (const char* none : {"", "-1", "NoDevFiles"})
    CHECK(why_cores({told(with_gpus("a", 0, 2), none), with_gpus("b", 0, 0)}) ==
          std::string("CUDA_VISIBLE_DEVICES=") + none + ", no GPU is to be used");
  HostGpus left_out = with_gpus("a", 0, 2);
  left_out.left_out = true;
  CHECK(why_cores({left_out}) == "the hostfile says devices=none");
}

TEST_CASE("automatic: GPUs where every host has usable ones", "[cmd]") {
  const auto choice =
      choose_device(DeviceRequest::automatic, {with_gpus("a", 2, 2), with_gpus("b", 8, 8)});
  REQUIRE(choice.ok());
  CHECK(choice->on_gpus);
  CHECK(choose_device(DeviceRequest::automatic, {told(with_gpus("a", 1, 2), "1")})->on_gpus);
}

TEST_CASE("automatic: GPUs that cannot be used, and hosts that disagree, are errors", "[cmd]") {
  CHECK(refused({with_gpus("a", 0, 0), with_gpus("b", 0, 2)}, "b") ==
        "host b: it has 2 NVIDIA GPUs, of which none can be used: no NVIDIA driver is loaded");
  CHECK(refused({told(with_gpus("a", 0, 2), "7")}, "a").find("host a: it has 2 NVIDIA GPUs") == 0);
  CHECK(refused({told(with_gpus("a", 0, 0), "0")}, "a") ==
        "host a: CUDA_VISIBLE_DEVICES=0, but it has no NVIDIA device");
  CHECK(refused({with_gpus("a", 2, 2), with_gpus("b", 0, 0)}, "b") ==
        "host a has 2 GPUs, host b has none for its ranks");
  CHECK(refused({told(with_gpus("a", 0, 1), "-1"), with_gpus("b", 1, 1)}, "a") ==
        "host b has 1 GPU, host a has none for its ranks: CUDA_VISIBLE_DEVICES=-1, no GPU is to "
        "be used");
  const auto mixed =
      choose_device(DeviceRequest::automatic, {with_gpus("a", 2, 2), with_gpus("b", 0, 0)});
  REQUIRE(!mixed);
  CHECK(mixed.error().cause == base::Cause::unlike);  // nobody's fault
}

TEST_CASE("GPU ranks do not go on after a loss, which is said before they start", "[cmd]") {
  LaunchOptions launch;
  const DeviceChoice gpus{.on_gpus = true, .why = ""}, cores{.on_gpus = false, .why = ""};
  CHECK(check_shrink(launch, gpus));
  launch.shrink = true;
  CHECK(check_shrink(launch, cores));
  const Status refused = check_shrink(launch, gpus);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::usage);
  CHECK(refused.error().message.find("--on-loss shrink with GPU ranks") == 0);
  CHECK(refused.error().hint.find("--device cpu") == 0);
}

}  // namespace job_device_choice_tests
