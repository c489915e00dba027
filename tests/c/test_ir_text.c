/* SPDX-License-Identifier: MIT */
/*
** What a graph says of itself: arguments of every type and kind, as in a file and as typed in Lua,
** which of them are left out, and every part of a printed node.
*/
#include <malloc.h>
#include <string.h>

#include "graph/text.h"
#include "ir.h"
#include "op/binary.h"
#include "op/fused.h"
#include "ridge/choice.h"
#include "ridge/image.h"

/* -- Arguments ------------------------------------------------------------------------------- */

/* One argument of each type; each test sets the one it is about. */
typedef struct everything {
  int32_t i32;
  uint32_t u32;
  int64_t i64;
  double f64;
  int64_t i64x2[2];
  rg_meta meta;
  rg_sizes sizes;
  rg_links links;
} everything;

#define ARG(field, kind_, fallback_)                                                         \
  {                                                                                          \
    .name = #field, .type = RG_ARG_##field, .kind = RG_ARG_##kind_, .fallback = (fallback_), \
    .offset = offsetof(everything, field)                                                    \
  }

/* Is this how an argument stands in a file, or typed in Lua? */
static void says(bool typed, const rg_arg *arg, const everything *args, const char *want)
{
  rg_ir_out o = { 0 };

  (typed ? rg_ir_put_typed_arg : rg_ir_put_arg)(&o, arg, args);
  if (!ok(!o.failed && o.unknown == NULL && o.data != NULL && strcmp(o.data, want) == 0, want)) {
    printf("#   got %s\n", o.data != NULL ? o.data : "nothing");
  }
  rg_host_free(o.data);
}

static void whole(const rg_arg arg, int64_t value, const char *in_file, const char *typed)
{
  const everything args = { .i32 = (int32_t)value, .u32 = (uint32_t)value, .i64 = value };

  says(false, &arg, &args, in_file);
  says(true, &arg, &args, typed);
}

static void test_whole(void)
{
  whole((rg_arg)ARG(i32, NUMBER, 0), -2147483648LL, "-2147483648", "-2147483648");
  whole((rg_arg)ARG(u32, NUMBER, 0), 4294967295LL, "4294967295", "4294967295");
  whole((rg_arg)ARG(i64, WHOLE, 0), INT64_MAX, "9223372036854775807", "9223372036854775807");
  whole((rg_arg)ARG(i32, FLAG, 0), 0, "0", "false");
  whole((rg_arg)ARG(i32, FLAG, 0), 1, "1", "true");
  whole((rg_arg)ARG(i32, AXIS, 0), 0, "0", "1");
  whole((rg_arg)ARG(i32, AXIS, 0), 2, "2", "3");
  whole((rg_arg)ARG(i32, AXIS, 0), -1, "-1", "-1");
  whole((rg_arg)ARG(i64, POSITION, 0), 0, "0", "1");
  whole((rg_arg)ARG(i64, POSITION, 0), -2, "-2", "-2");
  whole((rg_arg)ARG(u32, AXES, 0), 0, "0", "[]");
  whole((rg_arg)ARG(u32, AXES, 0), 1, "1", "[1]");
  whole((rg_arg)ARG(u32, AXES, 0), 0x86, "134", "[2, 3, 8]");
  whole((rg_arg)ARG(i32, DTYPE, 0), RG_BF16, "\"bf16\"", "\"bf16\"");
  whole((rg_arg)ARG(i32, DTYPE, 0), RG_F32, "\"f32\"", "\"f32\"");
  whole((rg_arg)ARG(i32, DTYPE, 0), -1, "-1", "-1");
  whole((rg_arg)ARG(i32, ACT, 0), RG_ACT_NONE, "\"none\"", "\"none\"");
  whole((rg_arg)ARG(i32, ACT, 0), RG_ACT_GELU, "\"gelu\"", "\"gelu\"");
  whole((rg_arg)ARG(i32, ACT, 0), 99, "99", "99"); /* no word for it */
  whole((rg_arg)ARG(i32, LAYOUT, 0), 1, "\"nhwc\"", "\"nhwc\"");
  whole((rg_arg)ARG(i32, LAYOUT, 0), 2, "2", "2");
  whole((rg_arg)ARG(i32, REDUCTION, 0), 0, "\"mean\"", "\"mean\"");
  whole((rg_arg)ARG(i32, REDUCTION, 0), 2, "\"none\"", "\"none\"");
}

