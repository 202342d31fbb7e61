// How often a test draws at random: all rounds in the release build, where they take seconds.
// Sanitizers make each many times as dear and look for other faults than those of one seed in a
// hundred: there it is a quarter.
#pragma once

namespace collctl::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// Also for how many of something the rounds must have met.
constexpr int rounds(int all) {
  return kSanitized ? all / 4 : all;
}
// Of what comes one by one: each, or every `nth` where a sanitizer is at work. Counts in `seen`.
constexpr bool takes(int& seen, int nth) {
  return ++seen % (kSanitized ? nth : 1) == 0;
}

}  // namespace collctl::test
