// The shapes of PMIx that are declared by hand, against the installed header; and what the client
// says where there is no engine. (With an engine: tests/e2e/adopt_mpi.sh.)
#include "launcher/adopt/pmix.h"
#include "tests/catch.h"

#ifdef COLLCTL_HAVE_PMIX
#include <pmix.h>
#endif

namespace adopt_pmix_tests {

using namespace collctl;
using namespace collctl::launcher;

#ifdef COLLCTL_HAVE_PMIX
TEST_CASE("PMIx: sizes, places and numbers are those of the header") {
  CHECK(sizeof(pmix::Proc) == sizeof(pmix_proc_t));
  CHECK(offsetof(pmix::Proc, rank) == offsetof(pmix_proc_t, rank));
  CHECK(sizeof(pmix::Value) == sizeof(pmix_value_t));
  CHECK(offsetof(pmix::Value, data) == offsetof(pmix_value_t, data));
  CHECK(sizeof(pmix::Value::type) == sizeof(pmix_value_t::type));
  CHECK(sizeof(pmix::Info) == sizeof(pmix_info_t));
  CHECK(offsetof(pmix::Info, flags) == offsetof(pmix_info_t, flags));
  CHECK(offsetof(pmix::Info, value) == offsetof(pmix_info_t, value));
  CHECK(pmix::kNamespaceBytes == PMIX_MAX_NSLEN + 1);
  CHECK(pmix::kKeyBytes == PMIX_MAX_KEYLEN + 1);
  CHECK(pmix::kRankWildcard == PMIX_RANK_WILDCARD);
  CHECK(pmix::kSuccess == PMIX_SUCCESS);
  CHECK(pmix::kScopeGlobal == PMIX_GLOBAL);
  CHECK(sizeof(pmix_scope_t) == 1);
  CHECK(sizeof(pmix_status_t) == sizeof(int));
  CHECK(pmix::kTypeBool == PMIX_BOOL);
  CHECK(pmix::kTypeString == PMIX_STRING);
  CHECK(pmix::kTypeInt == PMIX_INT);
  CHECK(pmix::kTypeUint32 == PMIX_UINT32);
  CHECK(std::string(pmix::kJobSize) == PMIX_JOB_SIZE);
  CHECK(std::string(pmix::kCollect) == PMIX_COLLECT_DATA);
  CHECK(std::string(pmix::kTimeout) == PMIX_TIMEOUT);
}
#endif

// Memory that libpmix itself loses when it finds no engine is not ours to free. Asked for by
// LeakSanitizer.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpmix.so\n";
}

TEST_CASE("PMIx: without an engine's variables there is nothing to open") {
  const auto client =
      PmixClient::open([](const char*) { return std::nullopt; }, Deadline::after_seconds(5));
  REQUIRE_FALSE(client.ok());
  CHECK(client.error().code == ErrorCode::usage);
}

TEST_CASE("PMIx: variables without their engine are an error, not a wait") {
  const auto client =
      PmixClient::open([](const char*) { return std::string("1"); }, Deadline::after_seconds(5));
  REQUIRE_FALSE(client.ok());
  CHECK(client.error().code == ErrorCode::unavailable);
}

}  // namespace adopt_pmix_tests