static void test_lists(void)
{
  const rg_arg pair = ARG(i64x2, WHOLE, 0);
  const rg_arg shape = ARG(sizes, SHAPE, 0);
  const rg_arg order = ARG(sizes, ORDER, 0);
  const rg_arg meta = ARG(meta, FOUND, 0);
  everything args = { .i64x2 = { -3, 4 },
                      .sizes = { 8, { 0, 1, 2, 3, 4, 5, 6, 7 } },
                      .meta = { RG_F64, 2, { 20, 3 } } };

  says(false, &pair, &args, "[-3, 4]");
  says(true, &pair, &args, "[-3, 4]");
  says(false, &meta, &args, "\"f64[20,3]\"");
  says(false, &shape, &args, "[0, 1, 2, 3, 4, 5, 6, 7]");
  says(true, &shape, &args, "[0, 1, 2, 3, 4, 5, 6, 7]");
  says(false, &order, &args, "[0, 1, 2, 3, 4, 5, 6, 7]");
  says(true, &order, &args, "[1, 2, 3, 4, 5, 6, 7, 8]");
  args.sizes = (rg_sizes){ .n = 9, .at = { 10, -1 } };
  says(true, &shape, &args, "[10, -1, 0, 0, 0, 0, 0, 0]"); /* no more than there is room for */
  args.sizes.n = 0;
  says(true, &order, &args, "[]");
}

static void test_doubles(void)
{
  static const struct {
    double value;
    const char *is;
  } numbers[] = {
    { 0, "0" },
    { -0.0, "-0" },
    { 0.1, "0.1" },
    { 1.0 / 3, "0.33333333333333331" },
    { 123456789012345.0, "123456789012345" },
    { 5e-324, "4.94065645841247e-324" },
    { 1.7976931348623157e308, "1.7976931348623157e+308" },
    { INFINITY, "\"inf\"" },
    { -INFINITY, "\"-inf\"" },
  };
  const rg_arg arg = ARG(f64, NUMBER, 0);
  everything args = { 0 };
  const uint64_t bits = 0xfff8000000000123u;

  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    args.f64 = numbers[i].value;
    says(false, &arg, &args, numbers[i].is);
  }
  memcpy(&args.f64, &bits, sizeof(bits));
  says(false, &arg, &args, "\"nan:fff8000000000123\"");
}

static void test_links(void)
{
  static const rg_link nothing = { .load = RG_FUSED_NONE,
                                   .with = RG_FUSED_NONE,
                                   .store = RG_FUSED_NONE };
  const rg_arg arg = ARG(links, FOUND, 0);
  everything args = { .links = { .n = 1 } };
  rg_link *l = args.links.at;

#define LINK(id_, ...) (*l = nothing, *l = (rg_link){ .id = (id_), .dtype = RG_F32, __VA_ARGS__ })
  LINK(RG_OP_EXP, .load = 0, .with = RG_FUSED_NONE, .store = RG_FUSED_NONE);
  says(false, &arg, &args, "[{\"op\": \"exp\", \"type\": \"f32\", \"load\": 0}]");
  says(true, &arg, &args, "[exp(#1)]");
  LINK(RG_OP_SUB, .load = RG_FUSED_NONE, .with = 2, .store = 0);
  says(false, &arg, &args, "[{\"op\": \"sub\", \"type\": \"f32\", \"with\": 2, \"store\": 0}]");
  says(true, &arg, &args, "[sub(v, #3) > 1]");
  LINK(RG_OP_SUB, .load = 1, .with = 0, .store = 1, .reversed = 1);
  says(false, &arg, &args,
       "[{\"op\": \"sub\", \"type\": \"f32\", \"load\": 1, \"with\": 0, \"reversed\": 1, "
       "\"store\": 1}]");
  says(true, &arg, &args, "[sub(#1, #2) > 2]");
  LINK(RG_OP_DIV, .load = RG_FUSED_NONE, .with = RG_FUSED_NUMBER, .store = RG_FUSED_NONE,
       .number = 0.5);
  says(false, &arg, &args, "[{\"op\": \"div\", \"type\": \"f32\", \"number\": 0.5}]");
  says(true, &arg, &args, "[div(v, 0.5)]");
  l->reversed = 1;
  says(true, &arg, &args, "[div(0.5, v)]");
  LINK(RG_OP_MUL, .load = 3, .with = RG_FUSED_VALUE, .store = RG_FUSED_NONE);
  says(false, &arg, &args,
       "[{\"op\": \"mul\", \"type\": \"f32\", \"load\": 3, \"with\": \"value\"}]");
  says(true, &arg, &args, "[mul(#4, #4)]"); /* the same value */
  LINK(RG_OP_ACT_BACK, .load = RG_FUSED_NONE, .with = 1, .store = RG_FUSED_NONE,
       .act = RG_ACT_GELU);
  says(false, &arg, &args,
       "[{\"op\": \"act_back\", \"type\": \"f32\", \"with\": 1, \"act\": \"gelu\"}]");
  says(true, &arg, &args, "[act_back(v, #2, \"gelu\")]");
  l->act = RG_ACT_COUNT; /* none that there is */
  says(false, &arg, &args, "[{\"op\": \"act_back\", \"type\": \"f32\", \"with\": 1}]");
  LINK(RG_FUSED_CAST, .load = RG_FUSED_NONE, .with = RG_FUSED_NONE, .store = RG_FUSED_NONE);
  args.links.n = 2;
  args.links.at[1] = nothing;
  args.links.at[1].id = RG_OP_NEG;
  args.links.at[1].dtype = RG_F16;
  l->dtype = RG_BF16;
  says(false, &arg, &args,
       "[{\"op\": \"cast\", \"type\": \"bf16\"}, {\"op\": \"neg\", \"type\": \"f16\"}]");
  says(true, &arg, &args, "[cast(v): bf16; neg(v)]");
#undef LINK
}

