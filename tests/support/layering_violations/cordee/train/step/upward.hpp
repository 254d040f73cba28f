// A part that includes its folder, for the test that must see it.

#include <cordee/train/fit.hpp>
