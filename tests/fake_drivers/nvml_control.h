// What a test that is linked with the fake libnvidia-ml.so.1 tells it besides FAKE_NVML.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fake_nvml {

// The GPU at this bus id ("0000:10:00.0") is there for those who ask by bus id. What throttles it:
// a mask for each time that it is asked, the last one again and again. SM clock: 1980 MHz, 990 when
// anything throttles it; at most 1980. An empty list takes it away.
void set_throttle(const std::string& bus_id, std::vector<uint64_t> masks);

}  // namespace fake_nvml
