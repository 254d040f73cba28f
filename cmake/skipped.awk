# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Of ctest's report (--output-junit): a line for each test that was skipped, and for each test case that a program has
# skipped (tests/support/skip.hpp): "  PRESET: TEST: REASON", "  PRESET: TEST: CASE: REASON". Usage:
#
#   awk -v preset=PRESET -f skipped.awk report.xml
/<testcase / {
  name = $0
  sub(/.*<testcase name="/, "", name)
  sub(/".*/, "", name)
  is_skipped = lines = 0
}
/<skipped message="SKIP_/ { is_skipped = 1 }
/(^|<system-out>)skipped: / || (is_skipped && /skipped: /) {
  reason = $0
  sub(/.*skipped: /, "", reason)
  sub(/<\/system-out>.*/, "", reason)
  gsub(/&lt;/, "<", reason)
  gsub(/&gt;/, ">", reason)
  gsub(/&quot;/, "\"", reason)
  gsub(/&amp;/, "\\&", reason)
  reasons[++lines] = reason
}
/<\/testcase>/ {
  if (is_skipped) print "  " preset ": " name ": " (lines ? reasons[lines] : "no reason given")
  for (i = 1; i <= lines && !is_skipped; ++i)
    if (!seen[name, reasons[i]]++) print "  " preset ": " name ": " reasons[i]  # once for all ranks
}
