// Errors: which of two is told, and how they are named.
#include <set>

#include "base/result.h"
#include "tests/catch.h"

namespace result_tests {

using namespace collctl;

namespace {

// The worst first; the exit code of a job is that of its worst error.
constexpr ErrorCode kWorstFirst[] = {
    ErrorCode::interrupted, ErrorCode::usage,     ErrorCode::defect, ErrorCode::bad_data,
    ErrorCode::lost,        ErrorCode::deadline,  ErrorCode::launch, ErrorCode::unavailable,
    ErrorCode::failed,      ErrorCode::incomplete};

}  // namespace

TEST_CASE("of two errors one is always worse: no two weigh the same", "[base]") {
  for (size_t i = 0; i + 1 < std::size(kWorstFirst); ++i) {
    INFO(base::code_name(kWorstFirst[i]) << " and " << base::code_name(kWorstFirst[i + 1]));
    CHECK(base::severity(kWorstFirst[i]) > base::severity(kWorstFirst[i + 1]));
  }
  CHECK(base::severity(ErrorCode(99)) == base::severity(ErrorCode::defect));
}

TEST_CASE("every error code has a name of its own", "[base]") {
  std::set<std::string> names;
  for (const ErrorCode code : kWorstFirst) names.insert(base::code_name(code));
  CHECK(names.size() == std::size(kWorstFirst));
}

TEST_CASE("an error's chain begins with what was tried last", "[base]") {
  Error e(ErrorCode::lost, "closed");
  e.within("read").within("connect");
  CHECK(e.chain() == "connect: read: closed");
}

TEST_CASE("running out of descriptors comes with a remedy, other errors do not", "[base]") {
  const Error own = base::errno_error(ErrorCode::unavailable, "open x", EMFILE);
  CHECK(own.message == "open x: Too many open files");
  CHECK(own.hint.find("ulimit -n") != std::string::npos);
  CHECK(base::errno_error(ErrorCode::unavailable, "x", ENFILE).hint.find("fs.file-max") !=
        std::string::npos);
  CHECK(base::errno_error(ErrorCode::unavailable, "x", ENOENT).hint.empty());
}

}  // namespace result_tests
