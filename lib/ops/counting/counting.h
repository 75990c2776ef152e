// The interface moved to ops/counting.h, beside the seam it belongs to.
#pragma once

#include "ops/counting.h"
