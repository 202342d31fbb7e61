#include "cmd/text/provenance.h"

#include "tests/catch.h"

namespace text_provenance_tests {

using collctl::cmd::line_without_secrets;

TEST_CASE("the line of a report is as a shell takes it, without secrets") {
  CHECK(line_without_secrets({}) == "collctl");
  CHECK(line_without_secrets({"run", "-n", "4", "allreduce"}) == "collctl run -n 4 allreduce");
  CHECK(line_without_secrets({"run", "-x", "A=b c", "--", "echo", "it's", ""}) ==
        "collctl run -x 'A=b c' -- echo 'it'\\''s' ''");
  CHECK(line_without_secrets({"run", "-x", "API_TOKEN=abc", "-x", "NCCL_IB_HCA=mlx5"}) ==
        "collctl run -x API_TOKEN=... -x NCCL_IB_HCA=mlx5");
  CHECK(line_without_secrets({"run", "--", "./train", "--password", "abc", "--api-key=abc"}) ==
        "collctl run -- ./train --password ... --api-key=...");
  CHECK(line_without_secrets({"run", "--token-file", "/etc/token", "-n", "2"}) ==
        "collctl run --token-file /etc/token -n 2");
}

TEST_CASE("a line of any length is cut") {
  const std::vector<std::string> words(3000, "word");
  const std::string line = line_without_secrets(words);
  CHECK(line.size() < 4110);
  CHECK(line.ends_with(" ..."));
}

}  // namespace text_provenance_tests