/* An argument that a call without it has, too, is not printed. */
static void test_defaults(void)
{
  const rg_arg i32 = ARG(i32, NUMBER, 2);
  const rg_arg u32 = ARG(u32, NUMBER, 4294967295.0);
  const rg_arg i64 = ARG(i64, NUMBER, -5);
  const rg_arg f64 = ARG(f64, NUMBER, 0.1);
  const rg_arg pair = ARG(i64x2, NUMBER, 1);
  const rg_arg given = ARG(f64, NUMBER, NAN);
  const rg_arg sizes = ARG(sizes, SHAPE, 0);
  everything args = { .i32 = 2, .u32 = 4294967295u, .i64 = -5, .f64 = 0.1, .i64x2 = { 1, 1 } };

  ok(rg_ir_arg_is_default(&i32, &args), "i32");
  ok(rg_ir_arg_is_default(&u32, &args), "u32");
  ok(rg_ir_arg_is_default(&i64, &args), "i64");
  ok(rg_ir_arg_is_default(&f64, &args), "f64");
  ok(rg_ir_arg_is_default(&pair, &args), "both of a pair");
  ok(!rg_ir_arg_is_default(&sizes, &args), "a list has none");
  ok(!rg_ir_arg_is_default(&given, &args), "nor what has to be given");
  args = (everything){ .i32 = 3, .u32 = 4294967294u, .i64 = 5, .f64 = 0.2, .i64x2 = { 2, 1 } };
  ok(!rg_ir_arg_is_default(&i32, &args), "another i32");
  ok(!rg_ir_arg_is_default(&u32, &args), "another u32");
  ok(!rg_ir_arg_is_default(&i64, &args), "another i64");
  ok(!rg_ir_arg_is_default(&f64, &args), "another f64");
  ok(!rg_ir_arg_is_default(&pair, &args), "another first of a pair");
  args.i64x2[0] = 1;
  args.i64x2[1] = 2;
  ok(!rg_ir_arg_is_default(&pair, &args), "another second");
}

static void test_unknown(void)
{
  rg_arg arg = ARG(i32, NUMBER, 0);
  const everything args = { 0 };
  rg_ir_out o = { 0 };
  const char *text = NULL;
  rg_graph *g;

  must(rg_ir_new(&g));
  arg.type = 99;
  rg_ir_put_arg(&o, &arg, &args);
  ok(o.unknown == &arg, "a type that has no text");
  is_status(rg_ir_show(g, &o, &text), RG_EBUG, "is refused");
  ok(SAYS("argument i32 is of type 99, which has no text"), "by its name");
  rg_graph_release(g);
}

/* -- Text that grows ------------------------------------------------------------------------- */

