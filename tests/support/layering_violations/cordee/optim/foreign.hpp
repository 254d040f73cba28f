// A header of the library itself that needs another library, for the test that must see it.
#include <vector>

#include <ucp/api/ucp.h>
