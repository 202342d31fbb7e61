// The name by which descriptions of JSON alone call a Record.
#pragma once
#include "base/record.h"

namespace collctl {
using JsonRecord = base::Record;
}
namespace collctl::base {
using JsonRecord = Record;
}
