// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// libzmq's context, sockets and messages, which end with their objects; a call that fails throws.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <zmq.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

inline void zeromq_expects(bool succeeded, std::string_view call) {
  if (!succeeded) throw error(concat("ZeroMQ: ", call, ": ", zmq_strerror(zmq_errno())));
}

class zeromq_message {
 public:
  zeromq_message() { zmq_msg_init(&m_); }
  explicit zeromq_message(std::size_t size) {
    zeromq_expects(zmq_msg_init_size(&m_, size) == 0, "zmq_msg_init_size");
  }
  zeromq_message(zeromq_message&& other) noexcept : zeromq_message() { *this = std::move(other); }
  zeromq_message& operator=(zeromq_message&& other) noexcept {
    zmq_msg_move(&m_, &other.m_);
    return *this;
  }
  ~zeromq_message() { zmq_msg_close(&m_); }

  [[nodiscard]] std::byte* data() { return static_cast<std::byte*>(zmq_msg_data(&m_)); }
  [[nodiscard]] std::size_t size() const { return zmq_msg_size(&m_); }
  [[nodiscard]] std::string_view text() { return {reinterpret_cast<const char*>(data()), size()}; }
  /// Whether it is not the last part of what was sent together.
  [[nodiscard]] bool is_followed() const { return zmq_msg_more(&m_) != 0; }
  /// The descriptor of the connection on which it has arrived, -1 if unknown.
  [[nodiscard]] int descriptor() const { return zmq_msg_get(&m_, ZMQ_SRCFD); }
  [[nodiscard]] zmq_msg_t* get() { return &m_; }

 private:
  mutable zmq_msg_t m_;  // zmq_msg_get takes no const pointer
};

class zeromq_context {
 public:
  zeromq_context() : context_(zmq_ctx_new()) { zeromq_expects(context_ != nullptr, "zmq_ctx_new"); }
  zeromq_context(const zeromq_context&) = delete;
  zeromq_context& operator=(const zeromq_context&) = delete;
  /// Blocks until messages of closed sockets are sent, or their linger time is over.
  ~zeromq_context() {
    while (zmq_ctx_term(context_) != 0 && errno == EINTR) {
    }
  }
  [[nodiscard]] void* get() const { return context_; }

 private:
  void* context_;
};

/// Requires that its context outlives it.
class zeromq_socket {
 public:
  zeromq_socket(const zeromq_context& context, int type)
      : socket_(zmq_socket(context.get(), type)) {
    zeromq_expects(socket_ != nullptr, "zmq_socket");
  }
  zeromq_socket(zeromq_socket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  zeromq_socket& operator=(zeromq_socket&&) = delete;
  ~zeromq_socket() {
    if (socket_ != nullptr) zmq_close(socket_);
  }

  template <class T>
  void set(int option, T value) const {
    zeromq_expects(zmq_setsockopt(socket_, option, &value, sizeof value) == 0, "zmq_setsockopt");
  }
  void connect(const std::string& endpoint) const {
    zeromq_expects(zmq_connect(socket_, endpoint.c_str()) == 0, concat("connect to ", endpoint));
  }
  /// Returns whether it was sent; false while no more can be queued.
  [[nodiscard]] bool try_send(zeromq_message& m) const {
    if (zmq_msg_send(m.get(), socket_, ZMQ_DONTWAIT) >= 0) return true;
    zeromq_expects(errno == EAGAIN || errno == EINTR, "zmq_msg_send");
    return false;
  }
  /// Returns whether one has arrived.
  [[nodiscard]] bool try_receive(zeromq_message& m) const {
    if (zmq_msg_recv(m.get(), socket_, ZMQ_DONTWAIT) >= 0) return true;
    zeromq_expects(errno == EAGAIN || errno == EINTR, "zmq_msg_recv");
    return false;
  }
  [[nodiscard]] void* get() const { return socket_; }

 private:
  void* socket_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
