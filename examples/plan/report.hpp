// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A plan as CSV and as a plot.
#pragma once

#include <cmath>
#include <cstdio>
#include <fstream>
#include <locale>
#include <string>
#include <vector>

#include "prediction.hpp"

namespace plan {

/// The ranks at which a plan is made: 1, 2, 4, ... `most`.
struct curve {
  int images = 1;  // of a rank
  std::vector<prediction> points;

  [[nodiscard]] double rate(const prediction& p) const { return p.ranks * images / p.step.seconds; }
  [[nodiscard]] double linear(const prediction& p) const { return p.ranks * rate(points.front()); }
  [[nodiscard]] double efficiency(const prediction& p) const { return rate(p) / linear(p); }
};

inline void write_csv(const curve& c, const std::string& path) {
  std::ofstream out(path);
  out.imbue(std::locale::classic());
  out << "ranks,batch,seconds_a_step,images_a_second,linear_images_a_second,efficiency,"
         "exposed_seconds,reducer,bucket_bytes\n";
  for (const prediction& p : c.points)
    out << p.ranks << ',' << p.ranks * c.images << ',' << p.step.seconds << ',' << c.rate(p) << ','
        << c.linear(p) << ',' << c.efficiency(p) << ',' << p.step.exposed << ",\"" << p.reducer
        << "\"," << p.bucket_bytes << '\n';
  if (!out.flush()) throw error(concat("--csv: ", path, " cannot be written"));
}

/// Images a second over ranks, both logarithmic, with the efficiency at each point, beside a dashed
/// line of linear scaling.
inline void write_svg(const curve& c, const std::string& title, const std::string& path) {
  constexpr double left = 70, top = 40, width = 560, height = 360;
  const double decades = std::log2(c.points.back().ranks) + 1e-9;
  const auto x = [&](const prediction& p) { return left + std::log2(p.ranks) / decades * width; };
  const auto y = [&](double rate) {
    return top + height - std::log2(rate / c.rate(c.points.front())) / decades * height;
  };
  std::ofstream out(path);
  out.imbue(std::locale::classic());
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 690 460\" "
         "font-family=\"sans-serif\" font-size=\"11\">\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"350\" y=\"22\" "
         "text-anchor=\"middle\" font-size=\"14\">"
      << title << "</text>\n";
  const auto line = [&](const char* style, const auto& rate) {
    out << "<polyline fill=\"none\" " << style << " points=\"";
    for (const prediction& p : c.points) out << x(p) << ',' << y(rate(p)) << ' ';
    out << "\"/>\n";
  };
  line("stroke=\"#888\" stroke-dasharray=\"6 4\"", [&](const auto& p) { return c.linear(p); });
  line("stroke=\"#1f4e79\" stroke-width=\"2\"", [&](const auto& p) { return c.rate(p); });
  for (const prediction& p : c.points) {
    out << "<circle r=\"3\" fill=\"#1f4e79\" cx=\"" << x(p) << "\" cy=\"" << y(c.rate(p))
        << "\"/>\n<text text-anchor=\"start\" fill=\"#1f4e79\" x=\"" << x(p) + 6 << "\" y=\""
        << y(c.rate(p)) + 14 << "\">" << std::lround(100 * c.efficiency(p))
        << " %</text>\n<text text-anchor=\"middle\" x=\"" << x(p) << "\" y=\"" << top + height + 18
        << "\">" << p.ranks << "</text>\n<text text-anchor=\"end\" x=\"" << left - 8 << "\" y=\""
        << y(c.linear(p)) + 4 << "\">" << static_cast<long long>(c.linear(p)) << "</text>\n";
  }
  out << "<text x=\"350\" y=\"" << top + height + 42
      << "\" text-anchor=\"middle\">ranks; images a second, and efficiency (dashed: linear "
         "scaling)</text>\n"
         "</svg>\n";
  if (!out.flush()) throw error(concat("--svg: ", path, " cannot be written"));
}

}  // namespace plan
