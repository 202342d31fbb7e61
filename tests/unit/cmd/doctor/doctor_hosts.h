// Hosts as doctor's survey finds them, for its tests.
#pragma once
#include <set>
#include <string>

#include "base/format.h"
#include "cmd/doctor/doctor.h"
#include "tests/catch.h"

namespace doctor_tests {

using namespace collctl;
using namespace collctl::cmd;
using launcher::HostFacts;
using launcher::ReachEnd;

inline HostFacts facts_of(int number) {
  HostFacts facts;
  facts.host = format("n{}", number);
  facts.version = "1.0";
  facts.binary = std::string(64, 'a');
  facts.system = {"6.1", "x86_64", "2.36"};
  facts.cores = 4;
  facts.memory_bytes = uint64_t(16) << 30;
  facts.locked_memory = {8 << 20, 8 << 20};
  facts.open_files = {1024, 1 << 20};
  facts.has_shm = true;
  facts.shm_bytes = facts.shm_free_bytes = uint64_t(8) << 30;
  facts.interfaces = {
      {"lo", true, true, 65536, 0, {{"127.0.0.1", 8}}},
      {"docker0", true, false, 1500, 0, {{"172.17.0.1", 16}}},
      {"eth0", true, false, 9000, 25000, {{format("10.0.0.{}", number), 24}, {"fe80::1", 64}}}};
  return facts;
}

// `count` hosts in order, all pairs reached.
inline Survey healthy(int count) {
  Survey survey;
  survey.self = facts_of(0);
  for (int i = 0; i < count; ++i) {
    SurveyedHost& host = survey.hosts.emplace_back();
    host.spec.id = HostId(i);
    host.spec.name = format("n{}", i);
    host.facts = facts_of(i);
    host.up_s = 0.3;
    host.clock_error_s = 0.001;
  }
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to)
      if (from != to)
        survey.pairs.push_back(
            {from, to, "eth0", true, {to, format("10.0.0.{}", to), ReachEnd::ok, 50, ""}});
  return survey;
}

// "name host" of every check that is not passed, sorted.
inline std::set<std::string> failures(const Diagnosis& diagnosis) {
  std::set<std::string> list;
  for (const Finding& check : diagnosis.checks)
    if (check.status != FindingStatus::pass) {
      list.insert(format("{} {}", check.name, check.at.host));
      CHECK(check.message != "");
      CHECK(check.remedy != "");
    }
  return list;
}

inline std::set<std::string> odd_ones(const Diagnosis& diagnosis) {
  std::set<std::string> list;
  for (const Finding& check : diagnosis.checks)
    if (check.odd) list.insert(format("{} {}", check.name, check.at.host));
  return list;
}

inline std::string text_of(const Survey& survey, const Diagnosis& diagnosis) {
  return document_text(doctor_document(survey, diagnosis, doctor_json(survey, diagnosis)),
                       {.whole = true});
}

}  // namespace doctor_tests
