// A part that includes one above it, for the test that must see it.

#include <cordee/ops/engines/direct/bf16/bfloat.hpp>
