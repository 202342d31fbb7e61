#include <cstdio>

#include "tests/patient_clock.h"
#include "tests/skip.h"
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace {
bool g_skipped = false;
}

void collctl::test::skip(const std::string& why) {
  g_skipped = true;
  std::printf("skipped: %s\n", why.c_str());
}

int main(int argc, char** argv) {
  collctl::test::install_patient_clock();
  const int failed = Catch::Session().run(argc, argv);
  return failed != 0 ? 1 : g_skipped ? 77 : 0;
}
