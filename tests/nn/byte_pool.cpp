// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <doctest/doctest.h>

#include <cordee/device/cpu.hpp>
#include <cordee/nn/byte_pool.hpp>

using namespace cordee;
using detail::nn::buffer_list, detail::nn::byte_pool;

TEST_CASE("buffer_list: buffers stay where they are while the list grows") {
  buffer_list<cpu> list;
  std::byte* const first = list.add(cpu(1), 8).span().data;
  for (std::size_t k = 1; k < 100; ++k) CHECK(list.add(cpu(1), k).size() == k);
  CHECK(list.size() == 100);
  CHECK(list[0].span().data == first);
  list.clear();
  CHECK(list.size() == 0);
}

TEST_CASE("byte_pool: the smallest buffer that is large enough, of equal ones the last released") {
  const cpu device(1);
  byte_pool<cpu> pool;
  std::byte *const small = pool.acquire(device, 100), *const large = pool.acquire(device, 1000),
                   *const second = pool.acquire(device, 100);
  CHECK(pool.bytes() == 1200);
  pool.release(large);
  pool.release(small);
  pool.release(second);
  CHECK(pool.acquire(device, 90) == second);
  CHECK(pool.acquire(device, 101) == large);
  CHECK(pool.acquire(device, 100) == small);
  CHECK(pool.bytes() == 1200);
  CHECK(pool.acquire(device, 1) != nullptr);  // none is free
  CHECK(pool.bytes() == 1201);
}

TEST_CASE("byte_pool: reset releases every buffer, clear frees them") {
  const cpu device(1);
  byte_pool<cpu> pool;
  std::byte *const a = pool.acquire(device, 10), *const b = pool.acquire(device, 20);
  pool.reset();
  CHECK(pool.acquire(device, 20) == b);
  CHECK(pool.acquire(device, 10) == a);
  pool.clear();
  CHECK(pool.bytes() == 0);
}
