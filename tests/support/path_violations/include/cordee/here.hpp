// here.hpp and cordee/here.hpp exist, beside.hpp does not.