static void test_growing(void)
{
  rg_ir_out o = { 0 };
  char want[20001];
  bool same = true;

  for (int32_t i = 0; i < 20000; i++) {
    want[i] = (char)('a' + i % 26);
    want[i + 1] = '\0';
    rg_ir_put(&o, "%c", want[i]);
    same = same && o.data[o.n] == '\0';
  }
  ok(same && o.n == 20000 && strcmp(o.data, want) == 0, "one after the other");
  rg_ir_put_text(&o, want); /* more than twice the room at once */
  rg_ir_put_text(&o, want);
  ok(o.n == 60000 && strcmp(o.data + 40000, want) == 0, "and all at once");
  rg_host_free(o.data);
  o = (rg_ir_out){ 0 };
  rg_ir_put_text(&o, "ab\ncd");
  rg_ir_put_to(&o, 3, 4);
  rg_ir_put_text(&o, "e");
  rg_ir_put_to(&o, 3, 4);
  ok(strcmp(o.data, "ab\ncd  e ") == 0, "up to a column, and at least one space");
  rg_host_free(o.data);
}

/* -- Graphs ---------------------------------------------------------------------------------- */

static void is_text(rg_graph *g, const char *want, const char *what)
{
  const char *text = "";

  must(rg_graph_print(g, &text));
  if (!ok(strcmp(text, want) == 0, what)) {
    printf("#   got %s\n", text);
  }
}

/* All that can stand behind a node, in its order, and in the list of what comes out. */
static void test_comments(void)
{
  const rg_binary_args halved = { .scalar = 1, .value = 0.5 };
  rg_graph *g;

  must(rg_ir_new(&g));
  int32_t x = outside(g, RG_VALUE_INPUT, "", 2, 3);
  int32_t y = node_of(g, rg_ops[RG_OP_MUL], &x, 1, &halved, -1);
  int32_t z = node_of(g, &rg_op_relu, &y, 1, NULL, y);
  rg_ir_node *node = rg_ir_node_at(g, producer(g, z));
  rg_graph_modes modes = *rg_ir_modes_of(g, node->modes);

  is_text(g,
          "graph of 2 nodes, 0 outputs\n"
          "  %0: f32[2,3]                                      input\n"
          "  %1: f32[2,3] = mul(%0) {scalar=1, value=0.5}\n"
          "  %2: f32[2,3] = relu(%1)                           ; writes %1\n",
          "without names");
  modes.autocast = RG_BF16;
  must(rg_ir_modes_add(g, &modes, &node->modes));
  node->recomputed = true;
  node->derived = true;
  node->unwritten = true;
  node->module = text_in(g, "block.act");
  node->line = text_in(g, "a.lua:1");
  returned(g, z, "");
  must(rg_ir_graph_output(g, &(rg_ir_output){ .value = z,
                                              .kind = RG_OUTPUT_GRADIENT,
                                              .name = text_in(g, "w"),
                                              .line = text_in(g, "a.lua:2") }));
  must(rg_ir_graph_output(
      g, &(rg_ir_output){ .value = y, .kind = RG_OUTPUT_KEPT, .line = text_in(g, "a.lua:3") }));
  is_text(g,
          "graph of 2 nodes, 3 outputs\n"
          "  %0: f32[2,3]                                      input\n"
          "  %1: f32[2,3] = mul(%0) {scalar=1, value=0.5}\n"
          "  %2: f32[2,3] = relu(%1)                           ; writes %1  autocast bf16  "
          "recomputed  derived  unwritten  block.act  a.lua:1\n"
          "  return %2\n"
          "  gradient %2 w  ; a.lua:2\n"
          "  keep %1  ; a.lua:3\n",
          "and with everything");
  rg_graph_release(g);
}

