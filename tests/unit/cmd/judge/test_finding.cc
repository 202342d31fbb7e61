// Findings and culprits as people read them.
#include "cmd/judge/finding.h"

#include "tests/catch.h"

namespace judge_finding_tests {

using namespace collctl;
using namespace collctl::cmd;

TEST_CASE("a culprit's evidence does not begin with its own name again", "[judge]") {
  const Host host{HostId{3}, "node04"};
  const auto said = [&](SubjectKind kind, const std::string& name, const std::string& evidence) {
    return evidence_alone({kind, name, 1, evidence, false, host});
  };
  CHECK(said(SubjectKind::host, "node04", "node04: it is slow") == "it is slow");
  CHECK(said(SubjectKind::nic, "node04 eth0", "node04 eth0: has 5 %") == "has 5 %");
  const std::string gpu = "node04 0000:4b:00.0";
  CHECK(said(SubjectKind::gpu, gpu, "node04: GPU 0000:4b:00.0: wrong data") == "wrong data");
  CHECK(said(SubjectKind::gpu, gpu, gpu + ": wrong data") == "wrong data");
  // Another's name stays.
  CHECK(said(SubjectKind::gpu, gpu, "node04: GPU 0000:5b:00.0: odd") == "GPU 0000:5b:00.0: odd");
  CHECK(said(SubjectKind::host, "node04", "node04 eth0: odd") == "node04 eth0: odd");
}

}  // namespace judge_finding_tests
