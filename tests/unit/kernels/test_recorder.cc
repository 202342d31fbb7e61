// The recorder's events, what the interpreter's data does, and where locate finds an element.
#include <string>

#include "kernels/record/expect.h"
#include "kernels/record/locate.h"
#include "kernels/record/value.h"
#include "tests/unit/kernels/proof_case.h"

namespace recorder_tests {

using namespace proofs;

namespace {

std::vector<std::string> verbs(const std::vector<Event>& events) {
  std::vector<std::string> list;
  for (const Event& e : events) list.push_back(name_of(e.verb));
  return list;
}
using Verbs = std::vector<std::string>;

uint64_t element(uint64_t address, uint64_t base) {
  return (address - base) / 4;
}

}  // namespace

TEST_CASE("the ring all-reduce of four is the picture of its header") {
  Job job({});  // 4 ranks, 64 float32: chunks a b c d of 16
  const auto schedules = job.schedules();
  const std::vector<Event>& mine = schedules[0].parts[0];
  CHECK(verbs(mine) == Verbs{"send", "recv_reduce_send", "recv_reduce_send",
                             "recv_reduce_copy_send", "recv_copy_send", "recv_copy_send", "recv"});
  const uint64_t chunks[] = {3, 2, 1, 0, 3, 2, 1};
  for (size_t i = 0; i < mine.size(); ++i) {
    const VerbShape shape = shape_of(mine[i].verb);
    if (shape.reads) CHECK(element(mine[i].from, kInput) == 16 * chunks[i]);
    if (shape.writes) CHECK(element(mine[i].to, kOutput) == 16 * chunks[i]);
    CHECK(mine[i].n == 16);
    CHECK(mine[i].post == (i == 3));
    CHECK(mine[i].recv[0] == (shape.receives ? 3 : -1));
    CHECK(mine[i].send[0] == (shape.sends ? 1 : -1));
  }
}

TEST_CASE("tree split records two parts, its root one") {
  Job job({.algorithm = AlgorithmId::tree_split, .nranks = 4, .count = 40});
  const auto schedules = job.schedules();
  REQUIRE(schedules[0].parts.size() == 1);
  CHECK(verbs(schedules[0].parts[0]) ==
        Verbs{"recv_reduce_copy_send", "recv_reduce_copy_send", "recv_reduce_copy_send"});
  REQUIRE(schedules[2].parts.size() == 2);
  CHECK(verbs(schedules[2].parts[0]) == Verbs(3, "recv_reduce_send"));
  CHECK(verbs(schedules[2].parts[1]) == Verbs(3, "recv_copy_send"));
  CHECK(schedules[2].parts[0][0].recv[0] == 1);
  CHECK(schedules[2].parts[0][0].recv[1] == 3);
  CHECK(schedules[2].parts[1][0].send[1] == 3);
  CHECK(verbs(schedules[1].parts[1]) == Verbs(3, "recv"));
}

TEST_CASE("a receive that nobody sends gets nothing, whatever lies behind the sender's steps") {
  Job job({.algorithm = AlgorithmId::pairwise, .collective = Collective::send_recv, .nranks = 2});
  const auto received = [&] {
    const auto schedules = job.schedules();
    const std::vector<Memory> memories = outputs_of(schedules, 2);
    Pieces pieces;
    return memories[0].read(kOutput, 64 * sizeof(float), pieces);
  };
  CHECK(received());
  job.works[1].pair_count = 0;
  CHECK_FALSE(received());
}

TEST_CASE("symbolic memory splits, overwrites and compares by ranges") {
  Memory memory, wanted;
  memory.write(100, {40, {0, 1, 0, false}, false});
  Pieces read;
  CHECK(memory.read(108, 8, read));
  REQUIRE(read.size() == 1);
  CHECK(read[0].value.index == 8);
  CHECK_FALSE(memory.read(96, 8, read));
  CHECK_FALSE(memory.read(136, 8, read));
  CHECK_FALSE(memory.read(500, 1, read));

  memory.write(112, {8, {900, 2, 0, false}, false});
  read.clear();
  CHECK(memory.read(100, 40, read));
  REQUIRE(read.size() == 3);
  CHECK(read[1].value.index == 900);
  CHECK(read[2].value.index == 20);
  CHECK(read[2].bytes == 20);

  wanted.write(100, {12, {0, 1, 7, false}, false});
  CHECK(memory.difference(wanted, 4).find("where nothing may be written") != std::string::npos);
  wanted.write(112, {8, {900, 2, 0, false}, false});
  wanted.write(120, {20, {20, 1, 0, false}, false});
  CHECK(memory.difference(wanted, 4).empty());
  wanted.write(136, {8, {36, 1, 0, false}, false});
  CHECK(memory.difference(wanted, 4).find("has no element 10 of rank 0") != std::string::npos);
  memory.write(136, {8, {36, 3, 0, true}, false});
  CHECK(memory.difference(wanted, 4).find("element 9 of rank 0,1 in final form instead of") !=
        std::string::npos);
}

TEST_CASE("symbolic memory tells a second write of the operation from the first") {
  Memory memory;
  CHECK(memory.write(0, {40, {0, 1, 0, false}, false}));
  CHECK(memory.write(8, {8, {8, 3, 0, false}, true}));
  CHECK(memory.write(16, {8, {16, 3, 0, false}, true}));
  CHECK_FALSE(memory.write(12, {8, {12, 3, 0, false}, true}));
}

TEST_CASE("sums add up only what belongs together, once") {
  Pieces acc = {{16, {0, 1, 0, false}, false}};
  CHECK(add_pieces(acc, {{4, {0, 2, 3, false}, false}, {12, {4, 2, 1, false}, false}}, 4).empty());
  REQUIRE(acc.size() == 2);
  CHECK(acc[0].value.ranks == 3);
  CHECK(acc[0].value.hops == 3);
  CHECK(acc[1].value.index == 4);
  CHECK(add_pieces(acc, {{16, {0, 4, 0, false}, false}}, 4).empty());
  CHECK(acc[1].value.ranks == 7);
  CHECK(add_pieces(acc, {{16, {0, 2, 0, false}, false}}, 4)
            .find("rank 1 to element 0 is added twice") != std::string::npos);
  CHECK(add_pieces(acc, {{16, {4, 8, 0, false}, false}}, 4).find("adds element 1 of rank 3") !=
        std::string::npos);
  acc[0].value.posted = true;
  CHECK(add_pieces(acc, {{16, {0, 8, 0, false}, false}}, 4).find("final form") !=
        std::string::npos);
}

TEST_CASE("locate names the verb that wrote an element last") {
  Job job(
      {.count = 80, .ring_stride = 3});  // positions 0 1 2 3 = ranks 0 3 2 1; loops of 64 and 16
  const auto at = locate(job.works[0], 33);
  REQUIRE(at);
  CHECK(at->chunk == 2);
  CHECK(at->first == 32);
  CHECK(at->elements == 16);
  CHECK(std::string(at->verb) == "recv_copy_send");
  CHECK(at->step == 4);
  CHECK(at->peers == std::vector<int>{1});
  const auto own = locate(job.works[0], 0);
  REQUIRE(own);
  CHECK(std::string(own->verb) == "recv_reduce_copy_send");
  CHECK(own->step == 2);
  const auto tail = locate(job.works[0], 79);  // 4 elements a chunk in the last loop
  REQUIRE(tail);
  CHECK(tail->first == 76);
  CHECK(tail->chunk == 7);
  CHECK_FALSE(locate(job.works[0], 80));

  const auto enters = locate_input(job.works[0], 20);
  REQUIRE(enters);
  CHECK(std::string(enters->verb) == "recv_reduce_send");
  CHECK(enters->step == 1);
  CHECK(enters->peers == std::vector<int>{1});
}

TEST_CASE("locate finds every element in exactly the channel whose part it is") {
  for (const AlgorithmRow& row : algorithms()) {
    for (Collective collective : served_by(row)) {
      const Case c{.algorithm = row.id,
                   .collective = collective,
                   .nranks = 5,
                   .count = 101,
                   .root = 3,
                   .channels = 3};
      Job job(c);
      const bool wide = collective == Collective::all_gather || collective == Collective::gather ||
                        collective == Collective::all_to_all;
      const uint64_t elements = (wide ? 5 : 1) * c.count;
      for (uint64_t e = 0; e < elements; e += 7) {
        int writers = 0;
        for (const Work& work : job.works) {
          if (work.rank != 3) continue;
          const auto at = locate(work, e);
          if (!at) continue;
          ++writers;
          CHECK(at->channel == work.channel);
          CHECK(at->first <= e);
          CHECK(e < at->first + at->elements);
        }
        INFO(row.name << " " << name_of(collective) << " element " << e);
        CHECK(writers == 1);
      }
      CHECK_FALSE(locate(job.works[3], elements));
    }
  }
  Job job({.collective = Collective::reduce, .root = 2});
  CHECK_FALSE(locate(job.works[1], 0));  // no output here
  CHECK(locate_input(job.works[1], 0));
}

}  // namespace recorder_tests
