// The hostfile reader against random and damaged input: it must answer, name a place within the
// text, and what it accepts must read the same when it is printed.
#include <random>

#include "base/format.h"
#include "launcher/hosts/hostfile.h"
#include "tests/catch.h"
#include "tests/how_much.h"

namespace hosts_hostfile_fuzz_tests {

using namespace collctl;
using namespace collctl::launcher;

namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t bound) {
  return size_t(random() % bound);
}

constexpr const char* kPieces[] = {"node01",
                                   "node[01-04]",
                                   "n[1-3,7:2]",
                                   "[1-2]x",
                                   "r[1-2]n[0-1]",
                                   "[::1]",
                                   "[fe80::1%e0]",
                                   "bob@",
                                   ":4",
                                   ":",
                                   " ",
                                   "\n",
                                   "\r\n",
                                   "\t",
                                   "slots=",
                                   "4",
                                   "0",
                                   "99999999",
                                   "max_slots=8",
                                   "user=al",
                                   "port=22",
                                   "key=k",
                                   "key=\"a b\"",
                                   "jump=h:22",
                                   "\"",
                                   "addr=1.2.3.4",
                                   "addr=::1",
                                   "devices=0,1",
                                   "nics=e",
                                   "devices=all",
                                   "rack=r",
                                   "path=/p",
                                   "binding=rr",
                                   "@g",
                                   "@g = a b[1-2]",
                                   "!",
                                   "!node01",
                                   "include h",
                                   "include",
                                   "slurm:",
                                   "slurm:a,b",
                                   "+n1",
                                   "#",
                                   " # note",
                                   ",",
                                   "-",
                                   "[",
                                   "]",
                                   "=",
                                   "\x01",
                                   "\xff",
                                   "a",
                                   "b slots=2"};

const std::string kGood[] = {
    "node[01-16]:4 user=al\nnode01:2 rack=r1\n!node07\n",
    "@left = n[1-4] [fe80::1%eth0]:2\n@left port=2222 key=\"my key\"\n",
    "node1 slots=2 max_slots=4\nnode2 slots = 3 binding=user:0,1\n",
    "slurm:sn[01-04,07] devices=0,1 nics=eth0,ib0 path=/opt/x jump=bob@gate:22\n"};

std::string mutated(Random& random) {
  std::string text;
  if (below(random, 2) == 0) {
    const size_t pieces = 1 + below(random, 14);
    for (size_t i = 0; i < pieces; ++i) text += kPieces[below(random, std::size(kPieces))];
  } else {
    text = kGood[below(random, std::size(kGood))];
  }
  for (size_t i = below(random, 5); i > 0; --i) {
    const size_t at = below(random, text.size() + 1);
    const std::string piece = kPieces[below(random, std::size(kPieces))];
    switch (below(random, 4)) {
      case 0:
        text.insert(at, piece);
        break;
      case 1:
        text.erase(at, 1 + below(random, 4));
        break;
      case 2:
        text.insert(at, 1, char(random() & 0xff));
        break;
      default:
        if (at < text.size()) text[at] = char(text[at] ^ char(1 << below(random, 8)));
    }
  }
  return text;
}

// "h:LINE:COLUMN: ..." with the place inside the text, or at its end.
bool within(const std::string& text, const std::string& message, const std::string& name) {
  if (message == name + ": no host is left" || message == name + ": there is no host in it")
    return true;
  if (message.compare(0, name.size() + 1, name + ":") != 0) return false;
  char* end = nullptr;
  const long line = std::strtol(message.c_str() + name.size() + 1, &end, 10);
  if (line < 1 || *end != ':') return false;
  const long column = std::strtol(end + 1, &end, 10);
  if (column < 1 || *end != ':') return false;
  size_t from = 0;
  for (long i = 1; i < line; ++i) {
    from = text.find('\n', from);
    if (from == std::string::npos) return false;
    ++from;
  }
  const size_t size = std::min(text.find('\n', from), text.size()) - from;
  return size_t(column) <= size + 1;
}

bool equal(const HostSpec& a, const HostSpec& b) {
  return a.name == b.name && a.user == b.user && a.port == b.port && a.key == b.key &&
         a.jump == b.jump && a.address == b.address && a.slots == b.slots &&
         a.max_slots == b.max_slots && a.devices == b.devices && a.device_list == b.device_list &&
         a.nics == b.nics && a.rack == b.rack && a.path == b.path;
}

std::string quoted_bytes(const std::string& text) {
  std::string shown;
  for (const char c : text) shown += format("\\x{:02x}", int(uint8_t(c)));
  return shown;
}

}  // namespace

TEST_CASE("any hostfile is read or refused with its place, and prints as it reads", "[hostfile]") {
  Random random(20240611);
  size_t accepted = 0, refused = 0;
  for (int i = 0; i < test::how_much(test::Sweep::hostfile_fuzz); ++i) {
    const std::string text = mutated(random);
    const bool option = below(random, 8) == 0;
    const std::string name = option ? "-H" : "h";
    const ReadFile read = [&](const std::string& path) -> Result<std::string> {
      if (path == "h") return text;
      return Error(ErrorCode::usage, path + ": No such file");
    };
    if (option && text.empty()) continue;
    const auto list = option ? read_hosts("", text, read) : read_hosts("h", "", read);
    if (!list.ok()) {
      ++refused;
      if (list.error().code == ErrorCode::usage && within(text, list.error().message, name))
        continue;
      FAIL(list.error().message << " for " << quoted_bytes(text));
    }
    ++accepted;
    const std::string printed = hostfile_text(*list);
    const auto again =
        read_hosts("h", "", [&](const std::string&) -> Result<std::string> { return printed; });
    bool same = again.ok() && again->hosts.size() == list->hosts.size();
    for (size_t h = 0; same && h < list->hosts.size(); ++h)
      same = equal(list->hosts[h], again->hosts[h]);
    if (!same) FAIL("prints otherwise: " << printed << " for " << quoted_bytes(text));
  }
  // Both ways are walked often enough to mean something.
  CHECK(accepted > size_t(test::share(test::Sweep::hostfile_fuzz, 10'000)));
  CHECK(refused > size_t(test::share(test::Sweep::hostfile_fuzz, 10'000)));
}

}  // namespace hosts_hostfile_fuzz_tests
