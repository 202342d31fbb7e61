// Which error of a rank stays its first, and whom it waited for then.
#include "runtime/communicator/first_error.h"

#include "base/peer_closed.h"
#include "tests/catch.h"

namespace communicator_first_error_tests {

using namespace collctl;
using namespace collctl::runtime;

namespace {

Error of_first(const FirstError& errors) {
  const Status status = errors.status();
  return status ? Error(ErrorCode::defect, "there is none") : status.error();
}

}  // namespace

TEST_CASE("what this rank cannot reach explains what it has heard, and nothing else does") {
  const Error way = base::cannot_reach("rank 3 (host a)", "rank 4 (host b)", 5);
  for (const ErrorCode heard : {ErrorCode::deadline, ErrorCode::lost}) {
    FirstError errors(3);
    errors.fail(Error(heard, "rank 1 aborted: it waits for rank 0"), false);
    errors.fail(Error(ErrorCode::deadline, "rank 3 waits for rank 2"), true);
    CHECK(of_first(errors).message == "rank 1 aborted: it waits for rank 0");
    errors.fail(way, true);
    CHECK(of_first(errors).message == way.message);
    errors.fail(base::cannot_reach("rank 3 (host a)", "rank 2 (host c)", 6), true);
    CHECK(of_first(errors).message == way.message);
  }
  FirstError errors(3);
  errors.fail(Error(ErrorCode::bad_data, "rank 1 aborted: wrong bytes"), false);
  errors.fail(way, true);
  CHECK(of_first(errors).message == "rank 1 aborted: wrong bytes");
}

TEST_CASE("the first wait that another's error ended is kept with it") {
  FirstError errors(3);
  errors.note_awaited(2);  // there is no error yet
  CHECK(of_first(errors).message == "there is none");
  errors.fail(Error(ErrorCode::deadline, "rank 1 aborted"), false);
  CHECK(of_first(errors).awaited == -1);
  errors.note_awaited(3);  // this rank stands for a network
  CHECK(of_first(errors).awaited == -1);
  errors.note_awaited(2);
  errors.note_awaited(4);
  CHECK(of_first(errors).awaited == 2);
}

}  // namespace communicator_first_error_tests
