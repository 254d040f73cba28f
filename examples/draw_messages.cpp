// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Draws the messages of one mean as SVG: ranks from left to right, time downwards, an arrow from
// where a message began to where it ended, as wide as its share of the numbers. The reducers that
// train send them, over simulated ranks.
//
//   draw_messages --folder pictures     writes ring.svg, tree.svg, ... there
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <locale>
#include <string>
#include <vector>

#include <cordee/comm/simulated.hpp>
#include <cordee/cordee.hpp>

#include "options.hpp"

namespace {

using namespace cordee;

constexpr int ranks = 8, per_node = 4;
constexpr std::size_t numbers = 1u << 20;
constexpr double bytes_of_message = numbers * sizeof(float);

/// A message of all numbers takes 1, of which the latency is 1/20.
constexpr link_parameters link{.latency = 0.05, .bandwidth = bytes_of_message / 0.95};

struct run {
  simulation result;
  std::vector<simulated_transfer> transfers;
};

template <class Make>
run record(const Make& make) {
  run r;
  simulated::options o{.network = {.link = link}};
  o.on_transfer = [&](const simulated_transfer& t) { r.transfers.push_back(t); };
  r.result = simulated::launch(
      ranks,
      [&](simulated comm) {
        const phantom device = comm.device();
        const auto reducer = make(comm);
        buffer<float, phantom> x(device, numbers);
        buffer<std::byte, phantom> scratch(device, reducer.template scratch<float>(numbers));
        reducer.mix(bucket_view<float, phantom, 0>{nullptr, x.span(), {}, scratch.span()},
                    step_info{}, device.make_stream());
      },
      o);
  return r;
}

/// `grouped`: ranks of a node have a common background.
void draw(const std::string& path, const std::string& title, const run& r, bool grouped) {
  constexpr double left = 40, column = 60, top = 62, height = 400, width = 2 * left + 7 * column;
  const auto x = [&](int rank) { return left + column * rank; };
  const auto y = [&](double time) { return top + time / r.result.path.seconds * height; };
  std::ofstream out(path);
  out.imbue(std::locale::classic());
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " "
      << top + height + 44 << "\" font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<defs><marker id=\"head\" viewBox=\"0 0 6 6\" refX=\"5.5\" refY=\"3\" markerWidth=\"7\" "
         "markerHeight=\"7\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">"
         "<path d=\"M0 0 L6 3 L0 6 z\" fill=\"#1f4e79\"/></marker></defs>\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text x=\"" << width / 2 << "\" y=\"22\" text-anchor=\"middle\" font-size=\"14\">"
      << title << "</text>\n";
  for (int node = 0; grouped && node < ranks / per_node; ++node)
    out << "<rect x=\"" << x(node * per_node) - 22 << "\" y=\"32\" width=\""
        << column * (per_node - 1) + 44 << "\" height=\"" << height + 44
        << "\" rx=\"8\" fill=\"#eef3f8\"/>\n";
  for (int rank = 0; rank < ranks; ++rank)
    out << "<text x=\"" << x(rank) << "\" y=\"50\" text-anchor=\"middle\">" << rank << "</text>\n"
        << "<line x1=\"" << x(rank) << "\" y1=\"" << top << "\" x2=\"" << x(rank) << "\" y2=\""
        << top + height << "\" stroke=\"#aaaaaa\"/>\n";
  for (const simulated_transfer& t : r.transfers)
    out << "<line x1=\"" << x(t.from) << "\" y1=\"" << y(t.begin) << "\" x2=\"" << x(t.to)
        << "\" y2=\"" << y(t.end) << "\" stroke=\"#1f4e79\" stroke-opacity=\"0.75\" stroke-width=\""
        << 0.8 + 2.4 * static_cast<double>(t.bytes) / bytes_of_message
        << "\" marker-end=\"url(#head)\"/>\n";
  char text[200];
  std::snprintf(text, sizeof text,
                "messages: %llu, rounds: %llu, vectors sent in all: %s, time: %s",
                static_cast<unsigned long long>(r.result.messages),
                static_cast<unsigned long long>(r.result.rounds),
                decimal::fixed(static_cast<double>(r.result.bytes) / bytes_of_message, 2).c_str(),
                decimal::fixed(r.result.path.seconds, 2).c_str());
  out << "<text x=\"" << width / 2 << "\" y=\"" << top + height + 32 << "\" text-anchor=\"middle\">"
      << text << "</text>\n</svg>\n";
  if (!out) throw error("draw_messages: cannot write " + path);
  std::printf("%-24s %s\n", title.c_str(), text);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "draw_messages: the messages of eight reducers as pictures");
    const std::string folder = o.string("folder", ".", "write the pictures there") + "/";
    o.done();
    const auto picture = [&](const char* name, const char* title, const auto& make,
                             bool grouped = false) {
      draw(folder + name + ".svg", title, record(make), grouped);
    };
    picture("ring", "ring", [](auto comm) { return ring{comm}; });
    picture("tree", "tree", [](auto comm) { return tree{comm}; });
    picture("butterfly", "butterfly", [](auto comm) { return butterfly{comm}; });
    picture("halving_doubling", "halving and doubling",
            [](auto comm) { return halving_doubling{comm}; });
    picture(
        "hierarchical", "hierarchical: two nodes of four",
        [](auto comm) {
          return hierarchical{comm, nodes{per_node}};
        },
        true);
    picture(
        "torus", "torus: two rows of four",
        [](auto comm) {
          return torus_ring{comm, 2};
        },
        true);
    picture("server", "server on rank 0", [](auto comm) { return server{comm}; });
    picture("gossip", "gossip with both neighbors on a ring",
            [](auto comm) { return gossip{comm}; });
  });
}
