// Memory channels and the rate of modules, from a tree of files.
#include "base/host_memory.h"

#include "tests/catch.h"
#include "tests/unit/base/root_folder.h"

namespace host_memory_tests {

using namespace collctl::base;
using collctl::base::testing::Root;

namespace {

// A module of SMBIOS (type 17) of so many MB at this rate, with its texts.
std::string module(uint16_t size, uint16_t speed, uint8_t length = 0x28) {
  std::string text(length, '\0');
  text[0] = 17;
  text[1] = char(length);
  const auto put = [&](size_t at, uint16_t value) {
    if (at + 2 > text.size()) return;
    text[at] = char(value & 0xff);
    text[at + 1] = char(value >> 8);
  };
  put(0x0c, size);
  put(0x20, speed);
  return text + "DIMM A" + std::string(2, '\0');
}
const std::string kOther = std::string("\x04\x06\x01\x00\x02\x03", 6) + std::string(2, '\0');

double rate(const std::string& table) {
  const Root tree;
  tree.file("sys/firmware/dmi/tables/DMI", table);
  return memory_channels(tree.text()).MTps;
}

}  // namespace

TEST_CASE("the slowest module that is there counts", "[host_memory]") {
  CHECK(rate(kOther + module(0x7fff, 4800) + module(0x7fff, 4400)) == 4400);
  CHECK(rate(module(0, 2133) + module(16384, 3200)) == 3200);  // an empty slot
  CHECK(rate(module(16384, 0) + module(16384, 0xffff)) == 0);
  CHECK(rate(module(16384, 3200, 0x15)) == 0);  // an old table, without that
}

TEST_CASE("a table of modules that ends anywhere is no trouble", "[host_memory]") {
  const std::string whole = kOther + module(16384, 3200) + module(16384, 2933);
  for (size_t size = 0; size <= whole.size(); ++size) {
    const double found = rate(whole.substr(0, size));
    CHECK((found == 0 || found == 3200 || found == 2933));
  }
  CHECK(rate(std::string(4096, '\0')) == 0);
  CHECK(rate(std::string(4096, '\xff')) == 0);
  CHECK(rate(std::string("\x7f\x04\x00\x00\x00\x00", 6) + module(16384, 3200)) == 0);  // the end
}

TEST_CASE("channels count once, those without a module not at all", "[host_memory]") {
  const Root tree;
  const auto put = [&](const char* name, const char* location, const char* size) {
    const std::string at = std::string("sys/devices/system/edac/mc/") + name + "/";
    tree.file(at + "dimm_location", location);
    tree.file(at + "size", size);
  };
  put("mc0/dimm0", "channel 0 slot 0 \n", "16384\n");
  put("mc0/dimm1", "channel 0 slot 1 \n", "16384\n");
  put("mc0/dimm2", "channel 1 slot 0 \n", "0\n");
  put("mc1/rank3", "csrow 2 channel 1 \n", "16384\n");
  put("mc1/rank4", "somewhere\n", "16384\n");
  put("mc1/power", "channel 7 slot 0 \n", "16384\n");
  CHECK(memory_channels(tree.text()).channels == 2);
  CHECK(memory_channels(tree.text() + "/none").channels == 0);
}

}  // namespace host_memory_tests
