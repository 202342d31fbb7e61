// Memory of GPUs with a name for other hosts, over the fake driver: when there is one, when not and
// why, and what is taken from others.
#include <cstring>

#include "base/env.h"
#include "base/format.h"
#include "tests/catch.h"
#include "tests/fake_drivers/nvml_control.h"
#include "tests/unit/transport/rig.h"

namespace fabric_tests {

using namespace collctl;
using namespace collctl::test;
using transport::Device;
using transport::DeviceMemory;
using transport::DevicePointer;
using transport::FabricName;
using transport::FlatMemory;

namespace {

constexpr uint64_t kPages = 4 << 20;

// Fake GPUs of one NVLink domain, whose NVML says so.
struct Domain {
  explicit Domain(const fake_cuda::Setup& setup, uint8_t cluster = 7) : gpus(setup) {
    for (int i = 0; i < setup.devices; ++i)
      fake_nvml::set_fabric(format("0000:{:02x}:00.0", 0x10 + i), cluster, 3);
  }
  ~Domain() { fake_nvml::clear_fabric(); }
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  FakeGpus gpus;
};

DevicePointer opened(int ordinal) {
  auto device = Device::open(ordinal);
  INFO((device ? "" : device.error().chain()));
  REQUIRE(device);
  return *device;
}

// A GPU that cannot do it still passes descriptors, and says why no more.
void check_host_only(const char* why) {
  {
    const DevicePointer device = opened(0);
    CHECK_FALSE(device->facts().fabric.has_value());
    CHECK(transport::find_fabric(*device).why_not.find(why) != std::string::npos);
    auto memory = DeviceMemory::make(device, 64, true);
    REQUIRE(memory);
    CHECK(memory->export_fd().ok());
    CHECK(memory->export_fabric().error().code == ErrorCode::unavailable);
  }
  const base::ScopedVariable required("COLLCTL_MNNVL_ENABLE", "1");
  const auto refused = Device::open(0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message.find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("memory of a GPU is mapped by its name for other hosts") {
  const Domain domain({.devices = 2, .fabric = true});
  const DevicePointer a = opened(0), b = opened(1);
  REQUIRE(a->facts().fabric.has_value());
  CHECK(a->facts().fabric == b->facts().fabric);
  CHECK(a->facts().fabric->clique == 3);
  CHECK(a->facts().fabric->cluster[15] == 7);

  auto memory = DeviceMemory::make(a, kPages, true);
  REQUIRE(memory);
  memory->data()[kPages - 1] = 41;
  const auto name = memory->export_fabric();
  REQUIRE(name);
  CHECK(memory->export_fd().ok());  // inside the host as ever

  auto seen = DeviceMemory::import_fabric(b, *name, kPages);
  REQUIRE(seen);
  CHECK(seen->data()[kPages - 1] == 41);
  CHECK(seen->held_bytes() == 0);
  auto flat = FlatMemory::reserve(b, 72, kPages);  // as many as a rack has
  REQUIRE(flat);
  REQUIRE(flat->map_fabric(71, *name, kPages));
  CHECK(flat->data()[71 * flat->stride() + kPages - 1] == 41);
  flat->data()[71 * flat->stride()] = 42;
  CHECK(memory->data()[0] == 42);

  // More than there is; names of nothing; one that the driver refuses.
  CHECK_FALSE(DeviceMemory::import_fabric(b, *name, 2 * kPages));
  CHECK_FALSE(flat->map_fabric(0, *name, kPages, kPages));
  FabricName none{};
  CHECK_FALSE(DeviceMemory::import_fabric(b, none, kPages));
  std::memset(none.bytes, 0xff, sizeof none.bytes);
  CHECK_FALSE(flat->map_fabric(0, none, kPages));
  fake_cuda::fail("cuMemImportFromShareableHandle", 800);
  const auto refused = DeviceMemory::import_fabric(b, *name, kPages);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("by its fabric handle") != std::string::npos);
  CHECK(refused.error().hint.find("imex") != std::string::npos);
}

TEST_CASE("a GPU without names for other hosts says why and works inside its host") {
  SECTION("the driver has none") {
    const Domain domain({.devices = 1});
    check_host_only("the driver or the GPU has no fabric handles");
  }
  SECTION("no channel for this process") {
    const Domain domain({.devices = 1, .fabric = true, .imex = false});
    check_host_only("no IMEX channel");
  }
  SECTION("NVLink ends at this host") {
    const Domain domain({.devices = 1, .fabric = true}, 0);
    check_host_only("NVML does not report it");
  }
  SECTION("NVML knows nothing of it") {
    const FakeGpus gpus({.devices = 1, .fabric = true});
    check_host_only("NVML does not report it");
  }
  SECTION("switched off") {
    const base::ScopedVariable off("COLLCTL_MNNVL_ENABLE", "0");
    const Domain domain({.devices = 1, .fabric = true});
    const DevicePointer device = opened(0);
    CHECK_FALSE(device->facts().fabric.has_value());
    CHECK(DeviceMemory::make(device, 64, true)->export_fabric().error().code ==
          ErrorCode::unavailable);
  }
}

TEST_CASE("memory that the driver gives without a name is still good inside the host") {
  const Domain domain({.devices = 1, .fabric = true});
  const DevicePointer device = opened(0);
  fake_cuda::fail("cuMemCreate", 801);
  auto without = DeviceMemory::make(device, kPages, true);
  REQUIRE(without);
  CHECK(without->export_fd().ok());
  const auto name = without->export_fabric();
  REQUIRE_FALSE(name.ok());
  CHECK(name.error().code == ErrorCode::unavailable);
  CHECK(name.error().message.find("that other hosts cannot map") != std::string::npos);
  auto with = DeviceMemory::make(device, kPages, true);
  REQUIRE(with);
  CHECK(with->export_fabric().ok());
  // Too much is too much, with a name and without.
  fake_cuda::fail("cuMemCreate", 2);
  CHECK(DeviceMemory::make(device, kPages, true).error().message.find("are free") !=
        std::string::npos);
}

}  // namespace fabric_tests
