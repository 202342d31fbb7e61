// Lists of algorithms that were written for NCCL.
#include "runtime/request/choices.h"
#include "tests/catch.h"

namespace nccl_list_tests {

using namespace collctl::runtime;

namespace {

std::string both(const std::string& text) {
  const NcclList list = nccl_list(text);
  return list.ours + " | " + list.left_out;
}

}  // namespace

TEST_CASE("what only NCCL has is left out of its list, and named") {
  CHECK(both("Ring") == "Ring | ");
  CHECK(both("^NVLS") == " | nvls");
  CHECK(both("^NVLS,NVLSTree") == " | nvls,nvlstree");
  CHECK(both("^PAT,tree") == "^tree | pat");
  CHECK(both("^CollnetDirect,CollnetChain") == " | collnetdirect,collnetchain");
  CHECK(both("Ring,Tree,NVLS") == "ring,tree | nvls");
  CHECK(both("NVLS") == " | nvls");
  CHECK(both("allreduce:tree;broadcast:ring") == " | allreduce:tree;broadcast:ring");
  CHECK(both("ring,nvls;allgather:tree") == "ring | nvls;allgather:tree");
  CHECK(both("^tree;allreduce:ring") == "^tree | allreduce:ring");
}

TEST_CASE("what neither knows stays in the list and is an error") {
  CHECK(both("^NVLS,nonsense") == "^nonsense | nvls");
  CHECK_FALSE(parse_choices(nccl_list("^NVLS,nonsense").ours, "", 0).ok());
  CHECK_FALSE(parse_choices("nvls", "", 0).ok());
}

}  // namespace nccl_list_tests
