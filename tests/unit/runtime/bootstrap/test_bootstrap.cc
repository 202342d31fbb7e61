#include <numeric>

#include "runtime/bootstrap/wire.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace bootstrap_bootstrap_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

ByteView view(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
std::string text_of(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

Status all_gathers(Bootstrap& b) {
  const auto n = size_t(b.size());
  for (const size_t words : {size_t(1), size_t(39), size_t(5000)}) {
    std::vector<uint64_t> data(n * words);
    for (size_t i = 0; i < words; ++i) data[size_t(b.rank()) * words + i] = size_t(b.rank()) + i;
    COLL_TRY(b.all_gather(data.data(), words * 8, soon()));
    std::vector<uint64_t> all(n * words);
    for (size_t r = 0; r < n; ++r) std::iota(&all[r * words], &all[r * words] + words, uint64_t(r));
    COLL_TRY(expect(data == all, "every rank's block"));
  }
  COLL_TRY(b.barrier(soon()));
  // Lengths that differ, some of them zero.
  const std::string mine(size_t(b.rank() % 3) * 1000, char('a' + b.rank() % 26));
  COLL_ASSIGN(const std::vector<Bytes> blobs, b.all_gather_blobs(view(mine), soon()));
  for (size_t r = 0; r < n; ++r)
    COLL_TRY(expect(text_of(blobs[r]) == std::string(r % 3 * 1000, char('a' + r % 26)),
                    "every rank's blob"));
  return {};
}

}  // namespace

TEST_CASE("all ranks gather, at every size", "[bootstrap]") {
  const int n = GENERATE(1, 2, 3, 4, 7, 8, 16, 17, 33);
  CAPTURE(n);
  Job job({n});
  require_all_ok(job.run([](Bootstrap& b) -> Status {
    COLL_TRY(all_gathers(b));
    return b.finish(soon());
  }));
}

TEST_CASE("the same over IPv6 and over several roots", "[bootstrap]") {
  const auto [n, roots, v6] = GENERATE(table<int, int, bool>(
      {{8, 1, true}, {4, 4, false}, {5, 2, false}, {33, 3, false}, {40, 20, false}, {1, 1, true}}));
  CAPTURE(n, roots, v6);
  Job job({n, roots, v6});
  require_all_ok(job.run([](Bootstrap& b) -> Status {
    COLL_TRY(all_gathers(b));
    return b.finish(soon());
  }));
}

TEST_CASE("a root without descriptors for all calls back", "[bootstrap]") {
  const int n = GENERATE(3, 33);
  JobShape shape{n};
  shape.lines_at_most = 1;
  Job job(shape);
  require_all_ok(job.run([](Bootstrap& b) -> Status {
    COLL_TRY(all_gathers(b));
    return b.finish(soon());
  }));
}

TEST_CASE("messages reach their rank and tag in any order", "[bootstrap]") {
  const int n = GENERATE(1, 2, 5);
  Job job({n});
  require_all_ok(job.run([n](Bootstrap& b) -> Status {
    const auto words = [&](int from, int to, uint32_t tag, int i) {
      return format("{}>{} {} #{}", from, to, tag, i);
    };
    for (const uint32_t tag : {7u, 9u})
      for (int peer = 0; peer < n; ++peer)
        for (int i = 0; i < 3; ++i)
          COLL_TRY(b.send(peer, tag, view(words(b.rank(), peer, tag, i)), soon()));
    for (const uint32_t tag : {9u, 7u})
      for (int peer = n - 1; peer >= 0; --peer)
        for (int i = 0; i < 3; ++i) {
          COLL_ASSIGN(const Bytes got, b.recv(peer, tag, soon()));
          COLL_TRY(expect(text_of(got) == words(peer, b.rank(), tag, i), "the message in order"));
        }
    return b.finish(soon());
  }));
}

TEST_CASE("two ranks may send much to each other before they receive", "[bootstrap]") {
  Job job({2});
  require_all_ok(job.run([](Bootstrap& b) -> Status {
    const std::string much(size_t(24) << 20, char('A' + b.rank()));
    COLL_TRY(b.send(1 - b.rank(), 1, view(much), soon()));
    COLL_ASSIGN(const Bytes got, b.recv(1 - b.rank(), 1, soon()));
    COLL_TRY(expect(got.size() == much.size() && got.back() == 'A' + 1 - b.rank(), "all of it"));
    return b.finish(soon());
  }));
}

TEST_CASE("a message longer than the bound is refused", "[bootstrap]") {
  Job job({2});
  const auto outcomes = job.run([](Bootstrap& b) -> Status {
    const Bytes much((size_t(64) << 20) + 1);
    return b.rank() == 0 ? b.send(1, 1, much, soon()) : Status();
  });
  REQUIRE_FALSE(outcomes[0].ok());
  CHECK(outcomes[0].error().code == ErrorCode::usage);
}

TEST_CASE("node-local calls stay among the members", "[bootstrap]") {
  const int n = GENERATE(4, 7, 40);
  Job job({n});
  require_all_ok(job.run([n](Bootstrap& b) -> Status {
    std::vector<int> members;  // even and odd ranks: two hosts
    for (int r = b.rank() % 2; r < n; r += 2) members.push_back(r);
    b.set_local_ranks(members);
    for (int round = 0; round < 3; ++round) {
      std::vector<uint32_t> data(members.size());
      const auto at = std::find(members.begin(), members.end(), b.rank()) - members.begin();
      data[size_t(at)] = uint32_t(b.rank() + round);
      COLL_TRY(b.local_all_gather(data.data(), 4, soon()));
      for (size_t i = 0; i < members.size(); ++i)
        COLL_TRY(expect(data[i] == uint32_t(members[i] + round), "the members' blocks"));
      COLL_TRY(b.local_barrier(soon()));
    }
    return b.finish(soon());
  }));
}

TEST_CASE("descriptors pass between ranks, also unexpected ones", "[bootstrap]") {
  const int n = GENERATE(1, 2, 4);
  Job job({n});
  require_all_ok(job.run([n](Bootstrap& b) -> Status {
    for (const uint64_t tag : {uint64_t(1), uint64_t(1) << 40})
      for (int peer = 0; peer < n; ++peer) {
        const Fd memory(::memfd_create("test", MFD_CLOEXEC));
        const std::string words = format("{} {} {}", b.rank(), peer, tag);
        COLL_TRY(
            expect(::pwrite(memory.get(), words.data(), words.size(), 0) == ssize_t(words.size()),
                   "memory"));
        COLL_TRY(b.send_fd(peer, tag, memory.get(), soon()));
      }
    for (const uint64_t tag : {uint64_t(1) << 40, uint64_t(1)})
      for (int peer = n - 1; peer >= 0; --peer) {
        COLL_ASSIGN(const Fd fd, b.recv_fd(peer, tag, soon()));
        char buffer[64] = {};
        COLL_TRY(expect(::pread(fd.get(), buffer, sizeof buffer - 1, 0) > 0, "contents"));
        COLL_TRY(expect(buffer == format("{} {} {}", peer, b.rank(), tag), "the right one"));
      }
    return b.finish(soon());
  }));
}

TEST_CASE("groups and trees cover every rank once", "[bootstrap]") {
  using namespace runtime::boot;
  for (int size = 1; size <= 70; ++size)
    for (int groups = 1; groups <= std::min(size, 20); ++groups) {
      int edges = 0;
      for (int r = 0; r < size; ++r) {
        const int g = group_of(r, groups, size);
        REQUIRE(group_begin(g, groups, size) <= r);
        REQUIRE(r < group_begin(g + 1, groups, size));
        for (const int child : tree_children(r, groups, size)) {
          REQUIRE(tree_parent(child, groups, size) == r);
          ++edges;
        }
        REQUIRE(tree_children(r, groups, size).size() <= 2 * size_t(kTreeArity));
      }
      REQUIRE(edges == size - 1);
      REQUIRE(group_begin(groups, groups, size) == size);
    }
}

TEST_CASE("lists of ranks are short and name hosts", "[bootstrap]") {
  using runtime::boot::rank_list;
  CHECK(rank_list({3, 11}, {"", "", "", "b1"}) == "rank 3 (host b1), rank 11");
  CHECK(rank_list({1, 4, 5, 6, 7, 9}, {}) == "rank 1, ranks 4-7, rank 9");
  std::vector<int> many;
  for (int r = 0; r < 100; r += 2) many.push_back(r);
  CHECK(rank_list(many, {}).find("and 42 more") != std::string::npos);
}

TEST_CASE("malformed frames and greetings are refused, never read past", "[bootstrap]") {
  using namespace runtime::boot;
  CheckIn c;
  c.rank = 1;
  c.size = 2;
  c.roots = {loopback(), loopback(true)};
  c.host = "b1";
  c.peers = c.calls = loopback();
  const Bytes good = encoded(c);
  REQUIRE(decoded<CheckIn>(good).ok());
  CHECK(decoded<CheckIn>(good)->roots[1].family() == AF_INET6);
  for (size_t cut = 0; cut < good.size(); ++cut)
    CHECK_FALSE(decoded<CheckIn>(ByteView(good).subspan(0, cut)).ok());
  Error e(ErrorCode::deadline, "late", "wait");
  e.rank = 3;
  e.host = "b3";
  e.from = 2;
  e.cause = Cause::late;
  const Bytes error = encode_brief(Error(e).within("outer"));
  CHECK(decode_error(error).message == "outer: late");
  CHECK(decode_error(error).rank == 3);
  CHECK(decode_error(error).from == 2);
  CHECK(decode_error(error).cause == Cause::late);
  CHECK(decode_error(error).hint == "wait");
  CHECK(decode_error(ByteView(error).subspan(0, 9)).code == ErrorCode::lost);
}

}  // namespace bootstrap_bootstrap_tests
