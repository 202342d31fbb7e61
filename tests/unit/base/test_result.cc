// Errors: which of two is told, and how they are named.
#include <memory>
#include <set>
#include <stdexcept>

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

Result<std::shared_ptr<int>> shared(const std::shared_ptr<int>& value, bool fails) {
  if (fails) return Error(ErrorCode::lost, "gone");
  return value;
}
Result<int> doubled(const std::shared_ptr<int>& value, bool fails) {
  COLL_ASSIGN(const auto got, shared(value, fails));
  return *got * 2;
}
Status tried(const std::shared_ptr<int>& value, bool fails) {
  COLL_TRY_IN(doubled(value, fails), "double");
  return {};
}

}  // namespace

TEST_CASE("a result is its value or its error, also when it has moved", "[base]") {
  const auto value = std::make_shared<int>(21);
  CHECK(*doubled(value, false) == 42);
  CHECK(tried(value, false).ok());
  const Status failed = tried(value, true);
  REQUIRE(!failed);
  CHECK(failed.error().chain() == "double: gone");
  CHECK(failed.error().code == ErrorCode::lost);
  {
    Result<std::shared_ptr<int>> first = shared(value, false), second = shared(value, true);
    CHECK(value.use_count() == 2);
    std::swap(first, second);
    REQUIRE((!first && second));
    CHECK(first.error().message == "gone");
    CHECK(*second == value);
    CHECK(value.use_count() == 2);
    first = std::move(second);
    CHECK(*first == value);
    CHECK(value.use_count() == 2);
  }
  CHECK(value.use_count() == 1);
}

TEST_CASE("a value is not to be had of an error, nor an error of a value", "[base]") {
  const Result<int> good = 1, bad = Error(ErrorCode::failed, "no");
  CHECK_THROWS_AS(*bad, std::logic_error);
  CHECK_THROWS_AS(good.error(), std::logic_error);
}

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
