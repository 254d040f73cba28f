# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/reference: which names of a header are public and which of them have no docstring."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "reference"))
import public

HEADER = """
namespace other { int elsewhere(); }
namespace cordee::inline CORDEE_ABI {
namespace detail::x {
struct hidden { int inside; };
template <class Form>
struct base {
  int bare = Form::value;  // an ordinary comment is none
  /// Documented.
  int written;
};
}  // namespace detail::x
/// Documented.
using alias = detail::x::base<int>;
using bare_alias = int;
/// Documented.
enum class color { red, green, /* no */ blue };
template <class T>
concept Bare = requires(T t) { { t.f() } -> std::same_as<int>; };
/// Documented.
template <class A, options With = options{1, 2}>
class widget : public list<A, limits{3}> {
 public:
  widget() = default;
  widget(const widget&) = delete;
  ~widget() {}
  explicit widget(A a) : a_{a}, b_(1) { if (a < 1) return; }
  double first = 1, second = 2;  ///< Documented, both.
  std::string (*callback)(int) = nullptr;
  [[nodiscard]] A* begin() const
    requires(With.host)
  {
    return a_;
  }
  void check(int i) const requires requires(A a) { a.check(); } { a_.check(); }
  friend bool operator==(const widget&, const widget&) = default;
  template <class U>
  operator std::span<U>() const { return {}; }

 private:
  A a_;
  int b_;
};
template <class A>
widget(A) -> widget<A>;
struct declared_only;
inline constexpr auto text = "a { b ; /// c";
}  // namespace cordee::inline CORDEE_ABI
"""


class Names(unittest.TestCase):
    def test_finds_what_has_no_docstring(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "widget.hpp"
            path.write_text(HEADER)
            header = public.Header(path)
            names = list(public.public_names(header, public.shown_types([header])))
        bare = [public.label(d) for d in names if not d.docs]
        self.assertEqual(bare, ["base::bare", "bare_alias", "color::red", "color::green", "color::blue", "Bare",
                                "widget::widget", "widget::callback", "widget::begin", "widget::check",
                                "widget::operatorstd::span<U>", "text"])
        self.assertEqual([public.label(d) for d in names if d.docs],
                         ["base::written", "alias", "color", "widget", "widget::first", "widget::second"])
        self.assertEqual(HEADER.splitlines()[header.line(names[0].begin) - 1].split(";")[0], "  int bare = Form::value")


if __name__ == "__main__":
    unittest.main()