/* Every mode that is another one than a process begins with, and types that no record says. */
static void test_modes(void)
{
  static const struct {
    size_t offset;
    int32_t value;
    const char *want;
  } each[] = {
    { offsetof(rg_graph_modes, vendor), 0, "no vendor" },
    { offsetof(rg_graph_modes, autotune), 0, "no autotune" },
    { offsetof(rg_graph_modes, autotune), 2, "autotune 2" },
    { offsetof(rg_graph_modes, deterministic), 1, "deterministic" },
    { offsetof(rg_graph_modes, tf32), 1, "tf32" },
    { offsetof(rg_graph_modes, gemm), RG_GEMM_ONEDNN, "gemm onednn" },
    { offsetof(rg_graph_modes, autocast), RG_F32, "autocast f32" },
    { offsetof(rg_graph_modes, layout), RG_NHWC, "layout 1" },
    { offsetof(rg_graph_modes, compute), RG_F32, "compute f32" },
    { offsetof(rg_graph_modes, weight_cast), RG_BF16, "weight_cast bf16" },
    { offsetof(rg_graph_modes, vendor), 1, NULL },
    { offsetof(rg_graph_modes, autotune), 1, NULL },
  };

  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    rg_graph *g;
    char want[256];

    must(rg_ir_new(&g));
    int32_t x = outside(g, RG_VALUE_INPUT, "x", 2, 3);
    rg_ir_node *node = rg_ir_node_at(g, producer(g, unary(g, &rg_op_relu, x)));
    rg_graph_modes modes = *rg_ir_modes_of(g, node->modes);

    *(int32_t *)(void *)((char *)&modes + each[i].offset) = each[i].value;
    must(rg_ir_modes_add(g, &modes, &node->modes));
    (void)snprintf(want, sizeof(want),
                   "graph of 1 node, 0 outputs\n"
                   "  %%0: f32[2,3]                                      input x\n"
                   "  %%1: f32[2,3] = relu(%%0)%s%s\n",
                   each[i].want != NULL ? "                           ; " : "",
                   each[i].want != NULL ? each[i].want : "");
    is_text(g, want, "a mode");
    rg_graph_release(g);
  }
}

/* What comes in and what is written, where the order is not that of the values. */
static void test_orders(void)
{
  const char *want = "graph of 2 nodes, 0 outputs\n"
                     "  %0: f32[2,3]                                      input\n"
                     "  %1: f32[2,3]                                      input\n"
                     "  %2: f32[2,3] = relu(%0)                           ; writes %0\n"
                     "  %3: f32[2,3] = relu(%1)                           ; writes %1\n"
                     "  inputs %1 %0\n"
                     "  states %1 %0\n";
  rg_graph *back;

  must(rg_graph_parse(want, (int64_t)strlen(want), &back));
  is_int(rg_ir_input_at(back, 0), 1, "the first input");
  is_int(rg_ir_state_at(back, 1), 0, "the last state");
  is_text(back, want, "and the text again");
  rg_graph_release(back);
}

/* A number that no value has yet is none, the very next one, too: what lies behind the list of
** values is not read.  Memory that is new is full of a pattern, whatever was there before. */
static void test_next_number(void)
{
  rg_graph *g = NULL;

  (void)mallopt(M_PERTURB, 0x5a);
  for (int n = 1; n <= 40; n++) {
    char text[64 * 48];
    size_t at = (size_t)snprintf(text, sizeof(text),
                                 "graph of %d node%s, 0 outputs\n  %%0: f32[2,3]  input\n", n,
                                 n == 1 ? "" : "s");

    for (int i = 1; i <= n; i++) {
      at += (size_t)snprintf(text + at, sizeof(text) - at, "  %%%d: f32[2,3] = relu(%%%d)\n", i,
                             i < n ? i - 1 : i);
    }
    is_status(rg_graph_parse(text, (int64_t)at, &g), RG_EFORMAT, "a value of its own");
    ok(SAYS("is read before a node makes it"), "which says so");
  }
  (void)mallopt(M_PERTURB, 0);
}

/* Costs stand in a file where one of them is there. */
static void test_costs(void)
{
  for (int32_t i = 0; i < 4; i++) {
    rg_graph *g;
    const char *text = "";

    must(rg_ir_new(&g));
    int32_t y = unary(g, &rg_op_relu, outside(g, RG_VALUE_INPUT, "x", 2, 3));

    rg_ir_node_at(g, producer(g, y))->flops = i & 1;
    rg_ir_node_at(g, producer(g, y))->bytes = i >> 1;
    must(rg_graph_json(g, &text));
    ok((strstr(text, i & 1 ? "\"flops\": 1, " : "\"flops\": 0, ") != NULL) == (i > 0) &&
           (strstr(text, i >> 1 ? "\"bytes\": 1}" : "\"bytes\": 0}") != NULL) == (i > 0),
       "costs");
    rg_graph_release(g);
  }
}

int main(void)
{
  test_modes();
  test_costs();
  test_orders();
  test_next_number();
  test_whole();
  test_lists();
  test_doubles();
  test_links();
  test_defaults();
  test_unknown();
  test_growing();
  test_comments();
  return done();
}
