#include "base/bytes.h"
#include "base/env.h"
#include "tests/catch.h"

namespace bytes_tests {

using namespace collctl;

TEST_CASE("a reader never runs past the end", "[base]") {
  ByteWriter w;
  w.put(uint32_t(7)).put_string("abc");
  const Bytes bytes = w.take();
  ByteReader r(bytes);
  CHECK(r.get<uint32_t>() == 7);
  CHECK(r.get_string() == "abc");
  CHECK(r.ok());
  CHECK(r.at_end());
  CHECK(r.get<uint64_t>() == 0);
  CHECK_FALSE(r.ok());

  ByteReader lying(ByteView(bytes).subspan(0, bytes.size() - 1));
  lying.get<uint32_t>();
  CHECK(lying.get_string().empty());
  CHECK_FALSE(lying.ok());
}

TEST_CASE("sizes are read in binary units", "[base]") {
  CHECK(*base::parse_bytes("8") == 8);
  CHECK(*base::parse_bytes("1K") == 1024);
  CHECK(*base::parse_bytes("4MiB") == 4u << 20);
  CHECK(*base::parse_bytes("1g") == 1u << 30);
  for (const char* bad : {"", "x", "-1", "1X", "99999999999999999999", "9999999999G"})
    CHECK(base::parse_bytes(bad).ok() == false);
}

}  // namespace bytes_tests
