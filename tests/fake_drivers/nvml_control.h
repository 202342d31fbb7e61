// The settings that a test linked with the fake libnvidia-ml.so.1 makes besides FAKE_NVML.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fake_nvml {

// The GPU at this bus id ("0000:10:00.0") is there for those who ask by bus id. Its throttling: a
// mask for each time that it is asked, the last one again and again. SM clock: 1980 MHz, 990 when
// anything throttles it; at most 1980. It takes 650 W and has 71 degrees. An empty list takes it
// away.
void set_throttle(const std::string& bus_id, std::vector<uint64_t> masks);

// The GPU at this bus id is in an NVLink domain of several hosts, whose UUID is 16 times `cluster`
// (0: in none, its NVLinks end at this host). Gone with clear_fabric().
void set_fabric(const std::string& bus_id, uint8_t cluster, uint32_t clique);
void clear_fabric();

// The counts of a GPU by index (FAKE_NVML), by the product's words for them ("ecc_corrected",
// "nvlink 3 replay", "throttled_thermal_ns"); one that was never set is 0.
// Likewise how it is set, as far as a test sets it: "ecc", "persistence", "fabric_state"; "field
// 231" of NVML's fields, "process 4242" with its memory, "graphics 4242"; "ecc error" with NVML's
// number is what is answered instead, "open error" to whoever opens the GPU.
void set_counter(unsigned gpu, const std::string& name, uint64_t value);
void clear_counters();

}  // namespace fake_nvml
