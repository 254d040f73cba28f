// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Lists with designators that are assigned, of which nvcc drops the designators in a template.
#pragma once

struct part {
  int first = 0, second = 0;
};

template <class Real>
struct assigns_lists {
  part whole{.second = 1}, several[2], parts[2]{{.first = 1}, {.second = 1}};
  Real rate = 0;

  void set(int k, const part& by_default = {.second = 2}) {
    const part declared = {.second = 3};
    whole = {.second = k};
    parts[k] = {.second = k};
    if (k > 0)
      this->whole = {.first = k, .second = 1};
    else
      other().whole = {.second = k};
    several = {part{.second = 1}, {.second = k}};
    whole = part{.second = k + declared.second + by_default.second};  // named: as it should be
  }
};
