/* SPDX-License-Identifier: MIT */
/*
** What the text of a graph's file is read as: strings with their escapes, types, devices, names of
** any length, digits, and where a text ends.
*/
#include "ir.h"

static rg_status parsed(const char *text, rg_graph **out)
{
  *out = NULL;
  return rg_graph_parse(text, (int64_t)strlen(text), out);
}

#define VALUES "{\"ridge_graph\": 1, \"values\": ["

/* A string of a file, and the bytes it is. */
static const struct {
  const char *written;
  const char *is;
} strings[] = {
  { "plain", "plain" },
  { "\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t" },
  { "\\u0001\\u001f\\u0020\\u007f", "\x01\x1f \x7f" },
  { "\\u0080\\u00e9\\u07ff", "\xc2\x80\xc3\xa9\xdf\xbf" },
  { "\\u0800\\u1234\\u5678\\uffff", "\xe0\xa0\x80\xe1\x88\xb4\xe5\x99\xb8\xef\xbf\xbf" },
  { "\\u09af\\uabcd\\uefab", "\xe0\xa6\xaf\xea\xaf\x8d\xee\xbe\xab" },
  { "\\u09AF\\uABCD\\uEFAB", "\xe0\xa6\xaf\xea\xaf\x8d\xee\xbe\xab" },
  { "\\ud7ff\\ue000", "\xed\x9f\xbf\xee\x80\x80" },
  { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
};

static const char *const no_strings[] = {
  "\\ud800", "\\udbff", "\\uDFFF", "\\u0000", "\\u12", "\\u00/0", "\\u00:0", "\\u00@0",
  "\\u00G0", "\\u00`0", "\\u00g0", "\\U0041", "\\x41", "\\v",     "\\0",
};

static rg_status named(const char *name, rg_graph **out)
{
  char text[1024];

  (void)snprintf(
      text, sizeof(text),
      VALUES "{\"id\": 0, \"kind\": \"input\", \"type\": \"f32[2]\", \"storage\": 0, "
             "\"name\": \"%s\"}], \"nodes\": [], \"inputs\": [0], \"states\": [], \"outputs\": []}",
      name);
  return parsed(text, out);
}

static void test_strings(void)
{
  rg_graph *g = NULL;
  char all[40];
  const char *text = NULL;

  for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
    must(named(strings[i].written, &g));
    ok(strcmp(rg_ir_text_of(g, rg_ir_value_at(g, 0)->name), strings[i].is) == 0,
       strings[i].written);
    rg_graph_release(g);
  }
  for (size_t i = 0; i < sizeof(no_strings) / sizeof(no_strings[0]); i++) {
    ok(named(no_strings[i], &g) == RG_EFORMAT && SAYS("an escape that is none"), no_strings[i]);
  }
  for (int i = 0; i < 33; i++) {
    all[i] = (char)(i < 31 ? i + 1 : i == 31 ? '\x7f' : '\0');
  }
  sample s = sample_graph();

  rg_ir_name(s.g, s.x, text_in(s.g, all));
  must(rg_graph_json(s.g, &text));
  must(parsed(text, &g));
  is_status(rg_graph_same(s.g, g), RG_OK, "every control character, there and back");
  rg_graph_release(g);
  rg_graph_release(s.g);
}

#define ONE_VALUE(type)                                                                \
  VALUES "{\"id\": 0, \"kind\": \"input\", \"type\": \"" type "\", \"storage\": 0}], " \
         "\"nodes\": [], \"inputs\": [0], \"states\": [], \"outputs\": []}"

/* A type of a file, and what it says. */
static const struct {
  const char *text;
  rg_meta meta;
} types[] = {
  { ONE_VALUE("f32[]"), { RG_F32, 0, { 0 } } },
  { ONE_VALUE("f64[0]"), { RG_F64, 1, { 0 } } },
  { ONE_VALUE("bf16[10]"), { RG_BF16, 1, { 10 } } },
  { ONE_VALUE("f32[1234567,890]"), { RG_F32, 2, { 1234567, 890 } } },
  { ONE_VALUE("i64[1099511627776]"), { RG_I64, 1, { 1099511627776 } } },
  { ONE_VALUE("f16[1048576,1048576]"), { RG_F16, 2, { 1048576, 1048576 } } },
  { ONE_VALUE("f32[2,3,4,5,6,7,8,9]"), { RG_F32, 8, { 2, 3, 4, 5, 6, 7, 8, 9 } } },
  { ONE_VALUE("f32[3,0,5]"), { RG_F32, 3, { 3, 0, 5 } } },
};

static const char *const no_types[] = {
  ONE_VALUE("f32[1099511627777]"),
  ONE_VALUE("f32[1048577,1048576]"),
  ONE_VALUE("f32[,2]"),
  ONE_VALUE("f32[2,,3]"),
  ONE_VALUE("f32[2"),
  ONE_VALUE("f32[ 2]"),
  ONE_VALUE("f32[+2]"),
  ONE_VALUE("f32[2.0]"),
  ONE_VALUE("f32[2]x"),
  ONE_VALUE("f32[2][3]"),
  ONE_VALUE("f32[/]"),
  ONE_VALUE("f32[:]"),
  ONE_VALUE("f32[2,"),
  ONE_VALUE("f32["),
};

