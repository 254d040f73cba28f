# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/reference: which names of a header are public, which of them have no docstring, and the tables of options."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "reference"))
import options
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


POLICY = """
namespace cordee::inline CORDEE_ABI {
namespace detail::x {
struct loose_form {
  static constexpr double epsilon = 0, unused = 3;
  static constexpr limits bounds{};
};
struct tight_form : loose_form {
  static constexpr limits bounds{.least = 0.5};
};
struct limits {
  double least = 0, most = std::numeric_limits<double>::infinity();
};
template <class Form>
struct base {
  static constexpr int slots = 1;
  /// Share that a step keeps (see base.hpp). Unit: 1. Range: 0 <= a | b < 1, else usage_error. Default: of You
  /// et al. 2017. Nothing more.
  double share = 0.9;
  double epsilon = Form::epsilon;
  limits bounds = Form::bounds;
  /// State: of the run.
  int step = 0;
  Model model;
};
}  // namespace detail::x
using loose = detail::x::base<detail::x::loose_form>;
using tight = detail::x::base<detail::x::tight_form>;
}  // namespace cordee::inline CORDEE_ABI
"""


class Options(unittest.TestCase):
    def table(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "base.hpp"
            path.write_text(text)
            return options.table(options.Library([public.Header(path)]), ["loose", "tight"]).splitlines()[2:]

    def test_rows_have_the_defaults_of_each_form(self):
        self.assertEqual(self.table(POLICY), [
            "| **`loose`, `tight`** | | | | | | |",
            "| `share` | `double` | `0.9`: of You et al. 2017 | 1 | 0 <= a \\| b < 1 | usage_error | Share that a step keeps |",
            "| `epsilon` | `double` | `0` |  |  |  |  |",
            "| `bounds.least` | `double` | `0` (`loose`); `0.5` (`tight`) |  |  |  |  |",
            "| `bounds.most` | `double` | `infinity` |  |  |  |  |",
            "| `model` | `Model` | required |  |  |  |  |"])

    def test_rows_follow_a_default_that_changes(self):
        changed = set(self.table(POLICY.replace("share = 0.9", "share = 0.8"))) - set(self.table(POLICY))
        self.assertEqual(len(changed), 1)
        self.assertIn("`0.8`", changed.pop())


if __name__ == "__main__":
    unittest.main()