/* Where a value is, by the name of each device. */
static void test_devices(void)
{
  rg_graph *g = NULL;
  rg_graph *back = NULL;
  const char *text = NULL;

  for (int32_t i = 0; i < RG_DEVICE_COUNT; i++) {
    must(parsed(ONE_VALUE("f32[2]"), &g));
    rg_ir_value_at(g, 0)->device = i;
    must(rg_graph_json(g, &text));
    must(parsed(text, &back));
    is_int(rg_ir_value_at(back, 0)->device, i, rg_device_name(i));
    ok((strstr(text, "\"device\"") != NULL) == (i != RG_CPU), "the CPU is not said");
    rg_graph_release(back);
    rg_graph_release(g);
  }
}

static void test_types(void)
{
  rg_graph *g = NULL;

  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    must(parsed(types[i].text, &g));
    ok(rg_meta_same(&rg_ir_value_at(g, 0)->meta, &types[i].meta), types[i].text);
    rg_graph_release(g);
  }
  for (size_t i = 0; i < sizeof(no_types) / sizeof(no_types[0]); i++) {
    ok(parsed(no_types[i], &g) == RG_EFORMAT && SAYS("is no shape"), no_types[i]);
  }
}

/* Whatever is written can be read: names of any length. */
static void test_long_names(void)
{
  enum { MOST = 5000 };
  char *name = malloc(MOST + 1);

  for (size_t n = 250; n <= MOST; n += n == 260 || n == 515 ? 245 : n > 1000 ? 4000 : 1) {
    sample s = sample_graph();
    rg_graph *back = NULL;
    const char *text = NULL;

    for (size_t i = 0; i < n; i++) {
      name[i] = (char)('a' + i % 26);
    }
    name[n] = '\0';
    rg_ir_name(s.g, s.x, text_in(s.g, name));
    rg_ir_node_at(s.g, producer(s.g, s.y))->module = text_in(s.g, name + 1);
    must(rg_graph_json(s.g, &text));
    must(parsed(text, &back));
    is_status(rg_graph_same(s.g, back), RG_OK, "a long name, there and back");
    rg_graph_release(back);
    rg_graph_release(s.g);
  }
  free(name);
}

/* A number has up to 39 characters: one more is none, and no byte is written behind them. */
static void test_digits(void)
{
  static const struct {
    const char *before;
    const char *behind;
  } places[] = {
    { VALUES "{\"id\": ", ", \"kind\": \"input\", \"type\": \"f32[2]\", \"storage\": 0}], "
                          "\"nodes\": [], \"inputs\": [0], \"states\": [], \"outputs\": []}" },
    { VALUES "{\"id\": 0, \"kind\": \"input\", \"type\": \"f32[2]\", \"storage\": 0}], "
             "\"nodes\": [], \"inputs\": [",
      "], \"states\": [], \"outputs\": []}" },
  };
  rg_graph *g = NULL;
  char digits[48];
  char text[512];

  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    for (size_t n = 1; n < sizeof(digits); n++) {
      memset(digits, '0', n);
      digits[n] = '\0';
      (void)snprintf(text, sizeof(text), "%s%s%s", places[i].before, digits, places[i].behind);
      is_status(parsed(text, &g), n < 40 ? RG_OK : RG_EFORMAT, digits);
      rg_graph_release(g);
    }
  }
}

/* A text ends where its length says: what lies behind it changes nothing, wherever it is cut. */
static void test_end(void)
{
  sample s = sample_graph();
  rg_graph *g = NULL;
  const char *text = NULL;
  char says[512];
  int32_t wrong = 0;
  int32_t other = 0;

  rg_ir_name(s.g, s.x, text_in(s.g, "a\n\"\x01\\b"));
  rg_ir_node_at(s.g, producer(s.g, s.z))->flops = 1.25e-7;
  must(rg_graph_json(s.g, &text));
  size_t n = strlen(text) - 1; /* behind the last bracket stands the end of its line */

  for (size_t i = 0; i < n && !tap_refusing(); i++) {
    char *cut = malloc(i + 1);

    memcpy(cut, text, i);
    wrong += rg_graph_parse(cut, (int64_t)i, &g) != RG_EFORMAT;
    (void)snprintf(says, sizeof(says), "%s", rg_error_message());
    wrong += rg_graph_parse(text, (int64_t)i, &g) != RG_EFORMAT;
    other += strcmp(says, rg_error_message()) != 0;
    free(cut);
  }
  is_int(wrong, 0, "cut anywhere");
  is_int(other, 0, "for the same reason, whatever is behind it");
  rg_graph_release(s.g);
}

int main(void)
{
  test_strings();
  test_types();
  test_devices();
  test_long_names();
  test_digits();
  test_end();
  return done();
}
